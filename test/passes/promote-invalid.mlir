// SPDX-License-Identifier: Apache-2.0
// RUN: sojourn-opt %s -split-input-file -verify-diagnostics --sojourn-promote

module attributes {sojourn.promotion = "torch"} {
  func.func @step(%i: tensor<4xi32> {sojourn.kind = "upload"}, %x: tensor<4xf32> {sojourn.kind = "upload"}) {
    // expected-error@+1 {{has a recorded result of 'f64', expected 'f32' by torch's promotion rules}}
    %a = sojourn.aten "aten.add.Tensor"(%i, %x) {args = [#sojourn.operand<0>, #sojourn.operand<1>, 1], names = ["self", "other", "alpha"]}
      : (tensor<4xi32>, tensor<4xf32>) -> tensor<4xf64>
    return
  }
}

// -----

module attributes {sojourn.promotion = "numpy"} {
  func.func @step(%i: tensor<4xi32> {sojourn.kind = "upload"}, %x: tensor<4xf32> {sojourn.kind = "upload"}) {
    // expected-error@+1 {{has a recorded result of 'f32', expected 'f64' by numpy's promotion rules}}
    %a = sojourn.aten "aten.add.Tensor"(%i, %x) {args = [#sojourn.operand<0>, #sojourn.operand<1>, 1], names = ["self", "other", "alpha"]}
      : (tensor<4xi32>, tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

module attributes {sojourn.promotion = "torch"} {
  func.func @step(%x: !sojourn.ref<4xf32> {sojourn.kind = "upload"}) {
    // expected-error@+1 {{works on storages, expected functional form; run sojourn-functionalize first}}
    %a = sojourn.aten "aten.relu"(%x) {args = [#sojourn.operand<0>], names = ["self"]} : (!sojourn.ref<4xf32>) -> !sojourn.ref<4xf32>
    return
  }
}
