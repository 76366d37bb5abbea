// SPDX-License-Identifier: Apache-2.0
// Every pass: what it does, before => after (taken from its test), what it refuses.
#ifndef SOJOURN_PASSES_TD
#define SOJOURN_PASSES_TD

include "mlir/Pass/PassBase.td"

def Functionalize : Pass<"sojourn-functionalize", "::mlir::ModuleOp"> {
  let summary = "Replaces storages, views and mutation by pure values";
  let description = [{
    One linear walk. Each storage has one current value, in the shape of its root; a ref is a strided window on it.
    A window is read by slices, reshapes and transposes of that value if its strides factorise over the storage, else
    by `take` with computed positions. A write is the inverse (`update_slice`, else `put`). An in-place call becomes the
    functional call plus a write; `out=` arguments disappear. State arguments that were written are appended to the
    results as commits, in argument order. All operands of a call are read before it writes any.

    ```mlir
    %v = sojourn.view %p : !sojourn.ref<4x3xf32> -> !sojourn.ref<3xf32, strides = [1], offset = 3>
    sojourn.aten "aten.zero_"(%v) {args = [#sojourn.operand<0>], mutates = array<i64: 0>, names = ["self"]}
      : (!sojourn.ref<3xf32, strides = [1], offset = 3>) -> ()
    return
    ```
    =>
    ```mlir
    %0 = sojourn.slice %p, start = [1, 0], limit = [2, 3], stride = [1, 1] : tensor<4x3xf32>
    %1 = sojourn.reshape %0 : tensor<1x3xf32> -> tensor<3xf32>
    %2 = sojourn.aten "aten.zero"(%1) {...} : (tensor<3xf32>) -> tensor<3xf32>
    %3 = sojourn.reshape %2 : tensor<3xf32> -> tensor<1x3xf32>
    %4 = sojourn.update_slice %p, %3, start = [1, 0], stride = [1, 1] : tensor<4x3xf32>, tensor<1x3xf32>
    return %4 : tensor<4x3xf32>
    ```

    The result of an in-place call keeps the type of the operand that it replaces, even if the functional operator would
    return another element type; `sojourn.mutated` lists such results until promotion inserts the cast.

    Refused: writes through an expanded window (several elements at one position), storages that are not dense, views
    that change the width of elements.
  }];
  let dependentDialects = ["::sojourn::SojournDialect", "::mlir::func::FuncDialect"];
}

def ExpandForeach : Pass<"sojourn-expand-foreach", "::mlir::ModuleOp"> {
  let summary = "Splits calls on lists of tensors into one call per element";
  let description = [{
    `_foreach_X` becomes X per element, whatever the overload (List, Scalar, ScalarList, Tensor); the arguments get
    X's names. `_fused_adam`, `_fused_adamw`, `_fused_sgd` and `_fused_adagrad` become elementary calls per parameter;
    their bias corrections are computed in f64, as the fused kernels do.

    ```mlir
    %0:2 = sojourn.aten "aten._foreach_mul.Scalar"(%a, %b, %s)
      {args = [[#sojourn.operand<0>, #sojourn.operand<1>], #sojourn.operand<2>], names = ["self", "scalar"]}
      : (tensor<2xf32>, tensor<3xf32>, !sojourn.scalar<f64>) -> (tensor<2xf32>, tensor<3xf32>)
    ```
    =>
    ```mlir
    %0 = sojourn.aten "aten.mul"(%a, %s) {args = [#sojourn.operand<0>, #sojourn.operand<1>], names = ["self", "other"]}
      : (tensor<2xf32>, !sojourn.scalar<f64>) -> tensor<2xf32>
    %1 = sojourn.aten "aten.mul"(%b, %s) {...} : (tensor<3xf32>, !sojourn.scalar<f64>) -> tensor<3xf32>
    ```
  }];
  let dependentDialects = ["::sojourn::SojournDialect"];
}

