// SPDX-License-Identifier: Apache-2.0
// From program bytes to code, and runs (see Worker.h).
#include "owner/worker/Worker.h"

#include "dialect/CoreForm.h"
#include "owner/RequestError.h"
#include "owner/worker/JointPart.h"
#include "owner/worker/ProgramCode.h"
#include "passes/Dependence.h"
#include "passes/Price.h"
#include "passes/privacy/Inputs.h"
#include "passes/privacy/RowLists.h"
#include "runtime/Program.h"
#include "runtime/Stop.h"
#include "runtime/parties/JointCode.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

namespace sojourn::owner {

using llvm::Twine;

const Worker &cpuWorker() {
  static const Worker worker(runtime::cpuEngine());
  return worker;
}

llvm::Error checkLibraryCalls(mlir::ModuleOp core, const runtime::Code &code, const PriceLimits &limits) {
  if (limits.callSeconds <= 0) {
    return llvm::Error::success();
  }
  std::vector<mlir::Operation *> ops;
  for (mlir::Operation &op : core.lookupSymbol<mlir::func::FuncOp>(kStepName).getBody().front()) {
    ops.push_back(&op);
  }
  for (const runtime::LibraryCalls &calls : code.libraryCalls()) {
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

/// With what members send each other, before the program, and where values lie, beside each op.
static std::string textOfJoint(mlir::ModuleOp joint, const parties::Placement &placement, bool isMasked) {
  const std::string exchanges = parties::exchangesText(
      placement, joint.lookupSymbol<mlir::func::FuncOp>(kStepName), kProgramTextBytes / 4,
      [&](mlir::Operation *op) { return isMasked && parties::isMaskable(placement, op); }, runtime::describeLocation);
  std::string text = "// a step of " + std::to_string(placement.parties()) + " owners\n";
  for (llvm::StringRef line : llvm::split(llvm::StringRef(exchanges).rtrim(), '\n')) {
    text += line.empty() ? "" : "// " + line.str() + "\n";
  }
  const size_t left = kProgramTextBytes - std::min(text.size(), kProgramTextBytes);
  return text + runtime::printProgram(joint, left, [&](mlir::Operation *op) { return parties::noteOf(placement, op); });
}

llvm::Expected<DescribedProgram> Worker::describe(llvm::StringRef program, llvm::StringRef debug,
                                                  const PriceLimits &limits) const {
  return describe(runtime::copyOf(program.data(), program.size()), runtime::copyOf(debug.data(), debug.size()), limits);
}

llvm::Expected<DescribedProgram> Worker::describe(std::shared_ptr<const runtime::Buffer> program,
                                                  std::shared_ptr<const runtime::Buffer> debug,
                                                  const PriceLimits &limits, const RoleOfGroup &role) const {
  // A separate context: all that a program brings into it goes when the code is made.
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = runtime::decodeProgram(context, textOf(*program), textOf(*debug));
  if (!module) {
    return module.takeError();
  }
  std::optional<JointPart> joint;
  if (role.parties > 0) {
    auto part = jointPartOf(**module, role);
    if (!part) {
      return part.takeError();
    }
    joint.emplace(std::move(*part));
  }
  mlir::ModuleOp own = joint ? *joint->part.module : **module;
  // Nothing is built for a program that costs too much.
  if (std::optional<PriceExcess> excess = findExcess(own, limits)) {
    return requestError(wire::ErrorCode_Limit, excess->message, excess->op->getName().stripDialect().str(),
                        runtime::describeLocation(excess->op->getLoc()));
  }
  DescribedProgram described;
  described.text = joint ? textOfJoint(**module, *joint->placement, role.isMasked)
                         : runtime::printProgram(**module, kProgramTextBytes);
  runtime::ProgramFacts facts;
  facts.operations = priceOf(own).operations;
  (*module)->walk(
      [&](mlir::Operation *op) { facts.ops += op->getDialect() && op->getDialect()->getNamespace() == "sojourn"; });
  if (runtime::isStopped()) {
    return requestError(wire::ErrorCode_Stopped, "the step was stopped while its program was planned");
  }
  facts.samplesRows = samplesRows(own.lookupSymbol<mlir::func::FuncOp>(kStepName));
  std::string reason;
  std::optional<DependenceSummary> dependence = dependenceOf(own, reason);
  if (!dependence) {
    return requestError(wire::ErrorCode_Limit, reason);
  }
  facts.dependence = std::move(*dependence);
  auto check = [&](mlir::ModuleOp core, const runtime::Code &code) { return checkLibraryCalls(core, code, limits); };
  auto step = joint ? runtime::prepareJoint(engine, own, check) : engine.prepare(own);
  if (!step) {
    return step.takeError();
  }
  if (llvm::Error error = joint ? llvm::Error::success() : check(own, **step)) {
    return error;
  }
  facts.args = (*step)->args();
  facts.results = (*step)->results();
  facts.memory = (*step)->runMemory();
  if (joint) {
    facts.joint = std::move(joint->facts);
  }
  if (llvm::Error error = facts.count()) {
    return error;
  }
  auto code = std::make_shared<ProgramCode>();
  code->step = std::move(*step);
  code->program = std::move(program);
  code->debug = std::move(debug);
  unsigned next = 0;
  for (const runtime::ResultSpec &result : facts.results) {
    code->published.push_back(result.kind == StepResult::Publish ? std::optional(next++) : std::nullopt);
  }
  if (facts.joint) {
    code->copies = facts.joint->copies;
  }
  described.codeBytes = sizeof(ProgramCode) + code->step->bytes() + code->program->size() + code->debug->size();
  described.code = std::move(code);
  described.facts = runtime::writeFacts(facts);
  return described;
}

std::optional<double> Worker::errorOf(const PrivateCode &code, size_t result, ArgumentValues values) const {
  const auto deviations = code.forms[result] ? code.forms[result]->deviations(values) : std::nullopt;
  return deviations ? std::optional(*llvm::max_element(*deviations)) : std::nullopt;
}

llvm::Error Worker::checkRowLists(const PrivateCode &code, llvm::ArrayRef<runtime::Binding> bindings,
                                  const runtime::RunOptions &options) const {
  auto check = [&](const runtime::Code &program, llvm::ArrayRef<runtime::Binding> arguments) -> llvm::Error {
    auto lists = program.run(arguments, options); // of slots and uploads: no row is read
    if (!lists) {
      return lists.takeError();
    }
    for (auto [list, spec] : llvm::zip(*lists, program.results())) {
      const auto *rows = static_cast<const int64_t *>(list.buffer->data());
      const auto isTwice = namesRowTwice({rows, list.type.bytes() / sizeof(int64_t)},
                                         [&] { return options.stop != nullptr && options.stop->load(); });
      if (!isTwice) {
        return requestError(wire::ErrorCode_Stopped, "the step was stopped", spec.op, spec.location);
      }
      if (*isTwice) {
        return requestError(wire::ErrorCode_Refused,
                            "this step would read a private table at duplicate row numbers; each row counts once: take "
                            "batches of the table, or all of its rows",
                            spec.op, spec.location);
      }
    }
    return llvm::Error::success();
  };
  if (code.fixedLists && !code.areFixedListsChecked) {
    if (llvm::Error error = check(*code.fixedLists, {})) {
      return error;
    }
    code.areFixedListsChecked = true;
  }
  return code.sentLists ? check(*code.sentLists, bindings) : llvm::Error::success();
}

std::string Worker::lacksForPrivateTables() const {
  for (runtime::EngineTrait trait : runtime::kEngineTraits) {
    if (std::string reason = engine.lacks(trait); !reason.empty()) {
      return ("the required noise is not known: it rests on " + runtime::textOf(trait) + ", which the engine '" +
              engine.name() + "' does not guarantee: " + reason)
          .str();
    }
  }
  return "";
}

} // namespace sojourn::owner
