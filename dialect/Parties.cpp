// SPDX-License-Identifier: Apache-2.0
// The attributes of a joint step: how many roles it has, and which role holds which argument.
#include "dialect/Base.h"
#include "dialect/Bounds.h"
#include "dialect/CoreForm.h"
#include "dialect/rows/Fact.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace sojourn;

LogicalResult PartsAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> roles,
                                ArrayRef<int64_t> rows, int64_t stride) {
  if (roles.size() < 2 || roles.size() != rows.size()) {
    return emitError() << "#sojourn.parts has " << roles.size() << " roles and " << rows.size()
                       << " numbers of rows, expected equal numbers of at least 2";
  }
  if (roles.size() > bounds::kSegments) {
    return emitError() << "#sojourn.parts has " << roles.size() << " segments, expected up to " << bounds::kSegments;
  }
  if (stride < 1) {
    return emitError() << "#sojourn.parts has the stride " << stride << ", expected 1 or more";
  }
  for (size_t i = 0; i < roles.size(); ++i) {
    if (roles[i] < 0 || roles[i] >= bounds::kPartiesMost) {
      return emitError() << "#sojourn.parts names role " << roles[i] << ", expected 0 to " << bounds::kPartiesMost - 1;
    }
    if (rows[i] < 1) {
      return emitError() << "#sojourn.parts has a segment of " << rows[i] << " rows, expected 1 or more";
    }
    if (i > 0 && roles[i] == roles[i - 1]) {
      return emitError() << "#sojourn.parts has two segments of role " << roles[i]
                         << " one after the other, expected one of both";
    }
  }
  return success();
}

/// Segments are bounded by what a type can hold, so their sum does not wrap.
static LogicalResult verifyParts(func::FuncOp step, unsigned index, PartsAttr parts, int64_t parties) {
  auto type = cast<RankedTensorType>(step.getArgument(index).getType());
  int64_t rows = 0;
  for (auto [role, count] : llvm::zip(parts.getRoles(), parts.getRows())) {
    if (role >= parties) {
      return step.emitOpError() << "argument #" << index << " has a part at role " << role << ", expected 0 to "
                                << parties - 1;
    }
    if (count > type.getNumElements() - rows) {
      return step.emitOpError() << "argument #" << index << " has more rows in its parts than elements of " << type;
    }
    rows += count;
  }
  rows::Alignment alignment = rows::Alignment::of(0, rows);
  alignment.stride = parts.getStride();
  if (!rows::placeOf(alignment, type.getShape())) {
    return step.emitOpError() << "argument #" << index << " of type " << type << " has " << rows << " rows at stride "
                              << parts.getStride() << ", which are no part of one dim";
  }
  return success();
}

static LogicalResult verifyArgument(func::FuncOp step, unsigned index, std::optional<int64_t> parties) {
  Attribute party = step.getArgAttr(index, kPartyAttr), parts = step.getArgAttr(index, kPartsAttr);
  auto text = step.getArgAttrOfType<StringAttr>(index, kKindAttr);
  const std::optional<StepArg> kind = parseStepArg(text.getValue());
  if (!parties) {
    if (party || parts) {
      return step.emitOpError() << "argument #" << index << " has " << (party ? kPartyAttr : kPartsAttr)
                                << " in a module without " << kPartiesAttr;
    }
    return success();
  }
  const bool isTensor = kind == StepArg::State || kind == StepArg::Upload;
  if (kind == StepArg::Table ? !party || parts : isTensor ? party && parts : party || parts) {
    return step.emitOpError() << "argument #" << index << " of kind " << text.getValue() << " has "
                              << (party && parts ? "a role and parts"
                                  : party        ? "a role"
                                  : parts        ? "parts"
                                                 : "no role")
                              << ", expected "
                              << (kind == StepArg::Table ? "one role"
                                  : isTensor             ? "one of them"
                                                         : "neither");
  }
  if (party) {
    auto role = dyn_cast<IntegerAttr>(party);
    if (!role || !role.getType().isSignlessInteger(64) || role.getInt() < 0 || role.getInt() >= *parties) {
      return step.emitOpError() << "argument #" << index << " has " << kPartyAttr << " = " << party
                                << ", expected an i64 from 0 to " << *parties - 1;
    }
  }
  if (parts) {
    auto segments = dyn_cast<PartsAttr>(parts);
    if (!segments) {
      return step.emitOpError() << "argument #" << index << " has " << kPartsAttr << " = " << parts
                                << ", expected #sojourn.parts<...>";
    }
    return verifyParts(step, index, segments, *parties);
  }
  return success();
}

LogicalResult sojourn::verifyParties(ModuleOp module, func::FuncOp step) {
  std::optional<int64_t> parties;
  if (Attribute attribute = module->getAttr(kPartiesAttr)) {
    auto count = dyn_cast<IntegerAttr>(attribute);
    if (!count || !count.getType().isSignlessInteger(64) || count.getInt() < bounds::kPartiesLeast ||
        count.getInt() > bounds::kPartiesMost) {
      return module.emitOpError() << "has " << kPartiesAttr << " = " << attribute << ", expected an i64 from "
                                  << bounds::kPartiesLeast << " to " << bounds::kPartiesMost;
    }
    parties = count.getInt();
  }
  for (unsigned index = 0; index < step.getNumArguments(); ++index) {
    if (failed(verifyArgument(step, index, parties))) {
      return failure();
    }
  }
  return success();
}
