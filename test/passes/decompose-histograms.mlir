// SPDX-License-Identifier: Apache-2.0
// Counts are ones added onto zeros at each element's place: nothing of the size elements x bins is made.
// RUN: sojourn-opt %s --split-input-file --sojourn-decompose | FileCheck %s

module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[X:arg[0-9]+]]: {{[^%]+}}%[[W:arg[0-9]+]]:
  func.func @step(%x: tensor<9xi64> {sojourn.kind = "upload"}, %w: tensor<9xf32> {sojourn.kind = "upload"}) -> (tensor<4xi64> {sojourn.result = "keep"}, tensor<4xf32> {sojourn.result = "keep"}) {
    // CHECK: %[[ZEROS:.+]] = sojourn.broadcast %{{.+}}, dims = [] : tensor<i64> -> tensor<4xi64>
    // CHECK: %[[ONES:.+]] = sojourn.broadcast %{{.+}}, dims = [] : tensor<i64> -> tensor<9xi64>
    // CHECK: sojourn.put "add" %[[ZEROS]], %[[X]], %[[ONES]], dim = 0
    %r = sojourn.aten "aten.bincount"(%x) {args = [#sojourn.operand<0>, unit, 4], names = ["self", "weights", "minlength"]} : (tensor<9xi64>) -> tensor<4xi64>
    // CHECK: sojourn.put "add" %{{.+}}, %[[X]], %[[W]], dim = 0 : tensor<4xf32>
    %s = sojourn.aten "aten.bincount"(%x, %w) {args = [#sojourn.operand<0>, #sojourn.operand<1>, 4], names = ["self", "weights", "minlength"]} : (tensor<9xi64>, tensor<9xf32>) -> tensor<4xf32>
    return %r, %s : tensor<4xi64>, tensor<4xf32>
  }
}

// -----

// The upper edge belongs to the last bin; what lies outside, and NaN, goes to -1, where `put` drops it.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[X:arg[0-9]+]]:
  func.func @step(%x: tensor<9xf32> {sojourn.kind = "upload"}) -> (tensor<5xf32> {sojourn.result = "keep"}) {
    // CHECK: %[[PLACE:.+]] = sojourn.convert %{{.+}} : tensor<9xf32> -> tensor<9xi64>
    // CHECK: %[[LAST:.+]] = sojourn.constant 4 : i64
    // CHECK: %[[MOST:.+]] = sojourn.min %[[PLACE]], %[[LAST]]
    // CHECK: %[[INSIDE:.+]] = sojourn.and
    // CHECK: %[[NONE:.+]] = sojourn.constant -1 : i64
    // CHECK: %[[AT:.+]] = sojourn.select %[[INSIDE]], %[[MOST]], %[[NONE]]
    // CHECK: sojourn.put "add" %{{.+}}, %[[AT]], %{{.+}}, dim = 0 : tensor<5xf32>
    %r = sojourn.aten "aten.histc"(%x) {args = [#sojourn.operand<0>, 5, -1, 1], names = ["self", "bins", "min", "max"]} : (tensor<9xf32>) -> tensor<5xf32>
    return %r : tensor<5xf32>
  }
}

// -----

// An index that says the same for every column writes whole rows.
module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[X:arg[0-9]+]]: {{[^%]+}}%[[I:arg[0-9]+]]: {{[^%]+}}%[[U:arg[0-9]+]]:
  func.func @step(%x: tensor<5x3xf32> {sojourn.kind = "upload"}, %i: tensor<7x1xi64> {sojourn.kind = "upload"}, %u: tensor<7x3xf32> {sojourn.kind = "upload"}) -> (tensor<5x3xf32> {sojourn.result = "keep"}) {
    %wide = sojourn.broadcast %i, dims = [0, 1] : tensor<7x1xi64> -> tensor<7x3xi64>
    // CHECK: %[[V:.+]] = sojourn.reshape %[[I]] : tensor<7x1xi64> -> tensor<7xi64>
    // CHECK: sojourn.put "add" %[[X]], %[[V]], %[[U]], dim = 0 : tensor<5x3xf32>, tensor<7xi64>, tensor<7x3xf32>
    %r = sojourn.aten "aten.scatter_add"(%x, %wide, %u) {args = [#sojourn.operand<0>, 0, #sojourn.operand<1>, #sojourn.operand<2>], names = ["self", "dim", "index", "src"]} : (tensor<5x3xf32>, tensor<7x3xi64>, tensor<7x3xf32>) -> tensor<5x3xf32>
    return %r : tensor<5x3xf32>
  }
}
