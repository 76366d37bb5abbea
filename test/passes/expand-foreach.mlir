// SPDX-License-Identifier: Apache-2.0
// A call over lists becomes one call per element, with the names that the operator per element knows.
// RUN: sojourn-opt %s -split-input-file -verify-diagnostics --sojourn-expand-foreach | FileCheck %s

// One call per element; the scalar gets the name that the operator per element knows.
module attributes {sojourn.phase = "functional", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A:.*]]: tensor<2xf32> {{.*}}%[[B:.*]]: tensor<3xf32> {{.*}}%[[S:.*]]: !sojourn.scalar<f64>
  func.func @step(%a: tensor<2xf32> {sojourn.kind = "upload"}, %b: tensor<3xf32> {sojourn.kind = "upload"},
                  %s: !sojourn.scalar<f64> {sojourn.kind = "slot"}) {
    // CHECK: sojourn.aten "aten.mul"(%[[A]], %[[S]]) {args = [#sojourn.operand<0>, #sojourn.operand<1>], names = ["self", "other"], sojourn.mutated = array<i64: 0>}
    // CHECK: sojourn.aten "aten.mul"(%[[B]], %[[S]]) {{.*}}sojourn.mutated = array<i64: 0>}
    %m:2 = sojourn.aten "aten._foreach_mul.Scalar"(%a, %b, %s)
      {args = [[#sojourn.operand<0>, #sojourn.operand<1>], #sojourn.operand<2>], names = ["self", "scalar"],
       sojourn.mutated = array<i64: 0, 1>}
      : (tensor<2xf32>, tensor<3xf32>, !sojourn.scalar<f64>) -> (tensor<2xf32>, tensor<3xf32>)
    // CHECK: sojourn.aten "aten.add"(%[[A]]) {args = [#sojourn.operand<0>, #sojourn.operand<0>, 1], names = ["self", "other", "alpha"]}
    // CHECK: sojourn.aten "aten.add"(%[[B]]) {args
    %l:2 = sojourn.aten "aten._foreach_add.List"(%a, %b, %a, %b)
      {args = [[#sojourn.operand<0>, #sojourn.operand<1>], [#sojourn.operand<2>, #sojourn.operand<3>], 1],
       names = ["self", "other", "alpha"]}
      : (tensor<2xf32>, tensor<3xf32>, tensor<2xf32>, tensor<3xf32>) -> (tensor<2xf32>, tensor<3xf32>)
    // CHECK: sojourn.aten "aten.addcdiv"(%[[A]], %[[S]]) {{.*}}names = ["self", "tensor1", "tensor2", "value"]}
    // CHECK: sojourn.aten "aten.addcdiv"(%[[B]]) {args = [#sojourn.operand<0>, #sojourn.operand<0>, #sojourn.operand<0>, 2]
    %d:2 = sojourn.aten "aten._foreach_addcdiv.ScalarList"(%a, %b, %s)
      {args = [[#sojourn.operand<0>, #sojourn.operand<1>], [#sojourn.operand<0>, #sojourn.operand<1>],
               [#sojourn.operand<0>, #sojourn.operand<1>], [#sojourn.operand<2>, 2]],
       names = ["self", "tensor1", "tensor2", "scalars"]}
      : (tensor<2xf32>, tensor<3xf32>, !sojourn.scalar<f64>) -> (tensor<2xf32>, tensor<3xf32>)
    // CHECK: sojourn.aten "aten.lerp"(%[[A]], %[[S]]) {{.*}}names = ["self", "end", "weight"]}
    %p:2 = sojourn.aten "aten._foreach_lerp.Scalar"(%a, %b, %s)
      {args = [[#sojourn.operand<0>, #sojourn.operand<1>], [#sojourn.operand<0>, #sojourn.operand<1>], #sojourn.operand<2>],
       names = ["self", "tensors1", "weight"]}
      : (tensor<2xf32>, tensor<3xf32>, !sojourn.scalar<f64>) -> (tensor<2xf32>, tensor<3xf32>)
    // CHECK: sojourn.aten "aten.clamp_min"(%[[A]]) {args = [#sojourn.operand<0>, 0], names = ["self", "min"]}
    %x:2 = sojourn.aten "aten._foreach_maximum.Scalar"(%a, %b)
      {args = [[#sojourn.operand<0>, #sojourn.operand<1>], 0], names = ["self", "scalar"]}
      : (tensor<2xf32>, tensor<3xf32>) -> (tensor<2xf32>, tensor<3xf32>)
    // CHECK: sojourn.aten "aten.linalg_vector_norm"(%[[A]]) {args = [#sojourn.operand<0>, 2, unit, false, unit], names = ["self", "ord", "dim", "keepdim", "dtype"]}
    %n:2 = sojourn.aten "aten._foreach_norm.Scalar"(%a, %b)
      {args = [[#sojourn.operand<0>, #sojourn.operand<1>], 2, unit], names = ["self", "ord", "dtype"]}
      : (tensor<2xf32>, tensor<3xf32>) -> (tensor<f32>, tensor<f32>)
    // CHECK: %[[E:.*]] = sojourn.slice %[[A]], start = [1], limit = [2], stride = [1] : tensor<2xf32>
    // CHECK: %[[V:.*]] = sojourn.reshape %[[E]] : tensor<1xf32> -> tensor<f32>
    // CHECK: sojourn.aten "aten.addcmul"(%[[B]], %[[V]])
    %t:2 = sojourn.aten "aten._foreach_addcmul.Tensor"(%a, %b)
      {args = [[#sojourn.operand<0>, #sojourn.operand<1>], [#sojourn.operand<0>, #sojourn.operand<1>],
               [#sojourn.operand<0>, #sojourn.operand<1>], #sojourn.operand<0>],
       names = ["self", "tensor1", "tensor2", "scalars"]}
      : (tensor<2xf32>, tensor<3xf32>) -> (tensor<2xf32>, tensor<3xf32>)
    return
  }
}

// -----

// Fused SGD on its first step: the buffer is the gradient; halves compute in f32.
module attributes {sojourn.phase = "functional", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[P:[a-z0-9]*]]: tensor<2xf16>
  func.func @step(%p: tensor<2xf16> {sojourn.kind = "upload"}, %g: tensor<2xf16> {sojourn.kind = "upload"},
                  %m: tensor<2xf16> {sojourn.kind = "upload"}, %lr: !sojourn.scalar<f64> {sojourn.kind = "slot"},
                  %z: !sojourn.scalar<f64> {sojourn.kind = "slot"}) -> (tensor<2xf16> {sojourn.result = "keep"}) {
    // CHECK: %[[W:.*]] = sojourn.convert %[[P]] : tensor<2xf16> -> tensor<2xf32>
    // CHECK: %[[N:.*]] = sojourn.aten "aten.sub"(%[[W]], %{{.*}} -> tensor<2xf32>
    // CHECK: %[[R:.*]] = sojourn.convert %[[N]] : tensor<2xf32> -> tensor<2xf16>
    // CHECK-NOT: _fused_sgd
    // CHECK: return %[[R]]
    %r:3 = sojourn.aten "aten._fused_sgd"(%p, %g, %m, %z, %lr)
      {args = [[#sojourn.operand<0>], [#sojourn.operand<1>], [#sojourn.operand<2>], #sojourn.operand<3>, #sojourn.operand<3>,
               #sojourn.operand<4>, #sojourn.operand<3>, false, false, true, unit, unit],
       names = ["self", "grads", "momentum_buffer_list", "weight_decay", "momentum", "lr", "dampening", "nesterov",
                "maximize", "is_first_step", "grad_scale", "found_inf"], sojourn.mutated = array<i64: 0, 1, 2>}
      : (tensor<2xf16>, tensor<2xf16>, tensor<2xf16>, !sojourn.scalar<f64>, !sojourn.scalar<f64>)
      -> (tensor<2xf16>, tensor<2xf16>, tensor<2xf16>)
    return %r#0 : tensor<2xf16>
  }
}

// -----

module attributes {sojourn.phase = "functional", sojourn.promotion = "torch"} {
  func.func @step(%a: tensor<2xf32> {sojourn.kind = "upload"}) {
    // expected-error@+1 {{has 2 elements, expected 1, one per result}}
    %m = sojourn.aten "aten._foreach_neg"(%a) {args = [[#sojourn.operand<0>, #sojourn.operand<0>]], names = ["self"]}
      : (tensor<2xf32>) -> tensor<2xf32>
    return
  }
}
