// SPDX-License-Identifier: Apache-2.0
// Inverse functions of complex numbers are computed in double from their parts: no complex logarithm, which would lose
// the digits of a sum with 1, and no division of complex numbers.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose --canonicalize --cse | FileCheck %s

// CHECK-LABEL: func.func @arc_sine
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  func.func @arc_sine(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
    // CHECK: %[[Z:.*]] = sojourn.convert %{{.*}} -> tensor<4xcomplex<f64>>
    // CHECK: sojourn.parts %[[Z]]
    // CHECK: %[[MINUS:.*]] = sojourn.sqrt %{{.*}} : tensor<4xcomplex<f64>>
    // CHECK: %[[PLUS:.*]] = sojourn.sqrt %{{.*}} : tensor<4xcomplex<f64>>
    // CHECK: sojourn.parts %[[MINUS]]
    // CHECK: sojourn.parts %[[PLUS]]
    // CHECK: sojourn.atan2 {{.*}} : tensor<4xf64>
    // CHECK: sojourn.log1p {{.*}} : tensor<4xf64>
    // CHECK: %[[Y:.*]] = sojourn.complex
    // CHECK-NEXT: sojourn.convert %[[Y]] : tensor<4xcomplex<f64>> -> tensor<4xcomplex<f32>>
    %r = sojourn.aten "aten.asin"(%x) {args = [#sojourn.operand<0>], names = ["self"]}
      : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
    return %r : tensor<4xcomplex<f32>>
  }
}

// -----

// CHECK-LABEL: func.func @inverse_tanh
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  func.func @inverse_tanh(%x: tensor<4xcomplex<f64>>) -> tensor<4xcomplex<f64>> {
    // CHECK-NOT: sojourn.{{log|sqrt|div}} {{.*}}complex
    // CHECK: sojourn.log1p {{.*}} : tensor<4xf64>
    // CHECK-NOT: sojourn.{{log|sqrt|div}} {{.*}}complex
    // CHECK: sojourn.atan2 {{.*}} : tensor<4xf64>
    // CHECK-NOT: sojourn.convert
    %r = sojourn.aten "aten.atanh"(%x) {args = [#sojourn.operand<0>], names = ["self"]}
      : (tensor<4xcomplex<f64>>) -> tensor<4xcomplex<f64>>
    return %r : tensor<4xcomplex<f64>>
  }
}

// -----

// The real part is a logarithm of 1 + a number with twice the digits, of which the second half is added last.
// CHECK-LABEL: func.func @log_of_one_plus
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  func.func @log_of_one_plus(%x: tensor<4xcomplex<f64>>) -> tensor<4xcomplex<f64>> {
    // CHECK-NOT: sojourn.log {{.*}}complex
    // CHECK: sojourn.constant 0x41A0000002000000 : f64
    // CHECK: sojourn.log1p {{.*}} : tensor<4xf64>
    // CHECK: sojourn.atan2 {{.*}} : tensor<4xf64>
    // CHECK-NOT: sojourn.log {{.*}}complex
    %r = sojourn.aten "aten.log1p"(%x) {args = [#sojourn.operand<0>], names = ["self"]}
      : (tensor<4xcomplex<f64>>) -> tensor<4xcomplex<f64>>
    return %r : tensor<4xcomplex<f64>>
  }
}
