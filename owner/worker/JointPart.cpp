// SPDX-License-Identifier: Apache-2.0
// Parts of joint programs, and what of them other roles see (see JointPart.h).
#include "owner/worker/JointPart.h"

#include "dialect/CoreForm.h"
#include "dialect/OwnerOps.h"
#include "owner/RequestError.h"
#include "runtime/Program.h"
#include "runtime/parties/JointCode.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/DenseSet.h"

#include <optional>

namespace sojourn::owner {

using llvm::Twine;

using runtime::Shown;

/// Arguments on which values depend, as far as exchanges: sums are known to all from there on.
class ArgumentsReached {
public:
  void reach(mlir::Value value) {
    if (reached.insert(value).second) {
      left.push_back(value);
    }
  }
  void each(llvm::function_ref<void(unsigned)> visit) {
    while (!left.empty()) {
      const mlir::Value value = left.back();
      left.pop_back();
      if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(value)) {
        visit(argument.getArgNumber());
      } else if (mlir::Operation *made = value.getDefiningOp(); !mlir::isa<AcrossSumOp>(made)) {
        llvm::for_each(made->getOperands(), [this](mlir::Value operand) { reach(operand); });
      }
    }
  }

private:
  llvm::DenseSet<mlir::Value> reached;
  std::vector<mlir::Value> left;
};

/// Marks the arguments of the part on which terms depend that the role sends: those that are masked, or those that are
/// not.
static void markShown(mlir::func::FuncOp step, unsigned role, bool isMasked, runtime::JointFacts &facts) {
  ArgumentsReached reached;
  for (AcrossSumOp sum : step.getOps<AcrossSumOp>()) {
    for (auto [index, term] : llvm::enumerate(sum.getTerms())) {
      if ((sum.getFrom()[index] >> role & 1) && sum.isMasked(index) == isMasked) {
        reached.reach(term);
        if (!isMasked && facts.clearOp.empty()) {
          mlir::Operation *made = term.getDefiningOp() ? term.getDefiningOp() : sum.getOperation();
          facts.clearOp = made->getName().stripDialect();
          facts.clearLocation = runtime::describeLocation(made->getLoc());
        }
      }
    }
  }
  reached.each([&](unsigned argument) { facts.shown[argument] = isMasked ? Shown::Sums : Shown::Clear; });
}

/// Results that all roles have, and the states that all have on which these depend: members compare them.
static void findCopies(mlir::func::FuncOp own, mlir::func::FuncOp joint, const parties::Placement &placement,
                       const parties::RolePart &part, runtime::JointFacts &facts) {
  ArgumentsReached reached;
  mlir::Operation *exit = own.getBody().front().getTerminator();
  for (auto [result, index] : llvm::enumerate(part.results)) {
    if (placement.whereOfResult(index).isAll()) {
      facts.copies.push_back(static_cast<uint32_t>(result));
      reached.reach(exit->getOperand(static_cast<unsigned>(result)));
    }
  }
  reached.each([&](unsigned argument) {
    const unsigned index = part.arguments[argument];
    const auto kind = parseStepArg(joint.getArgAttrOfType<mlir::StringAttr>(index, kKindAttr).getValue());
    if (*kind == StepArg::State && placement.whereOf(joint.getArgument(index)).isAll()) {
      facts.copiedStates.push_back(argument);
    }
  });
  llvm::sort(facts.copiedStates);
}

/// The least rows of the role that a masked sum is over.
static std::optional<uint64_t> leastRowsOf(mlir::func::FuncOp joint, const parties::Placement &placement,
                                           unsigned role) {
  std::optional<uint64_t> least;
  for (mlir::Operation &op : joint.getBody().front().without_terminator()) {
    if (parties::isMaskable(placement, &op) && (placement.meetingOf(&op) >> role & 1)) {
      const auto rows = static_cast<uint64_t>(parties::rowsAt(*placement.rowsSummed(&op), role));
      least = std::min(least.value_or(rows), rows);
    }
  }
  return least;
}

static runtime::JointFacts factsOf(mlir::func::FuncOp joint, const parties::Placement &placement,
                                   const parties::RolePart &part, const RoleOfGroup &role) {
  runtime::JointFacts facts;
  facts.role = role.role;
  facts.parties = role.parties;
  std::vector<uint32_t> position(joint.getNumArguments());
  for (unsigned index = 0; index < joint.getNumArguments(); ++index) {
    const auto kind = parseStepArg(joint.getArgAttrOfType<mlir::StringAttr>(index, kKindAttr).getValue());
    position[index] = facts.counts[static_cast<size_t>(*kind)]++;
  }
  for (unsigned index : part.arguments) {
    facts.positions.push_back(position[index]);
  }
  std::vector<std::optional<uint32_t>> kept(joint.getNumResults());
  for (unsigned index = 0; index < joint.getNumResults(); ++index) {
    const auto kind = parseStepResult(joint.getResultAttrOfType<mlir::StringAttr>(index, kResultAttr).getValue());
    if (kind == StepResult::Keep) {
      kept[index] = facts.keeps++;
    }
  }
  for (unsigned index : part.results) {
    if (kept[index]) {
      facts.kept.push_back(*kept[index]);
    }
  }
  mlir::ModuleOp module = *part.module;
  auto own = module.lookupSymbol<mlir::func::FuncOp>(kStepName);
  facts.shown.resize(own.getNumArguments());
  markShown(own, role.role, /*isMasked=*/true, facts);
  markShown(own, role.role, /*isMasked=*/false, facts);
  findCopies(own, joint, placement, part, facts);
  facts.exchanges = runtime::exchangesOf(module);
  facts.leastRows = role.isMasked ? leastRowsOf(joint, placement, role.role) : std::nullopt;
  return facts;
}

llvm::Expected<JointPart> jointPartOf(mlir::ModuleOp joint, const RoleOfGroup &role) {
  auto parties = joint->getAttrOfType<mlir::IntegerAttr>(kPartiesAttr);
  const int64_t count = parties ? parties.getInt() : 1;
  if (count != role.parties) {
    return requestError(wire::ErrorCode_Malformed,
                        "the program is of " + Twine(count) + (count == 1 ? " owner" : " owners") +
                            ", the group of this session has " + Twine(unsigned(role.parties)));
  }
  std::optional<RequestError> refusal;
  mlir::ScopedDiagnosticHandler handler(joint.getContext(), [&](mlir::Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && !refusal) {
      refusal.emplace(wire::ErrorCode_Unsupported, diagnostic.str(), "",
                      runtime::describeLocation(diagnostic.getLocation()));
    }
    return mlir::success();
  });
  auto step = joint.lookupSymbol<mlir::func::FuncOp>(kStepName);
  auto placement = parties::Placement::of(step);
  auto part = mlir::failed(placement) ? mlir::FailureOr<parties::RolePart>(mlir::failure())
                                      : parties::partOf(joint, **placement, role.role,
                                                        role.isMasked ? parties::Sums::Masked : parties::Sums::Clear);
  if (mlir::failed(part)) {
    return llvm::make_error<RequestError>(
        refusal ? *refusal : RequestError(wire::ErrorCode_Internal, "the program has no parts, for no reason given"));
  }
  runtime::JointFacts facts = factsOf(step, **placement, *part, role);
  return JointPart{std::move(*part), std::move(*placement), std::move(facts)};
}

} // namespace sojourn::owner
