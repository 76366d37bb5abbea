// SPDX-License-Identifier: Apache-2.0
// gather and scatter whose index is smaller than the tensor outside dim: they work on the part that the index reaches.
// RUN: sojourn-opt %s --sojourn-decompose --sojourn-optimize | FileCheck %s

module attributes {sojourn.phase = "promoted", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[X:[^ ]+]]: tensor<5x3xf32>
  // CHECK-SAME: %[[I:[^ ]+]]: tensor<2x4xi64>
  // CHECK-SAME: %[[U:[^ ]+]]: tensor<2x4xf32>
  func.func @step(%x: tensor<5x3xf32> {sojourn.kind = "upload"}, %i: tensor<2x4xi64> {sojourn.kind = "upload"},
                  %u: tensor<2x4xf32> {sojourn.kind = "upload"})
      -> (tensor<2x4xf32> {sojourn.result = "keep"}, tensor<5x3xf32> {sojourn.result = "keep"}) {
    // CHECK: %[[PART:.+]] = sojourn.slice %[[X]], start = [0, 0], limit = [2, 3], stride = [1, 1]
    // CHECK: %[[TAKEN:.+]] = sojourn.take_along %[[PART]], %[[I]], dim = 1
    %g = sojourn.aten "aten.gather"(%x, %i)
      {args = [#sojourn.operand<0>, 1, #sojourn.operand<1>], names = ["self", "dim", "index"]}
      : (tensor<5x3xf32>, tensor<2x4xi64>) -> tensor<2x4xf32>
    // CHECK: %[[PUT:.+]] = sojourn.put_along "add" %[[PART]], %[[I]], %[[U]], dim = 1
    // CHECK: %[[ALL:.+]] = sojourn.update_slice %[[X]], %[[PUT]], start = [0, 0], stride = [1, 1]
    %s = sojourn.aten "aten.scatter_add"(%x, %i, %u)
      {args = [#sojourn.operand<0>, 1, #sojourn.operand<1>, #sojourn.operand<2>], names = ["self", "dim", "index", "src"]}
      : (tensor<5x3xf32>, tensor<2x4xi64>, tensor<2x4xf32>) -> tensor<5x3xf32>
    // CHECK: return %[[TAKEN]], %[[ALL]]
    return %g, %s : tensor<2x4xf32>, tensor<5x3xf32>
  }
}
