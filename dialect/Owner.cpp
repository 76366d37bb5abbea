// SPDX-License-Identifier: Apache-2.0
// Verifiers of the owner's own form.
#include "dialect/Bounds.h"
#include "dialect/Families.h"
#include "dialect/OwnerOps.h"
#include "dialect/rows/Rules.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace sojourn;

LogicalResult ClippedSumOp::verify() {
  Block &body = getBody().front();
  if (body.getArgumentTypes() != getInputs().getTypes()) {
    return emitOpError() << "has a region with arguments of other types than its inputs";
  }
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield || yield.getValues().size() != getNumResults()) {
    return emitOpError() << "has " << getNumResults() << " results, expected as many as its region yields";
  }
  for (auto [value, result] : llvm::zip(yield.getValues(), getResults())) {
    auto type = cast<RankedTensorType>(value.getType());
    if (result.getType() != type.clone(Float64Type::get(getContext()))) {
      return emitOpError() << "has a result of type " << result.getType() << " where its region yields " << type
                           << ", expected f64 of that shape";
    }
  }
  bool perLayer = getClip() == "per_layer";
  if (!perLayer && getClip() != "flat" && getClip() != "none") {
    return emitOpError() << "clip is \"" << getClip() << "\", expected \"flat\", \"per_layer\" or \"none\"";
  }
  size_t expected = perLayer ? getNumResults() : 1;
  if (getBounds().size() != expected) {
    return emitOpError() << "has " << getBounds().size() << " bounds, expected " << expected;
  }
  for (double bound : getBounds()) {
    if (!std::isfinite(bound) || bound <= 0) {
      return emitOpError() << "has the bound " << bound << ", expected a finite number above 0";
    }
  }
  if (getNorm() != 2 && (getNorm() != 1 || getClip() != "none")) {
    return emitOpError() << "norm is " << getNorm() << ", expected 2, or 1 where nothing is clipped";
  }
  if (getSlots().getType().getRank() != 1) {
    return emitOpError() << "slots have type " << getSlots().getType() << ", expected rank 1";
  }
  return success();
}

LogicalResult NoiseOp::verify() {
  if (getSums().empty() || getSums().size() != getNumResults()) {
    return emitOpError() << "has " << getSums().size() << " sums and " << getNumResults()
                         << " results, expected equal numbers of at least 1";
  }
  for (auto [sum, coin, result] : llvm::zip(getSums(), getCoins(), getResults())) {
    auto type = cast<RankedTensorType>(sum.getType());
    if (!type.getElementType().isF64() || cast<RankedTensorType>(coin.getType()).getShape() != type.getShape() ||
        cast<RankedTensorType>(result.getType()).getShape() != type.getShape()) {
      return emitOpError() << "has a sum of type " << type << ", coins of type " << coin.getType()
                           << " and a result of type " << result.getType()
                           << ", expected f64, i64 and a float of one shape";
    }
  }
  if (getDistribution() != "gaussian" && getDistribution() != "laplace") {
    return emitOpError() << "distribution is \"" << getDistribution() << "\", expected \"gaussian\" or \"laplace\"";
  }
  if (getExponent() < -900 || getExponent() > 900) {
    return emitOpError() << "exponent is " << getExponent() << ", expected one in [-900, 900]";
  }
  if (getScale() < 1 || getScale() > (int64_t(1) << 52)) {
    return emitOpError() << "scale is " << getScale() << ", expected one in [1, 2^52]";
  }
  return success();
}

LogicalResult AcrossSumOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                            SmallVectorImpl<Type> &results) {
  llvm::append_range(results, adaptor.getTerms().getTypes());
  return success();
}

LogicalResult AcrossSumOp::verify() {
  if (getTerms().empty() || getFrom().size() != getTerms().size()) {
    return emitOpError() << "has " << getTerms().size() << " operands and " << getFrom().size()
                         << " sets of roles, expected equal numbers of at least 1";
  }
  for (int64_t roles : getFrom()) {
    if (roles < 1 || roles >= int64_t{1} << bounds::kPartiesMost) {
      return emitOpError() << "from has the set " << roles << ", expected at least one of the roles 0 to "
                           << bounds::kPartiesMost - 1;
    }
  }
  if (getMasked() && getMasked()->size() != getTerms().size()) {
    return emitOpError() << "says of " << getMasked()->size() << " operands whether they are masked, expected "
                         << getTerms().size();
  }
  for (int64_t mark : getMasked().value_or(ArrayRef<int64_t>())) {
    if (mark != 0 && mark != 1) {
      return emitOpError() << "masked has " << mark << ", expected 0 or 1";
    }
  }
  for (auto [index, term] : llvm::enumerate(getTerms())) {
    const auto roles = static_cast<uint64_t>(getFrom()[index]);
    if (isMasked(index) && (!getElementTypeOrSelf(term.getType()).isInteger(64) ||
                            llvm::popcount(roles) < static_cast<int>(bounds::kMaskedRolesLeast))) {
      return emitOpError() << "operand #" << index << " is masked, of type " << term.getType() << " and of "
                           << llvm::popcount(roles) << " roles, expected integers of 64 bits of at least "
                           << bounds::kMaskedRolesLeast << " roles";
    }
  }
  return success();
}

uint64_t AcrossSumOp::getOperations() {
  uint64_t all = 0;
  for (Value term : getTerms()) {
    all = llvm::SaturatingAdd(all, cost::times({uint64_t{bounds::kPartiesMost}, cost::elements(term)}));
  }
  return all;
}

#define GET_OP_CLASSES
#include "dialect/OwnerOps.cpp.inc"

void sojourn::detail::registerOwnerOps(SojournDialect &dialect) {
  dialect.add<
#define GET_OP_LIST
#include "dialect/OwnerOps.cpp.inc"
      >();
}
