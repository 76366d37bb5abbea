// SPDX-License-Identifier: Apache-2.0
// How noise arrives in a published value, where it does so linearly: for its standard error.
#ifndef SOJOURN_PASSES_PRIVACY_NOISEFORM_H
#define SOJOURN_PASSES_PRIVACY_NOISEFORM_H

#include "dialect/rows/Analysis.h"

#include "mlir/IR/Block.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace sojourn {

/// A value of a step as a linear function of its noise, with coefficients that are public: sums, multiples, products
/// with matrices, views, parts, concatenations. Small, immutable, and without MLIR once it is made, so that it stays
/// with a plan and is evaluated for the numbers of each step.
class NoiseForm {
public:
  /// Of values of a step that `rewriteForPrivacy` left; nothing where one is null, and where noise does not reach one,
  /// or otherwise than linearly. Whole numbers, and values that are clamped at 0: the noise is told before it is
  /// rounded or clamped. `analysis` knows what is the same number whatever the rows are.
  static std::vector<std::optional<NoiseForm>> of(mlir::Block &step, llvm::ArrayRef<mlir::Value> values,
                                                  const rows::Analysis &analysis);

  /// The elements of an argument of the step, in order, if they are public and known.
  using ArgumentValues = llvm::function_ref<std::optional<std::vector<double>>(unsigned argument)>;
  /// The standard deviation of the noise in each element, or one number for all; nothing where a coefficient is not
  /// known, or is not finite.
  std::optional<std::vector<double>> deviations(ArgumentValues argument) const;

private:
  enum class Kind : uint8_t {
    Constant,
    Argument,
    Noise,
    Public, ///< free of noise, and not known
    Map,    ///< element k is element `source[k]` of the operand
    Same,   ///< a cast, rounding to whole numbers, or a clamp at 0
    Truncate,
    Negate,
    Add,
    Subtract,
    Multiply,
    Divide,
    Join, ///< the elements of the operands one after another go to `source`
    Sum,  ///< element k of the operand is added to element `source[k]`
    Dot   ///< likewise products: `source` holds triples of result and of both operands
  };
  struct Node {
    Kind kind = Kind::Public;
    size_t numel = 1;
    llvm::SmallVector<unsigned, 2> operands;
    std::vector<uint32_t> source;
    double number = 0;     ///< of a constant; of noise its deviation
    unsigned argument = 0; ///< its number
  };
  /// Elements of a tensor that is looked at one by one, and coefficients of a value.
  static constexpr size_t kElementsMost = size_t{1} << 13, kEntriesMost = size_t{1} << 18;
  class Builder;
  struct Known;
  class Evaluator;

  std::vector<Node> nodes; ///< operands first; the last one is the value
};

} // namespace sojourn

#endif // SOJOURN_PASSES_PRIVACY_NOISEFORM_H
