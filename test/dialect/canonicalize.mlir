// SPDX-License-Identifier: Apache-2.0
// Folds and canonical form: what becomes simpler, and what must not since a value would change.
// RUN: sojourn-opt %s -canonicalize | FileCheck %s

// CHECK-LABEL: func @identities(
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]], %[[X]]
func.func @identities(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>,
    tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = sojourn.reshape %x : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = sojourn.transpose %x, perm = [0, 1] : tensor<2x3xf32>
  %2 = sojourn.broadcast %x, dims = [0, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  %3 = sojourn.convert %x : tensor<2x3xf32> -> tensor<2x3xf32>
  %4 = sojourn.slice %x, start = [0, 0], limit = [2, 3], stride = [1, 1] : tensor<2x3xf32>
  %5 = sojourn.reverse %x, dims = [] : tensor<2x3xf32>
  %6 = sojourn.concat %x dim = 0 : tensor<2x3xf32>
  %zero = sojourn.constant 0.0 : f32
  %7 = sojourn.pad %x, %zero, low = [0, 0], high = [0, 0], interior = [0, 0] : tensor<2x3xf32>, tensor<f32>
  %8 = sojourn.reduce_sum %x, dims = [] : tensor<2x3xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>,
    tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// CHECK-LABEL: func @chains(
// CHECK-SAME: %[[X:.*]]: tensor<6x5x4xf32>)
// CHECK-DAG: %[[R:.*]] = sojourn.reshape %[[X]] : tensor<6x5x4xf32> -> tensor<120xf32>
// CHECK-DAG: %[[T:.*]] = sojourn.transpose %[[X]], perm = [2, 1, 0] : tensor<6x5x4xf32>
// CHECK-DAG: %[[S:.*]] = sojourn.slice %[[X]], start = [3, 0, 2], limit = [6, 5, 3], stride = [2, 1, 1] : tensor<6x5x4xf32>
// CHECK: return %[[R]], %[[T]], %[[S]], %[[X]]
func.func @chains(%x: tensor<6x5x4xf32>) -> (tensor<120xf32>, tensor<4x5x6xf32>, tensor<2x5x1xf32>, tensor<6x5x4xf32>) {
  %0 = sojourn.reshape %x : tensor<6x5x4xf32> -> tensor<30x4xf32>
  %1 = sojourn.reshape %0 : tensor<30x4xf32> -> tensor<120xf32>
  %2 = sojourn.transpose %x, perm = [1, 2, 0] : tensor<6x5x4xf32>
  %3 = sojourn.transpose %2, perm = [1, 0, 2] : tensor<5x4x6xf32>
  %4 = sojourn.slice %x, start = [1, 0, 0], limit = [6, 5, 4], stride = [2, 1, 2] : tensor<6x5x4xf32>
  %5 = sojourn.slice %4, start = [1, 0, 1], limit = [3, 5, 2], stride = [1, 1, 1] : tensor<3x5x2xf32>
  %6 = sojourn.reverse %x, dims = [0, 2] : tensor<6x5x4xf32>
  %7 = sojourn.reverse %6, dims = [0, 2] : tensor<6x5x4xf32>
  return %1, %3, %5, %7 : tensor<120xf32>, tensor<4x5x6xf32>, tensor<2x5x1xf32>, tensor<6x5x4xf32>
}

// A slice of what one operand gives is a slice of that operand; of what two give, it stays.
// CHECK-LABEL: func @slices_of_concat(
// CHECK-SAME: %[[A:.*]]: tensor<2x3xf32>, %[[B:.*]]: tensor<2x4xf32>)
// CHECK-DAG: %[[J:.*]] = sojourn.concat %[[A]], %[[B]] dim = 1
// CHECK-DAG: %[[S:.*]] = sojourn.slice %[[B]], start = [1, 1], limit = [2, 4], stride = [1, 2] : tensor<2x4xf32>
// CHECK-DAG: %[[T:.*]] = sojourn.slice %[[A]], start = [0, 1], limit = [2, 3], stride = [1, 1] : tensor<2x3xf32>
// CHECK-DAG: %[[L:.*]] = sojourn.slice %[[A]], start = [0, 2], limit = [2, 3], stride = [1, 4] : tensor<2x3xf32>
// CHECK-DAG: %[[U:.*]] = sojourn.slice %[[J]], start = [0, 2], limit = [2, 4], stride = [1, 1] : tensor<2x7xf32>
// CHECK-DAG: %[[E:.*]] = sojourn.slice %[[J]], start = [0, 3], limit = [2, 3], stride = [1, 1] : tensor<2x7xf32>
// CHECK: return %[[B]], %[[S]], %[[T]], %[[L]], %[[U]], %[[E]]
func.func @slices_of_concat(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>)
    -> (tensor<2x4xf32>, tensor<1x2xf32>, tensor<2x2xf32>, tensor<2x1xf32>, tensor<2x2xf32>, tensor<2x0xf32>) {
  %0 = sojourn.concat %a, %b dim = 1 : tensor<2x3xf32>, tensor<2x4xf32>
  %1 = sojourn.slice %0, start = [0, 3], limit = [2, 7], stride = [1, 1] : tensor<2x7xf32>
  %2 = sojourn.slice %0, start = [1, 4], limit = [2, 7], stride = [1, 2] : tensor<2x7xf32>
  %3 = sojourn.slice %0, start = [0, 1], limit = [2, 3], stride = [1, 1] : tensor<2x7xf32>
  %4 = sojourn.slice %0, start = [0, 2], limit = [2, 6], stride = [1, 4] : tensor<2x7xf32>
  %5 = sojourn.slice %0, start = [0, 2], limit = [2, 4], stride = [1, 1] : tensor<2x7xf32>
  %6 = sojourn.slice %0, start = [0, 3], limit = [2, 3], stride = [1, 1] : tensor<2x7xf32>
  return %1, %2, %3, %4, %5, %6 : tensor<2x4xf32>, tensor<1x2xf32>, tensor<2x2xf32>, tensor<2x1xf32>, tensor<2x2xf32>, tensor<2x0xf32>
}

// CHECK-LABEL: func @unit_dims(
// CHECK-SAME: %[[X:.*]]: tensor<3x1x5xf32>, %[[B:.*]]: tensor<7xf32>)
// CHECK-DAG: %[[T:.*]] = sojourn.reshape %[[X]] : tensor<3x1x5xf32> -> tensor<1x3x5xf32>
// CHECK-DAG: %[[U:.*]] = sojourn.broadcast %[[B]], dims = [1] : tensor<7xf32> -> tensor<2x7x4xf32>
// CHECK: return %[[T]], %[[U]]
func.func @unit_dims(%x: tensor<3x1x5xf32>, %b: tensor<7xf32>) -> (tensor<1x3x5xf32>, tensor<2x7x4xf32>) {
  %0 = sojourn.transpose %x, perm = [1, 0, 2] : tensor<3x1x5xf32>
  %1 = sojourn.reshape %b : tensor<7xf32> -> tensor<1x7x1xf32>
  %2 = sojourn.broadcast %1, dims = [0, 1, 2] : tensor<1x7x1xf32> -> tensor<2x7x4xf32>
  return %0, %2 : tensor<1x3x5xf32>, tensor<2x7x4xf32>
}

// A splat stays rank 0 until something of full shape needs it.
// CHECK-LABEL: func @splats(
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32>, %[[S:.*]]: tensor<f32>)
// CHECK: %[[E:.*]] = sojourn.exp %[[S]] : tensor<f32>
// CHECK: %[[A:.*]] = sojourn.add %[[X]], %[[E]] : tensor<2x3xf32>, tensor<f32>
// CHECK: %[[W:.*]] = sojourn.broadcast %[[E]], dims = [] : tensor<f32> -> tensor<3x2xf32>
// CHECK: return %[[A]], %[[W]]
func.func @splats(%x: tensor<2x3xf32>, %s: tensor<f32>) -> (tensor<2x3xf32>, tensor<3x2xf32>) {
  %0 = sojourn.broadcast %s, dims = [] : tensor<f32> -> tensor<2x3xf32>
  %1 = sojourn.exp %0 : tensor<2x3xf32>
  %2 = sojourn.add %x, %1 : tensor<2x3xf32>, tensor<2x3xf32>
  %3 = sojourn.transpose %1, perm = [1, 0] : tensor<2x3xf32>
  return %2, %3 : tensor<2x3xf32>, tensor<3x2xf32>
}

// -0.0 is the neutral element of float addition, 0.0 is not: -0.0 + 0.0 is 0.0.
// CHECK-LABEL: func @zeros(
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>, %[[I:.*]]: tensor<2xi32>)
// CHECK: %[[A:.*]] = sojourn.add %[[X]]
// CHECK: %[[B:.*]] = sojourn.sub %[[X]]
// CHECK: %[[C:.*]] = sojourn.mul %[[X]]
// CHECK: return %[[A]], %[[X]], %[[X]], %[[B]], %[[X]], %[[X]], %[[C]], %[[I]], %[[I]]
func.func @zeros(%x: tensor<2xf32>, %i: tensor<2xi32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>,
    tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi32>) {
  %zero = sojourn.constant 0.0 : f32
  %minus = sojourn.constant -0.0 : f32
  %one = sojourn.constant 1.0 : f32
  %0 = sojourn.add %x, %zero : tensor<2xf32>, tensor<f32>
  %1 = sojourn.add %minus, %x : tensor<f32>, tensor<2xf32>
  %2 = sojourn.sub %x, %zero : tensor<2xf32>, tensor<f32>
  %3 = sojourn.sub %x, %minus : tensor<2xf32>, tensor<f32>
  %4 = sojourn.mul %one, %x : tensor<f32>, tensor<2xf32>
  %5 = sojourn.div %x, %one : tensor<2xf32>, tensor<f32>
  %6 = sojourn.mul %x, %zero : tensor<2xf32>, tensor<f32>
  %izero = sojourn.constant 0 : i32
  %ione = sojourn.constant 1 : i32
  %7 = sojourn.add %i, %izero : tensor<2xi32>, tensor<i32>
  %8 = sojourn.div %i, %ione : tensor<2xi32>, tensor<i32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>,
    tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi32>
}

