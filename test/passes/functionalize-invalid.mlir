// SPDX-License-Identifier: Apache-2.0
// Captured form that means nothing is refused where it stands.
// RUN: sojourn-opt %s -split-input-file -verify-diagnostics --sojourn-functionalize

module attributes {sojourn.promotion = "torch"} {
  func.func @step(%x: !sojourn.ref<3xf32> {sojourn.kind = "state"}) {
    %e = sojourn.view %x : !sojourn.ref<3xf32> -> !sojourn.ref<2x3xf32, strides = [0, 1], offset = 0>
    // expected-error@+1 {{several elements share one position; clone() the expanded tensor before writing to it}}
    sojourn.aten "aten.zero_"(%e) {args = [#sojourn.operand<0>], mutates = array<i64: 0>, names = ["self"]}
      : (!sojourn.ref<2x3xf32, strides = [0, 1], offset = 0>) -> ()
    return
  }
}

// -----

module attributes {sojourn.promotion = "torch"} {
  // expected-error@+1 {{is not supported yet, expected dense strides at offset 0; call contiguous() first}}
  func.func @step(%x: !sojourn.ref<3xf32, strides = [2], offset = 0> {sojourn.kind = "state"}) {
    return
  }
}

// -----

module attributes {sojourn.promotion = "torch"} {
  func.func @step(%x: !sojourn.ref<3xcomplex<f32>> {sojourn.kind = "state"}) {
    // expected-error@+1 {{reaches element 7 of a storage of 6 elements}}
    %e = sojourn.view %x : !sojourn.ref<3xcomplex<f32>> -> !sojourn.ref<4x2xf32>
    return
  }
}

// -----

module attributes {sojourn.promotion = "torch"} {
  func.func @step(%x: !sojourn.ref<3xi1> {sojourn.kind = "state"}) {
    %e = sojourn.view %x : !sojourn.ref<3xi1> -> !sojourn.ref<3xui8>
    // expected-error@+1 {{writes 'ui8' to a storage of booleans, which holds only true and false; clone() the view before writing to it}}
    sojourn.aten "aten.zero_"(%e) {args = [#sojourn.operand<0>], mutates = array<i64: 0>, names = ["self"]}
      : (!sojourn.ref<3xui8>) -> ()
    return
  }
}

// -----

module attributes {sojourn.promotion = "torch"} {
  func.func @step(%p: !sojourn.ref<3xf32> {sojourn.kind = "state"}, %g: !sojourn.ref<3xf32> {sojourn.kind = "state"}) {
    %q = sojourn.view %p : !sojourn.ref<3xf32> -> !sojourn.ref<3xf32>
    // expected-error@+1 {{writes one tensor twice in a call, as operands 0 and 1; pass it once}}
    sojourn.aten "aten._fused_sgd_"(%p, %q, %g, %g) {args = [[#sojourn.operand<0>, #sojourn.operand<1>], [#sojourn.operand<2>, #sojourn.operand<3>]],
      mutates = array<i64: 0, 1, 2, 3>, names = ["self", "grads"]}
      : (!sojourn.ref<3xf32>, !sojourn.ref<3xf32>, !sojourn.ref<3xf32>, !sojourn.ref<3xf32>) -> ()
    return
  }
}
