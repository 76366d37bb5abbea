// SPDX-License-Identifier: Apache-2.0
// Type promotion as functions of element types alone, by torch's and by NumPy's rules. Knows neither MLIR nor torch:
// the recorder and the passes call the same code.
#ifndef SOJOURN_DIALECT_ELEMENTS_PROMOTION_H
#define SOJOURN_DIALECT_ELEMENTS_PROMOTION_H

#include "dialect/elements/Elements.h"

#include <array>
#include <optional>
#include <string_view>

namespace sojourn {

/// torch: categories (bool < integer < float < complex), and within the highest category tensors with dims beat 0-dim
/// tensors beat numbers. Numpy: NumPy 2 (NEP 50), values fit (int32 + float32 = float64), numbers are weak.
enum class PromotionRules : uint8_t { Torch, Numpy };

/// As modules name them.
constexpr std::string_view nameOf(PromotionRules rules) { return rules == PromotionRules::Torch ? "torch" : "numpy"; }

/// What takes part in a promotion. A Number is a Python scalar (i1, i64, f64 or c128): it counts by its category only.
/// NumPy makes no difference between ZeroDim and Tensor.
enum class OperandKind : uint8_t { Tensor, ZeroDim, Number };

/// The common type of two tensors' elements.
Element promoteTypes(PromotionRules rules, Element a, Element b);

/// Collects operands; then tells the type in which a call on them computes.
class CommonType {
public:
  explicit CommonType(PromotionRules rules) : rules_(rules) {}
  void add(Element element, OperandKind kind);
  /// nullopt: nothing was added. `defaultFloat`: torch's default dtype (NumPy's is f64), which a float number and a
  /// call on integers with a float result become.
  std::optional<Element> get(Element defaultFloat) const;

private:
  std::optional<Element> torchResult(Element defaultFloat) const;
  std::optional<Element> numpyResult() const;

  PromotionRules rules_;
  std::array<std::optional<Element>, 3> levels_; ///< torch: by OperandKind
  std::optional<Element> arrays_, numbers_;      ///< NumPy
};

/// The type in which an operator with a floating-point result computes on this element: `exp` of integers, or (with
/// `division`) their true quotient.
Element floatResult(PromotionRules rules, Element element, bool division, Element defaultFloat);

/// The type in which a sum or product of elements accumulates and which it returns. nullopt where that is no element
/// type: NumPy adds bytes up as uint64.
std::optional<Element> sumResult(PromotionRules rules, Element element);

/// Of the real and the imaginary part; a real element is its own.
Element realPart(Element element);
/// The complex numbers whose parts are such floats; of halves those of single precision.
Element complexOf(Element real);

} // namespace sojourn

#endif // SOJOURN_DIALECT_ELEMENTS_PROMOTION_H