// A splat is not x: the shape of the other operand must stay.
// CHECK-LABEL: func @neutral_of_larger_shape(
// CHECK: sojourn.add
func.func @neutral_of_larger_shape(%s: tensor<i32>) -> tensor<2xi32> {
  %zero = sojourn.constant 0 : i32
  %0 = sojourn.iota dim = 0 : tensor<2xi32>
  %1 = sojourn.mul %0, %zero : tensor<2xi32>, tensor<i32>
  %2 = sojourn.add %s, %1 : tensor<i32>, tensor<2xi32>
  return %2 : tensor<2xi32>
}

// 0.1 + 0.2 is one thing in f32 and another in f64; bf16 rounds once.
// CHECK-LABEL: func @arithmetic(
// CHECK-DAG: %[[A:.*]] = sojourn.constant 3.000000e-01 : f32
// CHECK-DAG: %[[B:.*]] = sojourn.constant 0.30000000000000004 : f64
// CHECK-DAG: %[[C:.*]] = sojourn.constant 3.007810e-01 : bf16
// CHECK-DAG: %[[D:.*]] = sojourn.constant -128 : i8
// CHECK-DAG: %[[E:.*]] = sojourn.constant 0 : i32
// CHECK-DAG: %[[F:.*]] = sojourn.constant 4 : ui8
// CHECK: return %[[A]], %[[B]], %[[C]], %[[D]], %[[E]], %[[D]], %[[F]]
func.func @arithmetic() -> (tensor<f32>, tensor<f64>, tensor<bf16>, tensor<i8>, tensor<i32>, tensor<i8>, tensor<ui8>) {
  %a = sojourn.constant 0.1 : f32
  %b = sojourn.constant 0.2 : f32
  %0 = sojourn.add %a, %b : tensor<f32>, tensor<f32>
  %c = sojourn.constant 0.1 : f64
  %d = sojourn.constant 0.2 : f64
  %1 = sojourn.add %c, %d : tensor<f64>, tensor<f64>
  %e = sojourn.constant 0.1 : bf16
  %f = sojourn.constant 0.2 : bf16
  %2 = sojourn.add %e, %f : tensor<bf16>, tensor<bf16>
  %g = sojourn.constant 127 : i8
  %h = sojourn.constant 1 : i8
  %3 = sojourn.add %g, %h : tensor<i8>, tensor<i8>
  %i = sojourn.constant 7 : i32
  %zero = sojourn.constant 0 : i32
  %4 = sojourn.div %i, %zero : tensor<i32>, tensor<i32>
  %min = sojourn.constant -128 : i8
  %m1 = sojourn.constant -1 : i8
  %5 = sojourn.div %min, %m1 : tensor<i8>, tensor<i8>
  %u = sojourn.constant 130 : ui8
  %6 = sojourn.add %u, %u : tensor<ui8>, tensor<ui8>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<f32>, tensor<f64>, tensor<bf16>, tensor<i8>, tensor<i32>, tensor<i8>, tensor<ui8>
}

