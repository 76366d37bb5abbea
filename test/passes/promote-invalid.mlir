// SPDX-License-Identifier: Apache-2.0
// What has no common type, or a recorded one that the rules do not give, is refused at the call.
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

// -----

// Only results are found.
module attributes {sojourn.promotion = "torch"} {
  // expected-error@+1 {{argument #0 has type 'tensor<4x!sojourn.unresolved>', expected an element type}}
  func.func @step(%x: tensor<4x!sojourn.unresolved> {sojourn.kind = "upload"}) {
    return
  }
}

// -----

// NumPy adds bytes up as uint64, which no program holds.
module attributes {sojourn.promotion = "numpy"} {
  func.func @step(%x: tensor<4xui8> {sojourn.kind = "upload"}) {
    // expected-error@+1 {{has a recorded result of 'i64', but numpy's promotion rules give an element outside core form}}
    %a = sojourn.aten "aten.sum"(%x) {args = [#sojourn.operand<0>, unit], names = ["self", "dtype"]} : (tensor<4xui8>) -> tensor<i64>
    return
  }
}

// -----

// A declaration is no step.
module attributes {sojourn.promotion = "torch"} {
  // expected-error@+1 {{has 0 blocks, expected one}}
  func.func private @step(tensor<4xf32>)
}
