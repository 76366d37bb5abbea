// SPDX-License-Identifier: Apache-2.0
// Constants are splats; ramps come from iota; memory left unset is 0.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s --implicit-check-not=sojourn.aten

// A tensor of one number is that number, converted once and broadcast.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A0:arg[0-9]+]]: {{[^%]+}}
  func.func @step(%v: tensor<f64> {sojourn.kind = "slot"}) -> (tensor<2x3xf32> {sojourn.result = "keep"}) {
    // CHECK-NEXT: %[[V0:.+]] = sojourn.convert %[[A0]] : tensor<f64> -> tensor<f32>
    // CHECK-NEXT: %[[V1:.+]] = sojourn.broadcast %[[V0]], dims = [] : tensor<f32> -> tensor<2x3xf32>
    // CHECK-NEXT: return %[[V1]] : tensor<2x3xf32>
    %r = sojourn.aten "aten.full"(%v)
      {args = [[2 : i64, 3 : i64], #sojourn.operand<0>, unit, unit, unit, unit], names = ["size", "fill_value", "dtype", "layout", "device", "pin_memory"]}
      : (tensor<f64>) -> tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
}

// -----

// A ramp is made in double precision and rounded once.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  func.func @step() -> (tensor<4xf32> {sojourn.result = "keep"}) {
    // CHECK: sojourn.iota dim = 0 : tensor<4xf64>
    // CHECK-NEXT: sojourn.mul {{.*}} : tensor<4xf64>, tensor<f64>
    // CHECK-NEXT: %[[R:.+]] = sojourn.convert {{.*}} -> tensor<4xf32>
    // CHECK-NEXT: return %[[R]]
    %r = sojourn.aten "aten.arange.start_step"()
      {args = [0 : i64, 1 : i64, 2.500000e-01 : f64, f32, unit, unit, unit], names = ["start", "end", "step", "dtype", "layout", "device", "pin_memory"]}
      : () -> tensor<4xf32>
    return %r : tensor<4xf32>
  }
}

// -----

// The unit matrix is where row and column have the same number; nothing is written into zeros.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  func.func @step() -> (tensor<3x3xf32> {sojourn.result = "keep"}) {
    // CHECK: %[[ROW:.+]] = sojourn.iota dim = 0
    // CHECK: %[[COLUMN:.+]] = sojourn.iota dim = 1
    // CHECK: sojourn.compare "eq" %[[ROW]], %[[COLUMN]]
    // CHECK-NOT: sojourn.put
    %r = sojourn.aten "aten.eye"()
      {args = [3 : i64, unit, unit, unit, unit], names = ["n", "dtype", "layout", "device", "pin_memory"]}
      : () -> tensor<3x3xf32>
    return %r : tensor<3x3xf32>
  }
}