// The bits of a NaN belong to the executor.
// CHECK-LABEL: func @nan(
// CHECK: sojourn.div
func.func @nan() -> tensor<f32> {
  %zero = sojourn.constant 0.0 : f32
  %0 = sojourn.div %zero, %zero : tensor<f32>, tensor<f32>
  return %0 : tensor<f32>
}

// CHECK-LABEL: func @casts(
// CHECK-DAG: %[[SAT:.*]] = sojourn.constant 127 : i8
// CHECK-DAG: %[[WRAP:.*]] = sojourn.constant 44 : i8
// CHECK-DAG: %[[TRUNC:.*]] = sojourn.constant -2 : i32
// CHECK-DAG: %[[ZERO:.*]] = sojourn.constant 0 : i64
// CHECK-DAG: %[[TRUE:.*]] = sojourn.constant true
// CHECK-DAG: %[[U:.*]] = sojourn.constant 0 : ui8
// CHECK-DAG: %[[F:.*]] = sojourn.constant 1.000000e-01 : f32
// CHECK-DAG: %[[ONE:.*]] = sojourn.constant 1.000000e+00 : f64
// CHECK: return %[[SAT]], %[[WRAP]], %[[TRUNC]], %[[ZERO]], %[[TRUE]], %[[U]], %[[F]], %[[ONE]]
func.func @casts() -> (tensor<i8>, tensor<i8>, tensor<i32>, tensor<i64>, tensor<i1>, tensor<ui8>, tensor<f32>, tensor<f64>) {
  %a = sojourn.constant 300.0 : f32
  %0 = sojourn.convert %a : tensor<f32> -> tensor<i8>
  %b = sojourn.constant 300 : i32
  %1 = sojourn.convert %b : tensor<i32> -> tensor<i8>
  %c = sojourn.constant -2.9 : f64
  %2 = sojourn.convert %c : tensor<f64> -> tensor<i32>
  %nan = sojourn.constant 0x7FC00000 : f32
  %3 = sojourn.convert %nan : tensor<f32> -> tensor<i64>
  %4 = sojourn.convert %nan : tensor<f32> -> tensor<i1>
  %5 = sojourn.convert %c : tensor<f64> -> tensor<ui8>
  %d = sojourn.constant 0.1 : f64
  %6 = sojourn.convert %d : tensor<f64> -> tensor<f32>
  %true = sojourn.constant true
  %7 = sojourn.convert %true : tensor<i1> -> tensor<f64>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<i8>, tensor<i8>, tensor<i32>, tensor<i64>, tensor<i1>, tensor<ui8>, tensor<f32>, tensor<f64>
}

