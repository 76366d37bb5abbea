// SPDX-License-Identifier: Apache-2.0
// From program bytes to a plan, and the cache of plans.
#include "owner/PlanCache.h"

#include "dialect/CoreForm.h"
#include "owner/Limits.h"
#include "owner/RequestError.h"
#include "owner/Text.h"
#include "passes/Dependence.h"
#include "passes/privacy/Inputs.h"
#include "runtime/Stop.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

namespace sojourn::owner {

using llvm::Twine;

size_t Plan::bytes() const {
  return sizeof(Plan) + program.size() + debug.size() + text.size() + facts.bytes() + executable->planBytes();
}

llvm::Error checkLibraryCalls(mlir::ModuleOp core, const runtime::Executable &executable, const PriceLimits &limits) {
  if (limits.callSeconds <= 0) {
    return llvm::Error::success();
  }
  std::vector<mlir::Operation *> ops;
  for (mlir::Operation &op : core.lookupSymbol<mlir::func::FuncOp>(kStepName).getBody().front()) {
    ops.push_back(&op);
  }
  for (const runtime::LibraryCalls &calls : executable.libraryCalls()) {
    mlir::Operation *op = ops[calls.op];
    const double seconds = librarySeconds(op) / static_cast<double>(calls.count);
    if (seconds > limits.callSeconds) {
      const std::string times =
          llvm::formatv("{0} seconds, expected at most {1}", llvm::format(seconds < 10 ? "%.2g" : "%.0f", seconds),
                        llvm::format("%g", limits.callSeconds))
              .str();
      return requestError(wire::ErrorCode_Limit,
                          Twine(calls.count > 1 ? "one of its calls" : "its call") +
                              " of the kernel library would take about " + times +
                              " (call_seconds): no step can be ended during one; make its operands smaller",
                          op->getName().stripDialect().str(), runtime::describeLocation(op->getLoc()));
    }
  }
  return llvm::Error::success();
}

llvm::Expected<std::shared_ptr<const Plan>> makePlan(llvm::StringRef program, llvm::StringRef debug,
                                                     const PriceLimits &limits) {
  // A context of its own: what a program brings into it goes when the plan is made.
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = runtime::decodeProgram(context, program, debug);
  if (!module) {
    return module.takeError();
  }
  // Nothing is built for a program that costs too much.
  if (std::optional<PriceExcess> excess = findExcess(**module, limits)) {
    return requestError(wire::ErrorCode_Limit, excess->message, excess->op->getName().stripDialect().str(),
                        runtime::describeLocation(excess->op->getLoc()));
  }
  auto plan = std::make_shared<Plan>();
  runtime::ProgramFacts &facts = plan->facts;
  facts.operations = priceOf(**module).operations;
  plan->program = program.str();
  plan->debug = debug.str();
  plan->text = printable(runtime::printProgram(**module, kProgramTextBytes), kProgramTextBytes);
  facts.textDigest = runtime::hashProgram(plan->text);
  (*module)->walk(
      [&](mlir::Operation *op) { facts.ops += op->getDialect() && op->getDialect()->getNamespace() == "sojourn"; });
  if (runtime::isStopped()) {
    return requestError(wire::ErrorCode_Stopped, "the step was stopped while its program was planned");
  }
  facts.samplesRows = samplesRows((*module)->lookupSymbol<mlir::func::FuncOp>(kStepName));
  std::string reason;
  std::optional<DependenceSummary> dependence = dependenceOf(**module, reason);
  if (!dependence) {
    return requestError(wire::ErrorCode_Limit, reason);
  }
  facts.dependence = std::move(*dependence);
  auto executable = runtime::Executable::create(**module);
  if (!executable) {
    return executable.takeError();
  }
  if (llvm::Error error = checkLibraryCalls(**module, **executable, limits)) {
    return error;
  }
  plan->executable = std::move(*executable);
  facts.args = plan->executable->args();
  facts.results = plan->executable->results();
  facts.memory = plan->executable->runMemory();
  if (llvm::Error error = facts.count()) {
    return error;
  }
  return plan;
}

std::shared_ptr<const Plan> PlanCache::find(const PlanKey &key) {
  auto found = index.find(key);
  if (found == index.end()) {
    return nullptr;
  }
  recent.splice(recent.begin(), recent, found->second);
  return found->second->plan;
}

std::vector<std::shared_ptr<const Plan>> PlanCache::insert(const PlanKey &key, std::shared_ptr<const Plan> &plan,
                                                           const std::string &account) {
  if (auto present = find(key)) {
    std::vector<std::shared_ptr<const Plan>> second{std::move(plan)};
    plan = std::move(present);
    return second;
  }
  recent.push_front({key, plan, account});
  index[key] = recent.begin();
  counts.add(account, 1);
  total.add(account, plan->bytes());
  std::vector<std::shared_ptr<const Plan>> gone;
  auto isBeyond = [](const Shares &shares, const std::string &whose) {
    return shares.used(whose) > shares.share(whose);
  };
  // Each account makes room for its own plans first.
  for (auto at = recent.end(); at != std::next(recent.begin());) {
    auto entry = std::prev(at);
    const bool isTooMuch = isBeyond(counts, account) || isBeyond(total, account);
    if (isTooMuch && entry->account == account) {
      drop(entry, gone);
    } else if (isTooMuch) {
      at = entry;
    } else {
      break;
    }
  }
  while (recent.size() > 1 && (counts.used() > plansMost || total.used() > bytesMost)) {
    drop(std::prev(recent.end()), gone);
  }
  return gone;
}

void PlanCache::drop(std::list<Entry>::iterator entry, std::vector<std::shared_ptr<const Plan>> &gone) {
  counts.remove(entry->account, 1);
  total.remove(entry->account, entry->plan->bytes());
  gone.push_back(std::move(entry->plan));
  index.erase(entry->key);
  recent.erase(entry);
}

} // namespace sojourn::owner
