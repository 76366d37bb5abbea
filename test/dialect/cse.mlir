// SPDX-License-Identifier: Apache-2.0
// Equal draws and equal reads become one: the ops on rows are pure. Draws of another table or part, or in the order of
// a split, are others.
// RUN: sojourn-opt %s -cse | FileCheck %s

// CHECK-LABEL: func @rows(
// CHECK: %[[I:.*]] = sojourn.sample_rows
// CHECK-NEXT: %[[J:.*]] = sojourn.sample_rows %{{.*}}, part = [first 5.000000e-01]
// CHECK-NEXT: %[[K:.*]] = sojourn.sample_rows %{{.*}}, split = [first 5.000000e-01]
// CHECK-NEXT: %[[L:.*]] = sojourn.sample_rows %{{.*}}, part = [other 5.000000e-01]
// CHECK-NEXT: %[[M:.*]] = sojourn.sample_rows %{{.*}}!sojourn.table<9, "b" : f32>
// CHECK-NEXT: %[[X:.*]] = sojourn.read_rows
// CHECK-NEXT: return %[[I]], %[[I]], %[[J]], %[[J]], %[[K]], %[[L]], %[[M]], %[[X]], %[[X]]
func.func @rows(%t: !sojourn.table<9, "a" : 2xf32>, %u: !sojourn.table<9, "b" : f32>, %p: tensor<4xi64>, %s: tensor<i64>, %e: tensor<i64>)
    -> (tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<4x2xf32>, tensor<4x2xf32>) {
  %i = sojourn.sample_rows %p, %s, %e of %t : tensor<4xi64>, tensor<i64>, tensor<i64>, !sojourn.table<9, "a" : 2xf32> -> tensor<4xi64>
  %i2 = sojourn.sample_rows %p, %s, %e of %t : tensor<4xi64>, tensor<i64>, tensor<i64>, !sojourn.table<9, "a" : 2xf32> -> tensor<4xi64>
  %j = sojourn.sample_rows %p, %s, %e of %t, part = [first 0.5] : tensor<4xi64>, tensor<i64>, tensor<i64>, !sojourn.table<9, "a" : 2xf32> -> tensor<4xi64>
  %j2 = sojourn.sample_rows %p, %s, %e of %t, part = [first 0.5] : tensor<4xi64>, tensor<i64>, tensor<i64>, !sojourn.table<9, "a" : 2xf32> -> tensor<4xi64>
  %k = sojourn.sample_rows %p, %s, %e of %t, split = [first 0.5] : tensor<4xi64>, tensor<i64>, tensor<i64>, !sojourn.table<9, "a" : 2xf32> -> tensor<4xi64>
  %l = sojourn.sample_rows %p, %s, %e of %t, part = [other 0.5] : tensor<4xi64>, tensor<i64>, tensor<i64>, !sojourn.table<9, "a" : 2xf32> -> tensor<4xi64>
  %m = sojourn.sample_rows %p, %s, %e of %u : tensor<4xi64>, tensor<i64>, tensor<i64>, !sojourn.table<9, "b" : f32> -> tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<9, "a" : 2xf32>, tensor<4xi64> -> tensor<4x2xf32>
  %x2 = sojourn.read_rows %t, %i2, columns = ["a"] : !sojourn.table<9, "a" : 2xf32>, tensor<4xi64> -> tensor<4x2xf32>
  return %i, %i2, %j, %j2, %k, %l, %m, %x, %x2 : tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<4x2xf32>, tensor<4x2xf32>
}
