// SPDX-License-Identifier: Apache-2.0
// Operands are cast explicitly to the type that the module's rules give them.
// RUN: sojourn-opt %s -split-input-file --sojourn-promote | FileCheck %s

// A number is weak: an f32 tensor stays f32. The slot becomes a tensor and is cast once.
module attributes {sojourn.phase = "functional", sojourn.promotion = "torch"} {
  // CHECK: sojourn.phase = "promoted"
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[X:.*]]: tensor<4xf32> {{.*}}%[[S:.*]]: tensor<f64> {sojourn.kind = "slot"}
  func.func @step(%x: tensor<4xf32> {sojourn.kind = "upload"}, %s: !sojourn.scalar<f64> {sojourn.kind = "slot"})
      -> (tensor<4xf32> {sojourn.result = "keep"}) {
    // CHECK: %[[C:.*]] = sojourn.convert %[[S]] : tensor<f64> -> tensor<f32>
    // CHECK: %[[A:.*]] = sojourn.aten "aten.mul.Tensor"(%[[X]], %[[C]]) {{.*}} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %a = sojourn.aten "aten.mul.Tensor"(%x, %s) {args = [#sojourn.operand<0>, #sojourn.operand<1>], names = ["self", "other"]}
      : (tensor<4xf32>, !sojourn.scalar<f64>) -> tensor<4xf32>
    // CHECK: sojourn.aten "aten.add.Tensor"(%[[A]], %[[X]], %[[C]])
    %b = sojourn.aten "aten.add.Tensor"(%a, %x, %s)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, #sojourn.operand<2>], names = ["self", "other", "alpha"]}
      : (tensor<4xf32>, tensor<4xf32>, !sojourn.scalar<f64>) -> tensor<4xf32>
    return %b : tensor<4xf32>
  }
}

// -----

