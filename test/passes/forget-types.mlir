// SPDX-License-Identifier: Apache-2.0
// A trace without types, as a front end that knows none would send it; promotion finds them again.
// RUN: sojourn-opt %s -split-input-file -verify-diagnostics --sojourn-forget-types | FileCheck %s
// RUN: sojourn-opt %s -split-input-file -verify-diagnostics --sojourn-forget-types --sojourn-to-core="to=promoted" \
// RUN:   | FileCheck %s --check-prefix=FOUND

// Results and windows on them lose their element types; arguments, and windows on arguments, keep theirs. What is
// written into an argument has its type already. Promotion finds the types again.
module attributes {sojourn.default_float = f32, sojourn.phase = "captured", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[I:[a-z0-9]+]]: !sojourn.ref<4xi32> {{.*}} -> (!sojourn.ref<2x!sojourn.unresolved,
  // FOUND-LABEL: func.func @step
  // FOUND-SAME: -> (tensor<2xf32> {sojourn.result = "keep"}, tensor<4xf64> {sojourn.result = "commit"
  func.func @step(%x: !sojourn.ref<4xf64> {sojourn.kind = "state"}, %i: !sojourn.ref<4xi32> {sojourn.kind = "upload"})
      -> (!sojourn.ref<2xf32, strides = [1], offset = 2> {sojourn.result = "keep"}) {
    // CHECK: %[[R:.*]] = sojourn.aten "aten.exp"(%[[I]]) {{.*}} -> !sojourn.ref<4x!sojourn.unresolved>
    %r = sojourn.aten "aten.exp"(%i) {args = [#sojourn.operand<0>], names = ["self"]}
      : (!sojourn.ref<4xi32>) -> !sojourn.ref<4xf32>
    // CHECK: sojourn.view %[[R]] : !sojourn.ref<4x!sojourn.unresolved> -> !sojourn.ref<2x!sojourn.unresolved
    %w = sojourn.view %r : !sojourn.ref<4xf32> -> !sojourn.ref<2xf32, strides = [1], offset = 2>
    // FOUND: sojourn.aten "aten.add.Tensor"({{.*}}) {{.*}} : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
    sojourn.aten "aten.add_.Tensor"(%x, %r) {args = [#sojourn.operand<0>, #sojourn.operand<1>, 1], mutates = array<i64: 0>,
      names = ["self", "other", "alpha"]} : (!sojourn.ref<4xf64>, !sojourn.ref<4xf32>) -> ()
    return %w : !sojourn.ref<2xf32, strides = [1], offset = 2>
  }
}

// -----

// Not of functional form: which results stand for operands is not said of types that are gone.
module attributes {sojourn.phase = "functional", sojourn.promotion = "torch"} {
  func.func @step(%x: tensor<4xf32> {sojourn.kind = "upload"}) {
    // expected-error@+1 {{returns values, expected captured form}}
    %r = sojourn.aten "aten.exp"(%x) {args = [#sojourn.operand<0>], names = ["self"]} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

// A declaration is no step.
module attributes {sojourn.promotion = "torch"} {
  // expected-error@+1 {{has 0 blocks, expected one}}
  func.func private @step(tensor<4xf32>)
}
