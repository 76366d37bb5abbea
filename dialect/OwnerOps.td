// SPDX-License-Identifier: Apache-2.0
// Ops of the owner's own form: what the privacy rewrite puts into a program after it was received. No program carries
// them. Lowering replaces clipped sums and noise by core ops once their proof is done, and puts first_rows in, which runs.
// Parting (passes/parties) puts across_sum in.
#ifndef SOJOURN_OWNER_OPS_TD
#define SOJOURN_OWNER_OPS_TD

include "dialect/Types.td"

include "mlir/Interfaces/ControlFlowInterfaces.td"

class OwnerOp<string mnemonic, list<Trait> traits = []>
    : SojournOp<mnemonic, !listconcat([Pure, RowRuleOp], traits)> {
  /// The rule of dialect/rows/Rules.h for what it does with rows.
  string rows = ?;
  let extraClassDeclaration = RowRule<rows>.declaration;
  let extraClassDefinition = RowRule<rows>.definition;
}

def ClippedSumOp : OwnerOp<"clipped_sum", [IsolatedFromAbove, SingleBlock]> {
  let summary = "sum over rows of a per-row function whose norm is bounded row by row";
  let description = [{
    The region takes the operands and yields linear functions of sums over the slots of one draw. Let v_i be its yielded
    values with only the terms of slot i, as one vector over all results. The value of the op is

        sum over slots i with rows[i] >= 0 of v_i min(1, bound / |v_i|)        clip = "flat", one bound
        sum over those of v_ik min(1, bound_k / |v_ik|), per result k          clip = "per_layer", one bound per result
        sum over those of v_i                                                  clip = "none": |v_i| <= bound is proved
                                                                               from the ranges of the operands of v_i,
                                                                               which the lowering enforces: elements
                                                                               outside are clamped, NaN becomes 0

    in exact arithmetic; a row whose norm is not finite counts as 0. So **one row moves it by at most the norm of the
    bounds**, whatever the region computes: no other property of the region matters. Norms are Euclidean; for
    clip = "none" `norm` is 1 or 2. Results are f64, because the noise has a grid far finer than f32.

    Example:

    ```mlir
    %s = sojourn.clipped_sum "flat" rows %r, bounds = [1.0], norm = 2 (%g, %x)
      : tensor<8xi64>, (tensor<8x2xf32>, tensor<8x3xf32>) -> tensor<2x3xf64> {
    ^bb0(%g0: tensor<8x2xf32>, %x0: tensor<8x3xf32>):
      %w = sojourn.dot %g0, %x0, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0]
        : tensor<8x2xf32>, tensor<8x3xf32> -> tensor<2x3xf32>
      sojourn.yield %w : tensor<2x3xf32>
    }
    ```
  }];
  let arguments = (ins PositionTensor:$slots, Variadic<CoreTensor>:$inputs, StrAttr:$clip,
                       DenseF64ArrayAttr:$bounds, IntAttr:$norm);
  let results = (outs Variadic<DrawTensor>:$sums);
  let regions = (region SizedRegion<1>:$body);
  let rows = "clippedSum";
  let assemblyFormat = [{
    $clip `rows` $slots `,` `bounds` `=` $bounds `,` `norm` `=` $norm `(` $inputs `)` attr-dict `:` type($slots) `,`
    functional-type($inputs, $sums) $body
  }];
  let hasVerifier = 1;
}

