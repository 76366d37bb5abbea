// SPDX-License-Identifier: Apache-2.0
// Views and writes become values: whoever reads later, through whatever view, reads what was written.
// RUN: sojourn-opt %s -split-input-file --sojourn-functionalize | FileCheck %s

// A write to a view is seen through the base and through a sibling view that was made before it.
module attributes {sojourn.phase = "captured", sojourn.promotion = "torch"} {
  // CHECK: sojourn.phase = "functional"
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: (%[[P:.*]]: tensor<4x3xf32> {sojourn.kind = "state"}) -> (tensor<4xf32> {sojourn.result = "keep"}, tensor<4x3xf32> {sojourn.result = "commit", sojourn.target = 0 : i64})
  func.func @step(%p: !sojourn.ref<4x3xf32> {sojourn.kind = "state"})
      -> (!sojourn.ref<4xf32, strides = [3], offset = 1> {sojourn.result = "keep"}) {
    %column = sojourn.view %p : !sojourn.ref<4x3xf32> -> !sojourn.ref<4xf32, strides = [3], offset = 1>
    %row = sojourn.view %p : !sojourn.ref<4x3xf32> -> !sojourn.ref<3xf32, strides = [1], offset = 3>
    // CHECK: %[[S:.*]] = sojourn.slice %[[P]], start = [1, 0], limit = [2, 3], stride = [1, 1]
    // CHECK: %[[R:.*]] = sojourn.reshape %[[S]] : tensor<1x3xf32> -> tensor<3xf32>
    // CHECK: %[[Z:.*]] = sojourn.aten "aten.zero"(%[[R]]) {{.*}}sojourn.mutated = array<i64: 0>
    // CHECK: %[[U:.*]] = sojourn.reshape %[[Z]] : tensor<3xf32> -> tensor<1x3xf32>
    // CHECK: %[[W:.*]] = sojourn.update_slice %[[P]], %[[U]], start = [1, 0], stride = [1, 1]
    sojourn.aten "aten.zero_"(%row) {args = [#sojourn.operand<0>], mutates = array<i64: 0>, names = ["self"]}
      : (!sojourn.ref<3xf32, strides = [1], offset = 3>) -> ()
    // CHECK: %[[C:.*]] = sojourn.slice %[[W]], start = [0, 1], limit = [4, 2], stride = [1, 1]
    // CHECK: %[[D:.*]] = sojourn.reshape %[[C]] : tensor<4x1xf32> -> tensor<4xf32>
    // CHECK: return %[[D]], %[[W]]
    return %column : !sojourn.ref<4xf32, strides = [3], offset = 1>
  }
}

// -----

// Reading the ref that was written gives what was written; reading it twice costs nothing.
module attributes {sojourn.phase = "captured", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  func.func @step(%p: !sojourn.ref<4x3xf32> {sojourn.kind = "state"}) {
    %row = sojourn.view %p : !sojourn.ref<4x3xf32> -> !sojourn.ref<3xf32, strides = [1], offset = 3>
    // CHECK: %[[A:.*]] = sojourn.aten "aten.relu"
    sojourn.aten "aten.relu_"(%row) {args = [#sojourn.operand<0>], mutates = array<i64: 0>, names = ["self"]}
      : (!sojourn.ref<3xf32, strides = [1], offset = 3>) -> ()
    // CHECK-NOT: sojourn.slice
    // CHECK: sojourn.aten "aten.neg"(%[[A]])
    sojourn.aten "aten.neg_"(%row) {args = [#sojourn.operand<0>], mutates = array<i64: 0>, names = ["self"]}
      : (!sojourn.ref<3xf32, strides = [1], offset = 3>) -> ()
    return
  }
}

// -----

// Where a window begins is a number of the run: the storage is seen as dims that each begin somewhere, and what moves is
// sliced and written there. A base that is read afterwards, or through a window at another number, sees the write.
module attributes {sojourn.phase = "captured", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[P:.*]]: tensor<4x6xf32> {{.*}}, %[[K:.*]]: !sojourn.scalar<i64> {{.*}}, %[[L:.*]]: !sojourn.scalar<i64>
  func.func @step(%p: !sojourn.ref<4x6xf32> {sojourn.kind = "state"}, %k: !sojourn.scalar<i64> {sojourn.kind = "slot"},
                  %l: !sojourn.scalar<i64> {sojourn.kind = "slot"})
      -> (!sojourn.ref<4xf32, strides = [6], offset = 0> {sojourn.result = "keep"}) {
    %row = sojourn.moved_view %p at [%k], shape = [4, 6], dims = [0] : !sojourn.ref<4x6xf32>, !sojourn.scalar<i64>
      -> !sojourn.ref<2xf32, strides = [2], offset = 1>
    %column = sojourn.moved_view %p at [%l], shape = [4, 6], dims = [1] : !sojourn.ref<4x6xf32>, !sojourn.scalar<i64>
      -> !sojourn.ref<4xf32, strides = [6], offset = 0>
    // CHECK: %[[S:.*]] = sojourn.dynamic_slice %[[P]] from[%[[K]]], dims = [0], sizes = [1] : tensor<4x6xf32>, !sojourn.scalar<i64>
    // CHECK: %[[R:.*]] = sojourn.reshape %[[S]] : tensor<1x6xf32> -> tensor<6xf32>
    // CHECK: %[[T:.*]] = sojourn.slice %[[R]], start = [1], limit = [4], stride = [2]
    // CHECK: %[[Z:.*]] = sojourn.aten "aten.zero"(%[[T]])
    // CHECK: %[[PART:.*]] = sojourn.dynamic_slice %[[P]] from[%[[K]]], dims = [0], sizes = [1]
    // CHECK: %[[V:.*]] = sojourn.reshape %[[PART]] : tensor<1x6xf32> -> tensor<6xf32>
    // CHECK: %[[Y:.*]] = sojourn.update_slice %[[V]], %[[Z]], start = [1], stride = [2]
    // CHECK: %[[W:.*]] = sojourn.reshape %[[Y]] : tensor<6xf32> -> tensor<1x6xf32>
    // CHECK: %[[U:.*]] = sojourn.dynamic_update_slice %[[P]], %[[W]] from[%[[K]]], dims = [0]
    sojourn.aten "aten.zero_"(%row) {args = [#sojourn.operand<0>], mutates = array<i64: 0>, names = ["self"]}
      : (!sojourn.ref<2xf32, strides = [2], offset = 1>) -> ()
    // CHECK: %[[C:.*]] = sojourn.dynamic_slice %[[U]] from[%[[L]]], dims = [1], sizes = [1]
    // CHECK: %[[D:.*]] = sojourn.reshape %[[C]] : tensor<4x1xf32> -> tensor<4xf32>
    // CHECK: return %[[D]], %[[U]]
    return %column : !sojourn.ref<4xf32, strides = [6], offset = 0>
  }
}

// -----

// A channels_last root: its value keeps the logical shape; a window in storage order is one transpose away.
module attributes {sojourn.phase = "captured", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[X:.*]]: tensor<2x3x4x5xf32>
  func.func @step(%x: !sojourn.ref<2x3x4x5xf32, strides = [60, 1, 15, 3], offset = 0> {sojourn.kind = "upload"})
      -> (!sojourn.ref<2x20x3xf32> {sojourn.result = "publish"}) {
    %v = sojourn.view %x : !sojourn.ref<2x3x4x5xf32, strides = [60, 1, 15, 3], offset = 0> -> !sojourn.ref<2x20x3xf32>
    // CHECK: %[[T:.*]] = sojourn.transpose %[[X]], perm = [0, 2, 3, 1] : tensor<2x3x4x5xf32>
    // CHECK: %[[R:.*]] = sojourn.reshape %[[T]] : tensor<2x4x5x3xf32> -> tensor<2x20x3xf32>
    // CHECK: return %[[R]]
    return %v : !sojourn.ref<2x20x3xf32>
  }
}

// -----

// Expand is a broadcast, chunk a slice, diagonal a strided slice of the flat storage, t a transpose.
module attributes {sojourn.phase = "captured", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>
  func.func @step(%x: !sojourn.ref<4x6xf32> {sojourn.kind = "upload"})
      -> (!sojourn.ref<2x4x6xf32, strides = [0, 6, 1], offset = 0> {sojourn.result = "publish"},
          !sojourn.ref<4x3xf32, strides = [6, 1], offset = 3> {sojourn.result = "publish"},
          !sojourn.ref<4xf32, strides = [7], offset = 1> {sojourn.result = "publish"},
          !sojourn.ref<6x4xf32, strides = [1, 6], offset = 0> {sojourn.result = "publish"}) {
    %e = sojourn.view %x : !sojourn.ref<4x6xf32> -> !sojourn.ref<2x4x6xf32, strides = [0, 6, 1], offset = 0>
    %c = sojourn.view %x : !sojourn.ref<4x6xf32> -> !sojourn.ref<4x3xf32, strides = [6, 1], offset = 3>
    %d = sojourn.view %x : !sojourn.ref<4x6xf32> -> !sojourn.ref<4xf32, strides = [7], offset = 1>
    %t = sojourn.view %x : !sojourn.ref<4x6xf32> -> !sojourn.ref<6x4xf32, strides = [1, 6], offset = 0>
    // CHECK-DAG: sojourn.broadcast %[[X]], dims = [1, 2] : tensor<4x6xf32> -> tensor<2x4x6xf32>
    // CHECK-DAG: sojourn.slice %[[X]], start = [0, 3], limit = [4, 6], stride = [1, 1] : tensor<4x6xf32>
    // CHECK-DAG: %[[FLAT:.*]] = sojourn.reshape %[[X]] : tensor<4x6xf32> -> tensor<24xf32>
    // CHECK-DAG: sojourn.slice %[[FLAT]], start = [1], limit = [23], stride = [7] : tensor<24xf32>
    // CHECK-DAG: sojourn.transpose %[[X]], perm = [1, 0] : tensor<4x6xf32>
    return %e, %c, %d, %t : !sojourn.ref<2x4x6xf32, strides = [0, 6, 1], offset = 0>,
      !sojourn.ref<4x3xf32, strides = [6, 1], offset = 3>, !sojourn.ref<4xf32, strides = [7], offset = 1>,
      !sojourn.ref<6x4xf32, strides = [1, 6], offset = 0>
  }
}

// -----

// Unfold without overlap is a cut and a reshape; with overlap, positions are computed.
module attributes {sojourn.phase = "captured", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[X:.*]]: tensor<2x10xf32>
  func.func @step(%x: !sojourn.ref<2x10xf32> {sojourn.kind = "upload"})
      -> (!sojourn.ref<2x3x3xf32, strides = [10, 3, 1], offset = 0> {sojourn.result = "publish"},
          !sojourn.ref<2x8x3xf32, strides = [10, 1, 1], offset = 0> {sojourn.result = "publish"}) {
    %a = sojourn.view %x : !sojourn.ref<2x10xf32> -> !sojourn.ref<2x3x3xf32, strides = [10, 3, 1], offset = 0>
    %b = sojourn.view %x : !sojourn.ref<2x10xf32> -> !sojourn.ref<2x8x3xf32, strides = [10, 1, 1], offset = 0>
    // CHECK: %[[S:.*]] = sojourn.slice %[[X]], start = [0, 0], limit = [2, 9], stride = [1, 1]
    // CHECK: sojourn.reshape %[[S]] : tensor<2x9xf32> -> tensor<2x3x3xf32>
    // CHECK: %[[FLAT:.*]] = sojourn.reshape %[[X]] : tensor<2x10xf32> -> tensor<20xf32>
    // CHECK: sojourn.iota dim = 0 : tensor<2x8x3xi64>
    // CHECK: sojourn.take %[[FLAT]], %{{.*}}, dim = 0 : tensor<20xf32>, tensor<2x8x3xi64>
    return %a, %b : !sojourn.ref<2x3x3xf32, strides = [10, 3, 1], offset = 0>,
      !sojourn.ref<2x8x3xf32, strides = [10, 1, 1], offset = 0>
  }
}

// -----

// A write through strides that do not factorise is a put at computed positions.
module attributes {sojourn.phase = "captured", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  func.func @step(%x: !sojourn.ref<16xf32> {sojourn.kind = "state"}) {
    %v = sojourn.view %x : !sojourn.ref<16xf32> -> !sojourn.ref<3x3xf32, strides = [3, 4], offset = 1>
    // CHECK: sojourn.take
    // CHECK: sojourn.put "set" %arg0
    sojourn.aten "aten.zero_"(%v) {args = [#sojourn.operand<0>], mutates = array<i64: 0>, names = ["self"]}
      : (!sojourn.ref<3x3xf32, strides = [3, 4], offset = 1>) -> ()
    return
  }
}

// -----

// out= goes away and its tensor takes the result; both operands are read before the write although one is the target.
module attributes {sojourn.phase = "captured", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[A:.*]]: tensor<3xf32> {{.*}}%[[B:.*]]: tensor<3xf32>
  func.func @step(%a: !sojourn.ref<3xf32> {sojourn.kind = "state"}, %b: !sojourn.ref<3xf32> {sojourn.kind = "state"}) {
    // CHECK: %[[R:.*]] = sojourn.aten "aten.add.out"(%[[A]], %[[B]]) {args = [#sojourn.operand<0>, #sojourn.operand<1>, 1], names = ["self", "other", "alpha"], sojourn.mutated = array<i64: 0>}
    sojourn.aten "aten.add.out"(%a, %b, %a) {args = [#sojourn.operand<0>, #sojourn.operand<1>, 1, #sojourn.operand<2>],
      mutates = array<i64: 2>, names = ["self", "other", "alpha", "out"]}
      : (!sojourn.ref<3xf32>, !sojourn.ref<3xf32>, !sojourn.ref<3xf32>) -> ()
    // CHECK: return %[[R]] : tensor<3xf32>
    return
  }
}

// -----

// Batch norm writes its running statistics; fresh results come first, then the new statistics, then the commits.
module attributes {sojourn.phase = "captured", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  func.func @step(%mean: !sojourn.ref<3xf32> {sojourn.kind = "state"}, %var: !sojourn.ref<3xf32> {sojourn.kind = "state"},
                  %x: !sojourn.ref<2x3xf32> {sojourn.kind = "upload"}, %m: !sojourn.scalar<f64> {sojourn.kind = "slot"},
                  %eps: !sojourn.scalar<f64> {sojourn.kind = "slot"}) -> (!sojourn.ref<2x3xf32> {sojourn.result = "keep"}) {
    // CHECK: %[[R:.*]]:5 = sojourn.aten "aten.native_batch_norm"{{.*}}names = ["input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps"], sojourn.mutated = array<i64: 3, 4>}
    %y, %sm, %sv = sojourn.aten "aten.native_batch_norm"(%x, %mean, %var, %m, %eps)
      {args = [#sojourn.operand<0>, unit, unit, #sojourn.operand<1>, #sojourn.operand<2>, true, #sojourn.operand<3>, #sojourn.operand<4>],
       mutates = array<i64: 1, 2>,
       names = ["input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps"]}
      : (!sojourn.ref<2x3xf32>, !sojourn.ref<3xf32>, !sojourn.ref<3xf32>, !sojourn.scalar<f64>, !sojourn.scalar<f64>)
      -> (!sojourn.ref<2x3xf32>, !sojourn.ref<3xf32>, !sojourn.ref<3xf32>)
    // CHECK: return %[[R]]#0, %[[R]]#3, %[[R]]#4
    return %y : !sojourn.ref<2x3xf32>
  }
}

// -----

// A value gets identity by alloc; an upload that is written is a local value, never a commit.
module attributes {sojourn.phase = "captured", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: (%[[U:.*]]: tensor<3xi64> {sojourn.kind = "upload"}, %[[T:.*]]: !sojourn.table<9, "a" : f32> {sojourn.kind = "table"}) -> (tensor<3x1xf32> {sojourn.result = "publish"})
  func.func @step(%i: !sojourn.ref<3xi64> {sojourn.kind = "upload"}, %t: !sojourn.table<9, "a" : f32> {sojourn.kind = "table"})
      -> (!sojourn.ref<3x1xf32> {sojourn.result = "publish"}) {
    // CHECK: %[[J:.*]] = sojourn.aten "aten.neg"(%[[U]])
    sojourn.aten "aten.neg_"(%i) {args = [#sojourn.operand<0>], mutates = array<i64: 0>, names = ["self"]}
      : (!sojourn.ref<3xi64>) -> ()
    %rows = sojourn.load %i : !sojourn.ref<3xi64> -> tensor<3xi64>
    // CHECK: %[[X:.*]] = sojourn.read_rows %[[T]], %[[J]]
    %x = sojourn.read_rows %t, %rows, columns = ["a"] : !sojourn.table<9, "a" : f32>, tensor<3xi64> -> tensor<3x1xf32>
    %r = sojourn.alloc %x : tensor<3x1xf32> -> !sojourn.ref<3x1xf32>
    // CHECK: sojourn.aten "aten.relu"(%[[X]])
    sojourn.aten "aten.relu_"(%r) {args = [#sojourn.operand<0>], mutates = array<i64: 0>, names = ["self"]}
      : (!sojourn.ref<3x1xf32>) -> ()
    return %r : !sojourn.ref<3x1xf32>
  }
}

// -----

// Names lose their underscore, dunders the i; several written operands are written in order.
module attributes {sojourn.phase = "captured", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  func.func @step(%a: !sojourn.ref<2xi1> {sojourn.kind = "state"}, %b: !sojourn.ref<2xi1> {sojourn.kind = "state"}) {
    // CHECK: sojourn.aten "aten.__or__.Tensor"
    sojourn.aten "aten.__ior__.Tensor"(%a, %b) {args = [#sojourn.operand<0>, #sojourn.operand<1>],
      mutates = array<i64: 0>, names = ["self", "other"]} : (!sojourn.ref<2xi1>, !sojourn.ref<2xi1>) -> ()
    // CHECK: %[[N:.*]]:2 = sojourn.aten "aten._foreach_neg"{{.*}}args = {{\[}}[#sojourn.operand<0>, #sojourn.operand<1>]], {{.*}}sojourn.mutated = array<i64: 0, 1>
    sojourn.aten "aten._foreach_neg_"(%a, %b) {args = [[#sojourn.operand<0>, #sojourn.operand<1>]],
      mutates = array<i64: 0, 1>, names = ["self"]} : (!sojourn.ref<2xi1>, !sojourn.ref<2xi1>) -> ()
    // CHECK: return %[[N]]#0, %[[N]]#1
    return
  }
}

// -----

// A list call whose elements share a storage works element by element: the second sees what the first wrote.
module attributes {sojourn.phase = "captured", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  func.func @step(%a: !sojourn.ref<2xf32> {sojourn.kind = "state"}) {
    // CHECK: %[[A:.*]] = sojourn.aten "aten.add"(%arg0) {args = [#sojourn.operand<0>, 1], names = ["self", "other"], sojourn.mutated = array<i64: 0>}
    // CHECK: %[[B:.*]] = sojourn.aten "aten.add"(%[[A]])
    // CHECK: return %[[B]]
    %b = sojourn.view %a : !sojourn.ref<2xf32> -> !sojourn.ref<2xf32>
    sojourn.aten "aten._foreach_add_.Scalar"(%a, %b) {args = [[#sojourn.operand<0>, #sojourn.operand<1>], 1],
      mutates = array<i64: 0, 1>, names = ["self", "scalar"]} : (!sojourn.ref<2xf32>, !sojourn.ref<2xf32>) -> ()
    return
  }
}

// -----

// The same memory as narrower elements: what each element holds is split, low bits first, and joined after a write.
module attributes {sojourn.phase = "captured", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[P:.*]]: tensor<4xf32>
  func.func @step(%p: !sojourn.ref<4xf32> {sojourn.kind = "state"}) {
    %halves = sojourn.view %p : !sojourn.ref<4xf32> -> !sojourn.ref<3xi16, strides = [2], offset = 1>
    // CHECK: %[[B:.*]] = sojourn.bitcast %[[P]] : tensor<4xf32> -> tensor<4xi32>
    // CHECK: %[[W:.*]] = sojourn.convert %[[B]] : tensor<4xi32> -> tensor<4xi64>
    // CHECK: sojourn.broadcast %[[W]], dims = [0] : tensor<4xi64> -> tensor<4x2xi64>
    // CHECK: sojourn.shr
    // CHECK: sojourn.convert {{.*}} : tensor<4x2xi64> -> tensor<4x2xi16>
    // CHECK: sojourn.aten "aten.zero"
    // CHECK: sojourn.update_slice
    // CHECK: sojourn.shl
    // CHECK: sojourn.reduce_sum {{.*}} : tensor<4x2xi64>
    // CHECK: sojourn.bitcast {{.*}} : tensor<4xi32> -> tensor<4xf32>
    sojourn.aten "aten.zero_"(%halves) {args = [#sojourn.operand<0>], mutates = array<i64: 0>, names = ["self"]}
      : (!sojourn.ref<3xi16, strides = [2], offset = 1>) -> ()
    return
  }
}

// -----

// As wider ones: the parts that an element consists of are joined where they are read.
module attributes {sojourn.phase = "captured", sojourn.promotion = "torch"} {
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[P:.*]]: tensor<8xui8>
  func.func @step(%p: !sojourn.ref<8xui8> {sojourn.kind = "state"}) -> (!sojourn.ref<2xf32> {sojourn.result = "keep"}) {
    %floats = sojourn.view %p : !sojourn.ref<8xui8> -> !sojourn.ref<2xf32>
    // CHECK: %[[R:.*]] = sojourn.reshape %[[P]] : tensor<8xui8> -> tensor<2x4xui8>
    // CHECK: %[[B:.*]] = sojourn.bitcast %[[R]] : tensor<2x4xui8> -> tensor<2x4xi8>
    // CHECK: sojourn.and
    // CHECK: sojourn.shl
    // CHECK: sojourn.reduce_sum
    // CHECK: %[[F:.*]] = sojourn.bitcast {{.*}} : tensor<2xi32> -> tensor<2xf32>
    // CHECK: return %[[F]]
    return %floats : !sojourn.ref<2xf32>
  }
}
