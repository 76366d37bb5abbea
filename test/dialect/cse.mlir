// SPDX-License-Identifier: Apache-2.0
// Equal draws and equal reads become one: the ops on rows are pure.
// RUN: sojourn-opt %s -cse | FileCheck %s

// CHECK-LABEL: func @rows(
// CHECK: %[[I:.*]] = sojourn.sample_rows
// CHECK-NEXT: %[[J:.*]] = sojourn.sample_rows %{{.*}}, rows = 8
// CHECK-NEXT: %[[X:.*]] = sojourn.read_rows
// CHECK-NEXT: return %[[I]], %[[I]], %[[J]], %[[X]], %[[X]]
func.func @rows(%t: !sojourn.table<9, "a" : 2xf32>, %p: tensor<4xi64>, %s: tensor<i64>, %e: tensor<i64>)
    -> (tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<4x2xf32>, tensor<4x2xf32>) {
  %0 = sojourn.sample_rows %p, %s, %e, rows = 9 : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  %1 = sojourn.sample_rows %p, %s, %e, rows = 9 : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  %2 = sojourn.sample_rows %p, %s, %e, rows = 8 : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  %3 = sojourn.read_rows %t, %0, columns = ["a"] : !sojourn.table<9, "a" : 2xf32>, tensor<4xi64> -> tensor<4x2xf32>
  %4 = sojourn.read_rows %t, %1, columns = ["a"] : !sojourn.table<9, "a" : 2xf32>, tensor<4xi64> -> tensor<4x2xf32>
  return %0, %1, %2, %3, %4 : tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<4x2xf32>, tensor<4x2xf32>
}
