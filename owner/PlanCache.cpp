// SPDX-License-Identifier: Apache-2.0
// From program bytes to a plan, and the cache of plans.
#include "owner/PlanCache.h"

#include "owner/RequestError.h"
#include "owner/Text.h"
#include "runtime/Limits.h"

#include "mlir/IR/MLIRContext.h"

#include <algorithm>

namespace sojourn::owner {

using llvm::Twine;
using runtime::ArgKind;
using runtime::ArgSpec;
using runtime::Element;
using runtime::ResultKind;

namespace {

llvm::Error checkArgument(size_t index, const ArgSpec &spec, Plan &plan) {
  auto wrong = [&](const char *kind, const char *expected) {
    return requestError(wire::ErrorCode_Unsupported,
                        "argument " + Twine(index) + " is a " + kind + " of rank " + Twine(spec.type.rank()) +
                            " and element " + runtime::elementName(spec.type.element) + ", expected " + expected);
  };
  Element element = spec.type.element;
  switch (spec.kind) {
  case ArgKind::state: ++plan.states; break;
  case ArgKind::upload: ++plan.uploads; break;
  case ArgKind::slot:
    ++plan.slots;
    if (spec.type.rank() || (element != Element::f64 && element != Element::i64 && element != Element::i1)) {
      return wrong("slot", "tensor<f64>, tensor<i64> or tensor<i1>");
    }
    break;
  case ArgKind::seed:
    ++plan.seeds;
    if (spec.type.rank() || element != Element::i64) {
      return wrong("seed", "tensor<i64>");
    }
    break;
  case ArgKind::table: ++plan.tables; break;
  }
  return llvm::Error::success();
}

/// The decoder checked all this on its own terms; the commit rests on it, so it is checked where
/// it is used.
llvm::Error checkSignature(Plan &plan) {
  auto args = plan.executable->args();
  auto results = plan.executable->results();
  for (size_t index = 0; index < args.size(); ++index) {
    if (llvm::Error error = checkArgument(index, args[index], plan)) {
      return error;
    }
  }
  std::vector<bool> committed(args.size());
  for (size_t index = 0; index < results.size(); ++index) {
    const runtime::ResultSpec &spec = results[index];
    if (spec.dependsOn.size() != args.size()) {
      return requestError(wire::ErrorCode_Internal, "result " + Twine(index) + " has no complete dependency record");
    }
    if (spec.kind == ResultKind::keep) {
      ++plan.keeps;
      plan.keepBytes += spec.type.bytes();
    } else if (spec.kind == ResultKind::publish) {
      plan.publishBytes += spec.type.bytes();
    } else if (spec.target >= args.size() || args[spec.target].kind != ArgKind::state ||
               !(args[spec.target].type == spec.type) || committed[spec.target]) {
      return requestError(wire::ErrorCode_Malformed,
                          "result " + Twine(index) + " commits to argument " + Twine(spec.target) +
                              ", expected a state of the same type that nothing else commits to");
    } else {
      committed[spec.target] = true;
    }
  }
  return llvm::Error::success();
}

bool covers(const std::shared_ptr<const Label> &label, const Label &part) {
  return std::includes(label->sources.begin(), label->sources.end(), part.sources.begin(), part.sources.end());
}

} // namespace

const std::vector<std::shared_ptr<const Label>> &
Plan::joinLabels(const std::vector<std::shared_ptr<const Label>> &labels) {
  if (labels == argLabels && resultLabels.size() == executable->results().size()) {
    return resultLabels;
  }
  static const auto own = std::make_shared<const Label>();
  std::vector<std::shared_ptr<const Label>> joined;
  for (const runtime::ResultSpec &spec : executable->results()) {
    std::shared_ptr<const Label> label = own;
    for (int argument : spec.dependsOn.set_bits()) {
      const auto &other = labels[static_cast<size_t>(argument)];
      if (!other || other == label || covers(label, *other)) {
        continue;
      }
      if (covers(other, *label)) {
        label = other;
      } else {
        auto both = std::make_shared<Label>(*label);
        both->join(*other);
        label = std::move(both);
      }
    }
    joined.push_back(std::move(label));
  }
  argLabels = labels;
  resultLabels = std::move(joined);
  return resultLabels;
}

llvm::Expected<std::shared_ptr<Plan>> makePlan(llvm::StringRef program, llvm::StringRef debug) {
  // A context of its own: what a program brings into it goes when the plan is made.
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = runtime::decodeProgram(context, program, debug);
  if (!module) {
    return module.takeError();
  }
  auto plan = std::make_shared<Plan>();
  plan->text = printable(runtime::printProgram(**module, runtime::limits::kProgramTextBytes),
                         runtime::limits::kProgramTextBytes);
  (*module)->walk(
      [&](mlir::Operation *op) { plan->ops += op->getDialect() && op->getDialect()->getNamespace() == "sojourn"; });
  auto executable = runtime::Executable::create(**module);
  if (!executable) {
    return executable.takeError();
  }
  plan->executable = std::move(*executable);
  if (llvm::Error error = checkSignature(*plan)) {
    return error;
  }
  return plan;
}

std::shared_ptr<Plan> PlanCache::find(const PlanKey &key) {
  auto found = index.find(key);
  if (found == index.end()) {
    return nullptr;
  }
  recent.splice(recent.begin(), recent, found->second);
  return found->second->second;
}

void PlanCache::insert(const PlanKey &key, std::shared_ptr<Plan> plan) {
  recent.emplace_front(key, std::move(plan));
  index[key] = recent.begin();
  while (recent.size() > capacity) {
    index.erase(recent.back().first);
    recent.pop_back();
  }
}

} // namespace sojourn::owner
