// SPDX-License-Identifier: Apache-2.0
// Captured form: the examples of its ops, and every way to write its types and attributes.
// RUN: sojourn-opt %s --verify-roundtrip | FileCheck %s
// RUN: sojourn-opt %s --emit-bytecode | sojourn-opt | FileCheck %s

// CHECK-LABEL: func @aten(
// CHECK: sojourn.aten{{[ "]}}
func.func @aten(%x: !sojourn.ref<4xf32>, %y: !sojourn.ref<4xf32>, %s: !sojourn.scalar<f64>) {
  %r = sojourn.aten "aten.add.Tensor"(%x, %y, %s)
    {args = [#sojourn.operand<0>, #sojourn.operand<1>, #sojourn.operand<2>], names = ["self", "other", "alpha"]}
    : (!sojourn.ref<4xf32>, !sojourn.ref<4xf32>, !sojourn.scalar<f64>) -> !sojourn.ref<4xf32>
  return
}

// CHECK-LABEL: func @moved_view(
// CHECK: sojourn.moved_view{{[ "]}}
func.func @moved_view(%r: !sojourn.ref<100x32xf32>, %k: !sojourn.scalar<i64>) {
  %v = sojourn.moved_view %r at [%k], shape = [100, 32], dims = [0] : !sojourn.ref<100x32xf32>, !sojourn.scalar<i64>
    -> !sojourn.ref<5x32xf32>
  return
}

// CHECK-LABEL: func @view(
// CHECK: sojourn.view{{[ "]}}
func.func @view(%r: !sojourn.ref<64x30xf32>) {
  %t = sojourn.view %r : !sojourn.ref<64x30xf32> -> !sojourn.ref<30x64xf32, strides = [1, 30], offset = 0>
  return
}

// CHECK-LABEL: func @alloc(
// CHECK: sojourn.alloc{{[ "]}}
func.func @alloc(%value: tensor<4xf32>) {
  %r = sojourn.alloc %value : tensor<4xf32> -> !sojourn.ref<4xf32>
  return
}

// CHECK-LABEL: func @load(
// CHECK: sojourn.load{{[ "]}}
func.func @load(%r: !sojourn.ref<4xf32>) {
  %value = sojourn.load %r : !sojourn.ref<4xf32> -> tensor<4xf32>
  return
}

// A dense layout prints short; any other prints strides and offset.
// CHECK-LABEL: func @refs(
// CHECK-SAME: %{{[^:]*}}: !sojourn.ref<2x3xf32>,
// CHECK-SAME: %{{[^:]*}}: !sojourn.ref<2x3xf32>,
// CHECK-SAME: %{{[^:]*}}: !sojourn.ref<f32>,
// CHECK-SAME: %{{[^:]*}}: !sojourn.ref<3xbf16, strides = [1], offset = 3>,
// CHECK-SAME: %{{[^:]*}}: !sojourn.ref<4x3xi64, strides = [0, 1], offset = 0>,
// CHECK-SAME: %{{[^:]*}}: !sojourn.ref<0x3xui8>,
// CHECK-SAME: %{{[^:]*}}: !sojourn.ref<2xcomplex<f32>>)
func.func @refs(%a: !sojourn.ref<2x3xf32>, %b: !sojourn.ref<2x3xf32, strides = [3, 1], offset = 0>,
                %c: !sojourn.ref<f32>, %d: !sojourn.ref<3xbf16, offset = 3>,
                %e: !sojourn.ref<4x3xi64, strides = [0, 1]>, %f: !sojourn.ref<0x3xui8>,
                %g: !sojourn.ref<2xcomplex<f32>>) {
  return
}

// CHECK-LABEL: func @slots_and_tables(
// CHECK-SAME: !sojourn.scalar<f64>, %{{[^:]*}}: !sojourn.scalar<i64>, %{{[^:]*}}: !sojourn.scalar<i1>,
// CHECK-SAME: !sojourn.table<0>, %{{[^:]*}}: !sojourn.table<569, "mean \22radius\22" : f32, "y" : i64>
func.func @slots_and_tables(%a: !sojourn.scalar<f64>, %b: !sojourn.scalar<i64>, %c: !sojourn.scalar<i1>,
                            %d: !sojourn.table<0>, %e: !sojourn.table<569, "mean \"radius\"" : f32, "y" : i64>) {
  return
}

// Every kind of argument; a write; an undefined output.
// CHECK-LABEL: func @arguments(
// CHECK: sojourn.aten "aten.index_put_"
// CHECK-SAME: mutates = array<i64: 0>
// CHECK: sojourn.aten "aten.native_layer_norm_backward"
// CHECK-SAME: -> (!sojourn.ref<2x3xf32>, none)
func.func @arguments(%x: !sojourn.ref<2x3xf32>, %i: !sojourn.ref<2xi64>, %v: !sojourn.ref<2x3xf32>) {
  sojourn.aten "aten.index_put_"(%x, %i, %v)
    {args = [#sojourn.operand<0>, [unit, #sojourn.operand<1>], #sojourn.operand<2>, false],
     mutates = array<i64: 0>, names = ["self", "indices", "values", "accumulate"]}
    : (!sojourn.ref<2x3xf32>, !sojourn.ref<2xi64>, !sojourn.ref<2x3xf32>) -> ()
  %r, %n = sojourn.aten "aten.native_layer_norm_backward"(%x)
    {args = [#sojourn.operand<0>, [3], 1.0 : f64, f32, "mean", [true, false], unit],
     names = ["a", "shape", "eps", "dtype", "text", "mask", "none"]} : (!sojourn.ref<2x3xf32>) -> (!sojourn.ref<2x3xf32>, none)
  return
}

// A write through a view stays, a fresh value that nobody reads goes.
// CHECK-LABEL: func @effects(
// CHECK: %[[VIEW:.*]] = sojourn.view
// CHECK-NEXT: sojourn.aten "aten.zero_"(%[[VIEW]])
// CHECK-NEXT: return
func.func @effects(%x: !sojourn.ref<2x3xf32>) {
  %row = sojourn.view %x : !sojourn.ref<2x3xf32> -> !sojourn.ref<3xf32, strides = [1], offset = 3>
  sojourn.aten "aten.zero_"(%row) {args = [#sojourn.operand<0>], mutates = array<i64: 0>, names = ["self"]}
    : (!sojourn.ref<3xf32, strides = [1], offset = 3>) -> ()
  return
}