def YieldOp : SojournOp<"yield", [Pure, Terminator, HasParent<"ClippedSumOp">]> {
  let summary = "ends the region of clipped_sum with its values";
  let description = [{
    Example:

    ```mlir
    sojourn.yield %w : tensor<2x3xf32>
    ```
  }];
  let arguments = (ins Variadic<CoreTensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def NoiseOp : OwnerOp<"noise", [SameVariadicOperandSize]> {
  let summary = "clipped sums on a power-of-two grid, with integer noise from coins";
  let description = [{
    Result k is (round_half_even(sum_k / h) + coin_k) * h with h = 2^exponent, in f64, converted to the result's element
    type. The coins are integers that the owner alone draws, from a discrete Gaussian of parameter `scale` or a discrete
    Laplace distribution of scale `scale`, in units of h. All results of one op are one release: the operands are all
    results of one `clipped_sum`, each used here once and nowhere else.

    Example:

    ```mlir
    %n = sojourn.noise "gaussian" (%s) coins (%c), exponent = -20, scale = 1048576
      : (tensor<2x3xf64>), (tensor<2x3xi64>) -> (tensor<2x3xf32>)
    ```
  }];
  let arguments = (ins Variadic<DrawTensor>:$sums, Variadic<PositionTensor>:$coins, StrAttr:$distribution,
                       IntAttr:$exponent, IntAttr:$scale);
  let results = (outs Variadic<FloatTensor>:$noised);
  let rows = "noise";
  let assemblyFormat = [{
    $distribution `(` $sums `)` `coins` `(` $coins `)` `,` `exponent` `=` $exponent `,` `scale` `=` $scale attr-dict `:`
    `(` type($sums) `)` `,` `(` type($coins) `)` `->` `(` type($noised) `)`
  }];
  let hasVerifier = 1;
}

def FirstRowsOp : OwnerOp<"first_rows", [PricedOp, AllTypesMatch<["rows", "result"]>]> {
  let summary = "row numbers, each kept at its first occurrence";
  let description = [{
    Element k is `rows[k]`, or -1 if an earlier element is equal. So no row is read into two slots, however the numbers
    were computed. The running time depends on their count alone.

    Example:

    ```mlir
    %once = sojourn.first_rows %r : tensor<8xi64>
    ```
  }];
  let arguments = (ins PositionTensor:$rows);
  let results = (outs PositionTensor:$result);
  let rows = "firstRows";
  let extraClassDeclaration = [{
    /// A sorting network has n log^2 n / 4 exchanges, each of some 16 operations.
    uint64_t getOperations() {
      uint64_t count = cost::elements(getRows()), passes = cost::passes(count);
      return cost::times({4, count, passes, passes});
    }
    uint64_t getScratchBytes() { return cost::times({16, cost::elements(getRows())}); }
  }] # RowRule<rows>.declaration;
  let assemblyFormat = "$rows attr-dict `:` type($rows)";
}

def AcrossSumOp : OwnerOp<"across_sum", [PricedOp, InferTypeOpAdaptor]> {
  let summary = "sums over the owners of a joint step, in one exchange";
  let description = [{
    Result k is the sum of the roles' operands k, added in the order of roles, each addition rounded in the element type
    (f16 and bf16 in f32, and then once). Bit r of `from[k]` says whether role r has a term; the operands of other roles
    are not read. All results are equal to the bit at all roles.

    Operands that are `masked` (1, else 0) are integers of 64 bits, and their sums are mod 2^64: owners add masks to them that cancel
    in the sum of three roles or more, so that none sees another one's term.

    Example:

    ```mlir
    %s:2 = sojourn.across_sum %g, %n from = [3, 3] : tensor<4x3xf32>, tensor<i64>
    %t:2 = sojourn.across_sum %g, %n from = [7, 7], masked = [0, 1] : tensor<4x3xf32>, tensor<i64>
    ```
  }];
  let arguments = (ins Variadic<NumberTensor>:$terms, DenseI64ArrayAttr:$from,
                       OptionalAttr<DenseI64ArrayAttr>:$masked);
  let results = (outs Variadic<NumberTensor>:$sums);
  let rows = "acrossSum";
  let extraClassDeclaration = [{
    /// A term of each role, at most.
    uint64_t getOperations();
    uint64_t getScratchBytes() { return 0; }
    bool isMasked(size_t term) { return getMasked() && (*getMasked())[term] != 0; }
  }] # RowRule<rows>.declaration;
  let assemblyFormat = "$terms `from` `=` $from (`,` `masked` `=` $masked^)? attr-dict `:` type($terms)";
  let hasVerifier = 1;
}

#endif // SOJOURN_OWNER_OPS_TD
