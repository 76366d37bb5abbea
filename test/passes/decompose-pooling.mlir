// SPDX-License-Identifier: Apache-2.0
// Pooling: windows side by side give back by repetition; maxima give back where they were.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s --implicit-check-not=sojourn.aten

// The gradient of windows side by side is their share, repeated: neither a scatter nor padding.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}%[[A1:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%g: tensor<1x2x2x2xf32> {sojourn.kind = "upload"}, %x: tensor<1x2x4x4xf32> {sojourn.kind = "upload"}) -> (tensor<1x2x4x4xf32> {sojourn.result = "keep"}) {
    // CHECK-NOT: sojourn.{{put|pad}}
    // CHECK: sojourn.div %[[A0]],
    // CHECK-NEXT: sojourn.broadcast
    // CHECK-NEXT: %[[R:.+]] = sojourn.reshape
    // CHECK-NEXT: return %[[R]]
    %r = sojourn.aten "aten.avg_pool2d_backward"(%g, %x)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, [2 : i64, 2 : i64], [2 : i64, 2 : i64], [0 : i64, 0 : i64], false, true, unit], names = ["grad_output", "self", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"]}
      : (tensor<1x2x2x2xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
    return %r : tensor<1x2x4x4xf32>
  }
}

// -----

// In ceil mode the plane is padded with -inf first, and the indices are those of the plane without it.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<1x1x3x3xf32> {sojourn.kind = "upload"}) -> (tensor<1x1x2x2xf32> {sojourn.result = "keep"}, tensor<1x1x2x2xi64> {sojourn.result = "keep"}) {
    // CHECK: %[[LOW:.+]] = sojourn.constant 0xFF800000 : f32
    // CHECK-NEXT: %[[WIDE:.+]] = sojourn.pad %[[A0]], %[[LOW]], low = [0, 0, 0, 0], high = [0, 0, 1, 1],
    // CHECK-NEXT: %[[MAX:.+]], %[[AT:.+]] = sojourn.pool_max %[[WIDE]], {{.*}} padding = [0, 0],
    // CHECK: sojourn.rem %[[AT]],
    // CHECK: sojourn.div %[[AT]],
    // CHECK: %[[PLACE:.+]] = sojourn.add
    // CHECK: return %[[MAX]], %[[PLACE]] :
    %r:2 = sojourn.aten "aten.max_pool2d_with_indices"(%x)
      {args = [#sojourn.operand<0>, [2 : i64, 2 : i64], [2 : i64, 2 : i64], [0 : i64, 0 : i64], [1 : i64, 1 : i64], true], names = ["self", "kernel_size", "stride", "padding", "dilation", "ceil_mode"]}
      : (tensor<1x1x3x3xf32>) -> (tensor<1x1x2x2xf32>, tensor<1x1x2x2xi64>)
    return %r#0, %r#1 : tensor<1x1x2x2xf32>, tensor<1x1x2x2xi64>
  }
}

// -----

// Adaptive pooling with uneven windows takes as many elements for each as the widest holds; what lies outside of a
// narrower one is left out, infinities and NaN included.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%x: tensor<1x1x3x3xf32> {sojourn.kind = "upload"}) -> (tensor<1x1x2x3xf32> {sojourn.result = "keep"}) {
    // CHECK: %[[INSIDE:.+]] = sojourn.broadcast {{.*}} -> tensor<1x1x2x2x3xi1>
    // CHECK: %[[TAKEN:.+]] = sojourn.take %[[A0]], {{.*}}, dim = 2
    // CHECK: %[[SPLIT:.+]] = sojourn.reshape %[[TAKEN]] : tensor<1x1x4x3xf32> -> tensor<1x1x2x2x3xf32>
    // CHECK: %[[KEPT:.+]] = sojourn.select %[[INSIDE]], %[[SPLIT]],
    // CHECK: sojourn.reduce_sum %[[KEPT]], dims = [3]
    // CHECK: sojourn.div
    // CHECK-NOT: sojourn.{{dot|pool_sum|take}}
    %r = sojourn.aten "aten._adaptive_avg_pool2d"(%x)
      {args = [#sojourn.operand<0>, [2 : i64, 3 : i64]], names = ["self", "output_size"]}
      : (tensor<1x1x3x3xf32>) -> tensor<1x1x2x3xf32>
    return %r : tensor<1x1x2x3xf32>
  }
}