def Promote : Pass<"sojourn-promote", "::mlir::ModuleOp"> {
  let summary = "Makes every implicit type promotion an explicit cast";
  let description = [{
    The rules are those that `sojourn.promotion` of the call names, else that of the module. Afterwards all promoting
    operands of a call have the type in which the call computes, scalar slots are rank-0 tensors, and a result that is stored in another type
    (in-place and `out=` calls) is converted. One table, dialect/elements/TypeTable.cpp, gives the promoting arguments
    and the result types of each operator; the recorder uses it, too. A fresh result that is `!sojourn.unresolved` gets
    the type of the rules. Any other recorded type must equal it: a difference is an error, not a guess. The default
    dtype is `sojourn.default_float` of the module, or of the call.

    ```mlir
    %0 = sojourn.aten "aten.mul.Tensor"(%i, %s) {args = [...], names = ["self", "other"]}
      : (tensor<4xi32>, !sojourn.scalar<f64>) -> tensor<4xf32>
    ```
    =>
    ```mlir
    %0 = sojourn.convert %i : tensor<4xi32> -> tensor<4xf32>
    %1 = sojourn.convert %s : tensor<f64> -> tensor<f32>
    %2 = sojourn.aten "aten.mul.Tensor"(%0, %1) {...} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    ```
  }];
  let dependentDialects = ["::sojourn::SojournDialect"];
}

def ForgetTypes : Pass<"sojourn-forget-types", "::mlir::ModuleOp"> {
  let summary = "Removes the element types of all results from a trace, as a front end without types would send it";
  let description = [{
    The inverse of type inference: results of calls, and the windows on them, become `!sojourn.unresolved`. Captured
    form only. For tests, and to show the types that the rules infer.

    ```mlir
    %0 = sojourn.aten "aten.mul.Tensor"(%i, %x) {args = [...], names = ["self", "other"]}
      : (!sojourn.ref<4xi32>, !sojourn.ref<4xf32>) -> !sojourn.ref<4xf32>
    ```
    =>
    ```mlir
    %0 = sojourn.aten "aten.mul.Tensor"(%i, %x) {args = [...], names = ["self", "other"]}
      : (!sojourn.ref<4xi32>, !sojourn.ref<4xf32>) -> !sojourn.ref<4x!sojourn.unresolved>
    ```
  }];
  let dependentDialects = ["::sojourn::SojournDialect"];
}

def Decompose : Pass<"sojourn-decompose", "::mlir::ModuleOp"> {
  let summary = "Rewrites every ATen call as core ops";
  let description = [{
    One decomposition per operator base name (passes/decompose/). Arguments are found by schema name, so overloads share
    it. A call without a decomposition is an error that names the operator and the line that called it.

    ```mlir
    %0 = sojourn.aten "aten.relu"(%x) {args = [#sojourn.operand<0>], names = ["self"]}
      : (tensor<4xf32>) -> tensor<4xf32>
    ```
    =>
    ```mlir
    %zero = sojourn.constant 0.0 : f32
    %0 = sojourn.max %x, %zero : tensor<4xf32>, tensor<f32>
    ```
  }];
  let dependentDialects = ["::sojourn::SojournDialect"];
}

def Optimize : Pass<"sojourn-optimize", "::mlir::ModuleOp"> {
  let summary = "Cancels layout ops, merges equal ops, drops unused ops";
  let description = [{
    Exact rewrites only: no rounding changes. Compositions of reshape, transpose, slice, broadcast and convert become
    one op or none, and splats of rank 0 become operands of elementwise ops. Common subexpressions and dead code follow.
    Functionalization and decomposition rely on this pass and emit the simplest correct form.

    ```mlir
    %0 = sojourn.reshape %x : tensor<4x3xf32> -> tensor<12xf32>
    %1 = sojourn.reshape %0 : tensor<12xf32> -> tensor<4x3xf32>
    ```
    =>
    ```mlir
    %x
    ```
  }];
  let dependentDialects = ["::sojourn::SojournDialect"];
}

def VerifyCore : Pass<"sojourn-verify-core", "::mlir::ModuleOp"> {
  let summary = "Fails unless the module is in core form, the form an owner accepts";
  let description = [{
    Runs `verifyCoreForm` of the dialect, the predicate that the owner checks before anything else. Changes only the
    phase of the module.

    ```mlir
    module attributes {sojourn.phase = "decomposed", sojourn.promotion = "torch"} { ... }
    ```
    =>
    ```mlir
    module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} { ... }
    ```
  }];
  let dependentDialects = ["::sojourn::SojournDialect"];
}

