// SPDX-License-Identifier: Apache-2.0
// Parts of joint programs, and what of them other roles see (see JointPart.h).
#include "owner/worker/JointPart.h"

#include "dialect/CoreForm.h"
#include "dialect/OwnerOps.h"
#include "owner/RequestError.h"
#include "runtime/Program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/DenseSet.h"

#include <optional>

namespace sojourn::owner {

using llvm::Twine;

/// Marks the arguments of the part on which a term depends that the role sends.
static std::vector<uint8_t> shownArguments(mlir::func::FuncOp step, unsigned role) {
  std::vector<uint8_t> shown(step.getNumArguments());
  llvm::DenseSet<mlir::Value> reached;
  std::vector<mlir::Value> left;
  auto reach = [&](mlir::Value value) {
    if (reached.insert(value).second) {
      left.push_back(value);
    }
  };
  for (AcrossSumOp sum : step.getOps<AcrossSumOp>()) {
    for (auto [term, from] : llvm::zip_equal(sum.getTerms(), sum.getFrom())) {
      if (from >> role & 1) {
        reach(term);
      }
    }
  }
  while (!left.empty()) {
    const mlir::Value value = left.back();
    left.pop_back();
    if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(value)) {
      shown[argument.getArgNumber()] = 1;
    } else {
      llvm::for_each(value.getDefiningOp()->getOperands(), reach);
    }
  }
  return shown;
}

static runtime::JointFacts factsOf(mlir::func::FuncOp joint, const parties::RolePart &part, const RoleOfGroup &role) {
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
  facts.shown = shownArguments(module.lookupSymbol<mlir::func::FuncOp>(kStepName), role.role);
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
                                      : parties::partOf(joint, **placement, role.role);
  if (mlir::failed(part)) {
    return llvm::make_error<RequestError>(
        refusal ? *refusal : RequestError(wire::ErrorCode_Internal, "the program has no parts, for no reason given"));
  }
  runtime::JointFacts facts = factsOf(step, *part, role);
  return JointPart{std::move(*part), std::move(*placement), std::move(facts)};
}

} // namespace sojourn::owner