// Integers with a float number: the default dtype, also where a call was recorded under another one.
module attributes {sojourn.phase = "functional", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  func.func @step(%x: tensor<4xi32> {sojourn.kind = "upload"}, %s: !sojourn.scalar<f64> {sojourn.kind = "slot"})
      -> (tensor<4xf32> {sojourn.result = "keep"}, tensor<4xf64> {sojourn.result = "keep"}) {
    // CHECK: sojourn.aten "aten.mul.Tensor"({{.*}}) {{.*}} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %a = sojourn.aten "aten.mul.Tensor"(%x, %s) {args = [#sojourn.operand<0>, #sojourn.operand<1>], names = ["self", "other"]}
      : (tensor<4xi32>, !sojourn.scalar<f64>) -> tensor<4xf32>
    // CHECK: sojourn.aten "aten.mul.Tensor"({{.*}}) {{.*}} : (tensor<4xf64>, tensor<f64>) -> tensor<4xf64>
    %b = sojourn.aten "aten.mul.Tensor"(%x, %s) {args = [#sojourn.operand<0>, #sojourn.operand<1>], names = ["self", "other"],
      sojourn.default_float = f64} : (tensor<4xi32>, !sojourn.scalar<f64>) -> tensor<4xf64>
    return %a, %b : tensor<4xf32>, tensor<4xf64>
  }
}

// -----

// In place: computed in the common type, stored in the operand's. A comparison in place stores 0 and 1.
module attributes {sojourn.phase = "functional", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  func.func @step(%x: tensor<4xf32> {sojourn.kind = "upload"}, %y: tensor<4xf64> {sojourn.kind = "upload"})
      -> (tensor<4xf32> {sojourn.result = "keep"}) {
    // CHECK: %[[A:.*]] = sojourn.aten "aten.mul.Tensor"({{.*}}) {args = [#sojourn.operand<0>, #sojourn.operand<1>], names = ["self", "other"]} : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
    // CHECK: %[[B:.*]] = sojourn.convert %[[A]] : tensor<4xf64> -> tensor<4xf32>
    %a = sojourn.aten "aten.mul.Tensor"(%x, %y) {args = [#sojourn.operand<0>, #sojourn.operand<1>], names = ["self", "other"],
      sojourn.mutated = array<i64: 0>} : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
    // CHECK: %[[E:.*]] = sojourn.aten "aten.eq.Scalar"(%[[B]]) {{.*}} -> tensor<4xi1>
    // CHECK: sojourn.convert %[[E]] : tensor<4xi1> -> tensor<4xf32>
    %b = sojourn.aten "aten.eq.Scalar"(%a) {args = [#sojourn.operand<0>, 1], names = ["self", "other"],
      sojourn.mutated = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
    return %b : tensor<4xf32>
  }
}

// -----

// Sums of integers are i64; a given dtype comes first; true division of integers is f32, floor division is not.
module attributes {sojourn.phase = "functional", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[B:[a-z0-9]*]]: tensor<4xi1>
  func.func @step(%b: tensor<4xi1> {sojourn.kind = "upload"}, %i: tensor<4xi32> {sojourn.kind = "upload"})
      -> (tensor<i64> {sojourn.result = "keep"}) {
    // CHECK: %[[L:.*]] = sojourn.convert %[[B]] : tensor<4xi1> -> tensor<4xi64>
    // CHECK: sojourn.aten "aten.sum"(%[[L]])
    %s = sojourn.aten "aten.sum"(%b) {args = [#sojourn.operand<0>, unit], names = ["self", "dtype"]} : (tensor<4xi1>) -> tensor<i64>
    // CHECK: sojourn.aten "aten.mean"({{.*}}) {{.*}} : (tensor<4xf64>) -> tensor<f64>
    %m = sojourn.aten "aten.mean"(%i) {args = [#sojourn.operand<0>, f64], names = ["self", "dtype"]} : (tensor<4xi32>) -> tensor<f64>
    // CHECK: sojourn.aten "aten.div.Tensor"({{.*}}) {{.*}} : (tensor<4xf32>) -> tensor<4xf32>
    %d = sojourn.aten "aten.div.Tensor"(%i) {args = [#sojourn.operand<0>, 3], names = ["self", "other"]} : (tensor<4xi32>) -> tensor<4xf32>
    // CHECK: sojourn.aten "aten.div.Tensor_mode"({{.*}}) {{.*}} : (tensor<4xi32>) -> tensor<4xi32>
    %f = sojourn.aten "aten.div.Tensor_mode"(%i) {args = [#sojourn.operand<0>, 3, "floor"], names = ["self", "other", "rounding_mode"]}
      : (tensor<4xi32>) -> tensor<4xi32>
    return %s : tensor<i64>
  }
}

// -----

// where: the condition keeps its type; cat: all elements of the list; masked_fill: the value follows self.
module attributes {sojourn.phase = "functional", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  func.func @step(%c: tensor<2xi1> {sojourn.kind = "upload"}, %x: tensor<2xf16> {sojourn.kind = "upload"},
                  %y: tensor<f64> {sojourn.kind = "upload"}, %i: tensor<2xi64> {sojourn.kind = "upload"})
      -> (tensor<2xf16> {sojourn.result = "keep"}) {
    // CHECK: sojourn.aten "aten.where.self"({{.*}}) {{.*}} : (tensor<2xi1>, tensor<2xf16>, tensor<f16>) -> tensor<2xf16>
    %w = sojourn.aten "aten.where.self"(%c, %x, %y)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, #sojourn.operand<2>], names = ["condition", "self", "other"]}
      : (tensor<2xi1>, tensor<2xf16>, tensor<f64>) -> tensor<2xf16>
    // CHECK: sojourn.aten "aten.cat"({{.*}}) {{.*}} : (tensor<2xf16>, tensor<2xf16>) -> tensor<4xf16>
    %k = sojourn.aten "aten.cat"(%x, %i) {args = [[#sojourn.operand<0>, #sojourn.operand<1>], 0], names = ["tensors", "dim"]}
      : (tensor<2xf16>, tensor<2xi64>) -> tensor<4xf16>
    // CHECK: sojourn.aten "aten.masked_fill.Tensor"({{.*}}) {{.*}} : (tensor<2xf16>, tensor<2xi1>, tensor<f16>) -> tensor<2xf16>
    %f = sojourn.aten "aten.masked_fill.Tensor"(%x, %c, %y)
      {args = [#sojourn.operand<0>, #sojourn.operand<1>, #sojourn.operand<2>], names = ["self", "mask", "value"]}
      : (tensor<2xf16>, tensor<2xi1>, tensor<f64>) -> tensor<2xf16>
    return %w : tensor<2xf16>
  }
}

// -----

// NumPy rules: values fit.
module attributes {sojourn.phase = "functional", sojourn.promotion = "numpy"} {
  // CHECK-LABEL: func.func @step
  func.func @step(%i: tensor<4xi32> {sojourn.kind = "upload"}, %x: tensor<4xf32> {sojourn.kind = "upload"})
      -> (tensor<4xf64> {sojourn.result = "keep"}) {
    // CHECK: sojourn.aten "aten.add.Tensor"({{.*}}) {{.*}} : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
    %a = sojourn.aten "aten.add.Tensor"(%i, %x) {args = [#sojourn.operand<0>, #sojourn.operand<1>, 1], names = ["self", "other", "alpha"]}
      : (tensor<4xi32>, tensor<4xf32>) -> tensor<4xf64>
    return %a : tensor<4xf64>
  }
}

// -----

// Results without a type get the one that the rules give; what is a window on them follows. Nothing is left of the
// default dtype.
module attributes {sojourn.default_float = f16, sojourn.phase = "functional", sojourn.promotion = "torch"} {
  // CHECK: module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"}
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: -> (tensor<2xf16> {{.*}}, tensor<i64> {{.*}}, tensor<4xi1> {{.*}})
  func.func @step(%i: tensor<4xi32> {sojourn.kind = "upload"}, %s: !sojourn.scalar<f64> {sojourn.kind = "slot"})
      -> (tensor<2x!sojourn.unresolved> {sojourn.result = "keep"}, tensor<!sojourn.unresolved> {sojourn.result = "keep"},
          tensor<4x!sojourn.unresolved> {sojourn.result = "keep"}) {
    %a = sojourn.aten "aten.mul.Tensor"(%i, %s) {args = [#sojourn.operand<0>, #sojourn.operand<1>], names = ["self", "other"]}
      : (tensor<4xi32>, !sojourn.scalar<f64>) -> tensor<4x!sojourn.unresolved>
    // CHECK: sojourn.slice %{{.*}} : tensor<4xf16>
    %w = sojourn.slice %a, start = [0], limit = [2], stride = [1] : tensor<4x!sojourn.unresolved>
    %r:2 = sojourn.aten "aten.max.dim"(%a) {args = [#sojourn.operand<0>, 0, false], names = ["self", "dim", "keepdim"]}
      : (tensor<4x!sojourn.unresolved>) -> (tensor<!sojourn.unresolved>, tensor<!sojourn.unresolved>)
    %e = sojourn.aten "aten.lt.Tensor"(%a, %i) {args = [#sojourn.operand<0>, #sojourn.operand<1>], names = ["self", "other"]}
      : (tensor<4x!sojourn.unresolved>, tensor<4xi32>) -> tensor<4x!sojourn.unresolved>
    return %w, %r#1, %e : tensor<2x!sojourn.unresolved>, tensor<!sojourn.unresolved>, tensor<4x!sojourn.unresolved>
  }
}

// -----

// Rules of a call that differ from the module's, in both directions; results without a type get theirs.
module attributes {sojourn.default_float = f64, sojourn.phase = "functional", sojourn.promotion = "numpy"} {
  // CHECK-LABEL: func.func @step
  // CHECK-NOT: sojourn.promotion
  func.func @step(%i: tensor<4xi32> {sojourn.kind = "upload"}, %x: tensor<4xf32> {sojourn.kind = "upload"})
      -> (tensor<4x!sojourn.unresolved> {sojourn.result = "keep"}, tensor<4xf32> {sojourn.result = "keep"},
          tensor<4xf32> {sojourn.result = "keep"}) {
    // CHECK: sojourn.aten "aten.mul.Tensor"({{.*}}) {{.*}} : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
    %a = sojourn.aten "aten.mul.Tensor"(%i, %x) {args = [#sojourn.operand<0>, #sojourn.operand<1>], names = ["self", "other"]}
      : (tensor<4xi32>, tensor<4xf32>) -> tensor<4x!sojourn.unresolved>
    // CHECK: sojourn.aten "aten.mul.Tensor"({{.*}}) {{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %b = sojourn.aten "aten.mul.Tensor"(%i, %x) {args = [#sojourn.operand<0>, #sojourn.operand<1>], names = ["self", "other"],
      sojourn.promotion = "torch"} : (tensor<4xi32>, tensor<4xf32>) -> tensor<4xf32>
    // CHECK: sojourn.aten "aten.exp"({{.*}}) {{.*}} : (tensor<4xf32>) -> tensor<4xf32>
    %c = sojourn.aten "aten.exp"(%i) {args = [#sojourn.operand<0>], names = ["self"],
      sojourn.default_float = f32, sojourn.promotion = "torch"} : (tensor<4xi32>) -> tensor<4xf32>
    return %a, %b, %c : tensor<4x!sojourn.unresolved>, tensor<4xf32>, tensor<4xf32>
  }
}
