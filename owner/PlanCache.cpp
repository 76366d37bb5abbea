// SPDX-License-Identifier: Apache-2.0
// From program bytes to a plan, and the cache of plans.
#include "owner/PlanCache.h"

#include "owner/RequestError.h"
#include "owner/Text.h"
#include "passes/Price.h"
#include "runtime/Limits.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OperationSupport.h"

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
  if (plan.dependence.argumentCount() != args.size() || plan.dependence.resultCount() != results.size()) {
    return requestError(wire::ErrorCode_Internal, "the program has no complete record of what its results depend on");
  }
  for (size_t index = 0; index < results.size(); ++index) {
    const runtime::ResultSpec &spec = results[index];
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

std::string moduleText(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  mlir::OpPrintingFlags flags;
  flags.enableDebugInfo(/*enable=*/true, /*prettyForm=*/true).useLocalScope();
  module->print(stream, flags);
  return printable(text, runtime::limits::kProgramTextBytes);
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
  for (size_t result = 0; result < dependence.resultCount(); ++result) {
    std::shared_ptr<const Label> label = own;
    for (size_t argument : dependence.argumentsOf(result)) {
      const auto &other = labels[argument];
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
  // Before anything is built: what the program would cost.
  if (std::optional<PriceExcess> excess = findExcess(**module, PriceLimits())) {
    return runtime::makeError(runtime::ErrorCode::Limit, std::move(excess->message),
                              excess->op->getName().stripDialect().str(),
                              runtime::describeLocation(excess->op->getLoc()));
  }
  auto plan = std::make_shared<Plan>();
  std::string reason;
  std::optional<DependenceSummary> dependence = DependenceSummary::compute(**module, reason);
  if (!dependence) {
    return runtime::makeError(runtime::ErrorCode::Limit, std::move(reason));
  }
  plan->dependence = std::move(*dependence);
  plan->text = moduleText(**module);
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