def Price : Pass<"sojourn-price", "::mlir::ModuleOp"> {
  let summary = "Prints an upper bound of the cost of a run, as remarks";
  let description = [{
    Each op gets a remark with its formula's value (the formula is in its record in dialect/); @step gets one with the
    price of the whole program. Changes nothing.

    ```mlir
    %y = sojourn.add %x, %x : tensor<2x3xf32>, tensor<2x3xf32>
    ```
    =>
    ```
    remark: 6 operations, 0 bytes of scratch
    ```
  }];
}

def PrintDependence : Pass<"sojourn-print-dependence", "::mlir::ModuleOp"> {
  let summary = "Prints the arguments that each result is computed from, as remarks";
  let description = [{
    The summary behind labels (passes/Dependence.h), one remark per result at the return. Changes nothing.

    ```mlir
    return %y : tensor<2x3xf32>
    ```
    =>
    ```
    remark: result #0 depends on #0, #2
    ```
  }];
}

def PrintRows : Pass<"sojourn-rows", "::mlir::ModuleOp"> {
  let summary = "Prints the facts of the row analysis for each value, as remarks";
  let description = [{
    The row analysis (passes/Rows.h, dialect/rows/). Each result of an op is public, per row, a sum over rows, derived
    from such sums, or mixed, with the reason. The remarks also give the range of its elements, and the points at which
    an owner adds noise. Changes nothing.

    ```mlir
    %y = sojourn.reduce_sum %x, dims = [0] : tensor<8x3xf32>
    ```
    =>
    ```
    remark: sum over rows: cuts 0, one row moves it by 1.73205 (sum 3, largest 1)
    remark: noise point of cuts 0
    ```
  }];
  let options = [
    ListOption<"bounds", "bounds", "std::string", "Closed range of a column's entries, as NAME=LOW:HIGH (* for all)">,
    ListOption<"tableRows", "rows", "int64_t", "Row counts of tables whose types give none: one each, or one for all">,
    ListOption<"openTables", "open-tables", "unsigned", "Numbers of the table arguments that are not private">
  ];
}

def DeferScales : Pass<"sojourn-defer-scales", "::mlir::ModuleOp"> {
  let summary = "Moves factors that wait for an exchange behind the sums that they scale, where that saves an exchange";
  let description = [{
    In a step of several owners, the number of labels is a sum over all rows, and the gradient of a mean loss is divided
    by it row by row: the gradients' exchange waits for that of the number. Ops that are linear in such a factor are computed
    without it, and the sums are multiplied. The factor is 1 / n or k / n, for the number n of rows that a mask leaves and
    a constant k. The rows keep k / p, for a power of two p that is at least n, so that sums stay in the range of means.
    Where rows went through a select with that mask, their sums are zero where n is. Only f32 and f64; steps of one owner
    stay as they are.

    ```mlir
    %scaled = sojourn.div %rows, %n : tensor<6x3xf32>, tensor<f32>
    %sum = sojourn.reduce_sum %scaled, dims = [0] : tensor<6x3xf32>
    ```
    =>
    ```mlir
    %factor = sojourn.div %eight, %n : tensor<f32>, tensor<f32>
    %scaled = sojourn.div %rows, %eight : tensor<6x3xf32>, tensor<f32>
    %part = sojourn.reduce_sum %scaled, dims = [0] : tensor<6x3xf32>
    %sum = sojourn.mul %part, %factor : tensor<3xf32>, tensor<f32>
    ```
  }];
}