// Two casts are one only where the first keeps every value and the second does the same as a direct cast.
// CHECK-LABEL: func @cast_chains(
// CHECK-SAME: %[[H:.*]]: tensor<2xbf16>, %[[F:.*]]: tensor<2xf32>, %[[I:.*]]: tensor<2xi32>, %[[B:.*]]: tensor<2xi8>)
// CHECK-DAG: %[[LOSSY:.*]] = sojourn.convert %[[F]] : tensor<2xf32> -> tensor<2xbf16>
// CHECK-DAG: %[[BACK:.*]] = sojourn.convert %[[LOSSY]] : tensor<2xbf16> -> tensor<2xf32>
// CHECK-DAG: %[[VIA:.*]] = sojourn.convert %[[I]] : tensor<2xi32> -> tensor<2xf64>
// CHECK-DAG: %[[SATURATED:.*]] = sojourn.convert %[[VIA]] : tensor<2xf64> -> tensor<2xi8>
// CHECK-DAG: %[[WRAPPED:.*]] = sojourn.convert %[[B]] : tensor<2xi8> -> tensor<2xui8>
// CHECK: return %[[H]], %[[BACK]], %[[SATURATED]], %[[I]], %[[WRAPPED]]
func.func @cast_chains(%h: tensor<2xbf16>, %f: tensor<2xf32>, %i: tensor<2xi32>, %b: tensor<2xi8>)
    -> (tensor<2xbf16>, tensor<2xf32>, tensor<2xi8>, tensor<2xi32>, tensor<2xui8>) {
  %0 = sojourn.convert %h : tensor<2xbf16> -> tensor<2xf32>
  %1 = sojourn.convert %0 : tensor<2xf32> -> tensor<2xbf16>
  %2 = sojourn.convert %f : tensor<2xf32> -> tensor<2xbf16>
  %3 = sojourn.convert %2 : tensor<2xbf16> -> tensor<2xf32>
  %4 = sojourn.convert %i : tensor<2xi32> -> tensor<2xf64>
  %5 = sojourn.convert %4 : tensor<2xf64> -> tensor<2xi8>
  %6 = sojourn.convert %4 : tensor<2xf64> -> tensor<2xi32>
  %7 = sojourn.convert %b : tensor<2xi8> -> tensor<2xi32>
  %8 = sojourn.convert %7 : tensor<2xi32> -> tensor<2xui8>
  return %1, %3, %5, %6, %8 : tensor<2xbf16>, tensor<2xf32>, tensor<2xi8>, tensor<2xi32>, tensor<2xui8>
}

