// SPDX-License-Identifier: Apache-2.0
// The rule of an op that computes element by element, by its operands and by what its kernel demands of their dtype.
#ifndef SOJOURN_FRONTEND_SHAPES_ELEMENTWISE_H
#define SOJOURN_FRONTEND_SHAPES_ELEMENTWISE_H

#include "frontend/shapes/Iterator.h"

namespace sojourn::frontend::shapes {

/// What a kernel demands of the dtype that it computes in.
enum class Demands { nothing, floating, integral };

/// Operands are the argument positions in `Mask`; None and undefined ones are skipped.
template <unsigned Mask, Demands Kind = Demands::nothing>
void elementwise(const ShapeRule &op, Arguments args, Outputs &out) {
  TensorPointers tensors;
  // Numbers are rank-0 operands of binary ops; of others they are parameters.
  bool withNumber = false;
  for (unsigned i = 0; (Mask >> i) != 0 && i < args.size(); ++i) {
    if (((Mask >> i) & 1) == 0) {
      continue;
    }
    const c10::IValue &arg = args[i];
    if (arg.isTensor()) {
      if (arg.toTensor().defined()) {
        tensors.push_back(&arg.toTensor());
      }
    } else if (isNumber(arg) || arg.isBool()) {
      withNumber = Mask == 3;
    }
  }
  ScalarType type = Kind == Demands::nothing && tensors.size() < 2 ? ScalarType::Undefined : op.computed(args);
  if (Kind == Demands::floating && !c10::isFloatingType(type)) {
    failDtype(std::string(baseName(op)).c_str(), type);
  }
  if (Kind == Demands::integral && !c10::isIntegralType(type, /*includeBool=*/true)) {
    failDtype((std::string(baseName(op)) + "_cpu").c_str(), type);
  }
  OutputMeta &meta = out.emplace_back();
  if (tensors.size() < 2) {
    iterate(tensors, meta.sizes, meta.strides, withNumber);
  } else {
    iteratePromoted(tensors, type, meta.sizes, meta.strides, withNumber);
  }
}

/// Two operands of which a number is no tensor operand: the high bit stands for no argument.
constexpr unsigned kNumberIsParameter = 0x10003;

template <unsigned Mask>
constexpr ShapeRule::Function over = elementwise<Mask>;
template <unsigned Mask>
constexpr ShapeRule::Function activation = elementwise<Mask, Demands::floating>;
template <unsigned Mask>
constexpr ShapeRule::Function integral = elementwise<Mask, Demands::integral>;

} // namespace sojourn::frontend::shapes

#endif // SOJOURN_FRONTEND_SHAPES_ELEMENTWISE_H