def PrintPlacement : Pass<"sojourn-placement", "::mlir::ModuleOp"> {
  let summary = "Prints where each value of a joint step lies, as remarks";
  let description = [{
    The placement of a step of several owners (passes/parties/). A value is known to all roles, at one role, or in parts:
    some of its rows at each. Sums over rows in parts, and sums of values at two roles, are meetings: the roles exchange
    their terms. Changes nothing.

    ```mlir
    %xs = sojourn.concat %x0, %x1 dim = 0 : tensor<4x3xf32>, tensor<2x3xf32>
    %s = sojourn.reduce_sum %xs, dims = [0] : tensor<6x3xf32>
    ```
    =>
    ```
    remark: parts: 4 rows at role 0, 2 at role 1; stride 3
    remark: known to all, from exchange 0 among roles 0 and 1
    ```

    Refused: what else combines values of several roles.
  }];
}

def PartStep : Pass<"sojourn-part", "::mlir::ModuleOp"> {
  let summary = "Replaces a joint step by the part of one role";
  let description = [{
    The role keeps what is known to all and what is its own; of a tensor that all know, it takes its rows where the
    tensor meets rows in parts. Meetings become `across_sum`, one exchange for those that do not wait for each other.

    ```mlir
    %xs = sojourn.concat %x0, %x1 dim = 0 : tensor<4x3xf32>, tensor<2x3xf32>
    %s = sojourn.reduce_sum %xs, dims = [0] : tensor<6x3xf32>
    ```
    => at role 1
    ```mlir
    %t = sojourn.reduce_sum %x1, dims = [0] : tensor<2x3xf32>
    %s = sojourn.across_sum %t from = [3] : tensor<3xf32>
    ```
    With `masked`, sums over rows of three roles or more are of integers, on a grid of step 2^-42 where they are floats,
    and NaN where a term is outside the grid.
  }];
  let options = [
    Option<"role", "role", "unsigned", /*default=*/"0", "The role whose part it is">,
    Option<"masked", "masked", "bool", /*default=*/"false", "Sums over rows of three roles or more are masked">
  ];
  let dependentDialects = ["::sojourn::SojournDialect", "::mlir::func::FuncDialect"];
}

def MakePrivate : Pass<"sojourn-make-private", "::mlir::ModuleOp"> {
  let summary = "Makes a step differentially private: clips per row, adds noise from coins";
  let description = [{
    An owner does this to a program on private tables before it runs (passes/privacy/Privacy.h). Divisors that depend on
    rows become public. Sums over rows that are committed or published become clipped sums with noise. The result is
    analysed from scratch, and then lowered to core ops with coins as further arguments. Remarks state the releases.

    ```mlir
    %g = sojourn.dot %d, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0]
      : tensor<8x2xf32>, tensor<8x3xf32> -> tensor<2x3xf32>
    ```
    =>
    ```mlir
    %s = sojourn.clipped_sum "flat" rows %i, bounds = [0.125], norm = 2 (%d, %x)
      : tensor<8xi64>, (tensor<8x2xf32>, tensor<8x3xf32>) -> tensor<2x3xf64> { ... }
    %n = sojourn.noise "gaussian" (%s) coins (%c), exponent = -23, scale = 1048580
      : (tensor<2x3xf64>), (tensor<2x3xi64>) -> (tensor<2x3xf64>)
    ```
  }];
  let options = [
    ListOption<"bounds", "bounds", "std::string", "Closed range of a column's entries, as NAME=LOW:HIGH (* for all)">,
    ListOption<"tableRows", "rows", "int64_t", "Row counts of tables whose types give none: one each, or one for all">,
    Option<"noiseMultiplier", "noise-multiplier", "double", "1.0", "Noise over sensitivity of a step">,
    Option<"clip", "clip", "double", "1.0", "Bound of a row's gradient">,
    Option<"perLayer", "per-layer", "bool", "false", "Clip each tensor alone">,
    Option<"lossIsSum", "loss-is-sum", "bool", "false", "The loss is a sum over the batch, not a mean">,
    Option<"metricBound", "metric-bound", "double", "10.0", "Bound of a row's part of a metric without a range">,
    Option<"stopAfter", "stop-after", "std::string", "\"lower\"", "rewrite: clipped_sum and noise stay">,
    Option<"coinsAsUploads", "coins-as-uploads", "bool", "false", "Coins become the last uploads">
  ];
  let dependentDialects = ["::sojourn::SojournDialect"];
}

#endif // SOJOURN_PASSES_TD