// CHECK-LABEL: func @choice(
// CHECK-SAME: %[[X:.*]]: tensor<2xf32>, %[[S:.*]]: tensor<f32>, %[[P:.*]]: tensor<2xi1>)
// CHECK: %[[W:.*]] = sojourn.broadcast %[[S]], dims = [] : tensor<f32> -> tensor<2xf32>
// CHECK: return %[[X]], %[[W]], %[[X]], %[[P]]
func.func @choice(%x: tensor<2xf32>, %s: tensor<f32>, %p: tensor<2xi1>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi1>) {
  %a = sojourn.constant 1 : i64
  %b = sojourn.constant 2 : i64
  %less = sojourn.compare "lt" %a, %b : tensor<i64>, tensor<i64>
  %greater = sojourn.compare "gt" %a, %b : tensor<i64>, tensor<i64>
  %0 = sojourn.select %less, %x, %s : tensor<i1>, tensor<2xf32>, tensor<f32>
  %1 = sojourn.select %greater, %x, %s : tensor<i1>, tensor<2xf32>, tensor<f32>
  %2 = sojourn.select %p, %x, %x : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
  %3 = sojourn.and %p, %less : tensor<2xi1>, tensor<i1>
  return %0, %1, %2, %3 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi1>
}

// Every order against NaN is false, ne is true; ui8 compares unsigned.
// CHECK-LABEL: func @comparisons(
// CHECK-DAG: %[[T:.*]] = sojourn.constant true
// CHECK-DAG: %[[F:.*]] = sojourn.constant false
// CHECK: return %[[F]], %[[T]], %[[F]], %[[T]], %[[T]]
func.func @comparisons() -> (tensor<i1>, tensor<i1>, tensor<i1>, tensor<i1>, tensor<i1>) {
  %nan = sojourn.constant 0x7FC00000 : f32
  %one = sojourn.constant 1.0 : f32
  %0 = sojourn.compare "ge" %nan, %one : tensor<f32>, tensor<f32>
  %1 = sojourn.compare "ne" %nan, %nan : tensor<f32>, tensor<f32>
  %2 = sojourn.compare "eq" %nan, %nan : tensor<f32>, tensor<f32>
  %a = sojourn.constant 200 : ui8
  %b = sojourn.constant 100 : ui8
  %3 = sojourn.compare "gt" %a, %b : tensor<ui8>, tensor<ui8>
  %zero = sojourn.constant 0.0 : f32
  %minus = sojourn.constant -0.0 : f32
  %4 = sojourn.compare "eq" %zero, %minus : tensor<f32>, tensor<f32>
  return %0, %1, %2, %3, %4 : tensor<i1>, tensor<i1>, tensor<i1>, tensor<i1>, tensor<i1>
}

// CHECK-LABEL: func @writes(
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32>, %[[U:.*]]: tensor<2x3xf32>, %[[E:.*]]: tensor<2x0xf32>)
// CHECK-NEXT: return %[[U]], %[[X]], %[[X]]
func.func @writes(%x: tensor<2x3xf32>, %u: tensor<2x3xf32>, %e: tensor<2x0xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = sojourn.update_slice %x, %u, start = [0, 0], stride = [1, 1] : tensor<2x3xf32>, tensor<2x3xf32>
  %1 = sojourn.update_slice %x, %e, start = [0, 1], stride = [1, 1] : tensor<2x3xf32>, tensor<2x0xf32>
  %2 = sojourn.concat %e, %x dim = 1 : tensor<2x0xf32>, tensor<2x3xf32>
  return %0, %1, %2 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// What nothing uses goes.
// CHECK-LABEL: func @unused_rows(
// CHECK-NEXT: return
func.func @unused_rows(%t: !sojourn.table<9, "a" : f64>, %p: tensor<4xi64>, %s: tensor<i64>) {
  %0 = sojourn.sample_rows %p, %s, %s of %t : tensor<4xi64>, tensor<i64>, tensor<i64>, !sojourn.table<9, "a" : f64> -> tensor<4xi64>
  return
}
