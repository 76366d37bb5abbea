// SPDX-License-Identifier: Apache-2.0
// What the lowering enforces whatever was proved: constants in the place of values that can be one number only, operands
// of sums that nobody clips clamped to their proved magnitude with NaN as 0, and row numbers that are computed while the
// step runs, each at the first place where it stands.
// RUN: sojourn-opt %s -split-input-file --sojourn-make-private="bounds=a=0:1" | FileCheck %s

// CHECK-LABEL: func.func @step
// CHECK-NOT: read_rows
// CHECK: %[[TWO:.*]] = sojourn.constant 2.0
// CHECK: %[[ALL:.*]] = sojourn.broadcast %[[TWO]]
// CHECK: return %[[ALL]]
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<8, "a" : f64> {sojourn.kind = "table"}) -> (tensor<8xf64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<8, "a" : f64>, tensor<8xi64> -> tensor<8xf64>
  %two = sojourn.constant 2.0 : f64
  %z = sojourn.max %x, %two : tensor<8xf64>, tensor<f64>
  return %z : tensor<8xf64>
}
}

// -----

// CHECK-LABEL: func.func @step
// CHECK-SAME: tensor<24xi64> {sojourn.kind = "coin"})
// CHECK: %[[ONCE:.*]] = sojourn.first_rows %{{.*}} : tensor<24xi64>
// CHECK: %[[X:.*]] = sojourn.read_rows %{{.*}}, %[[ONCE]],
// CHECK: %[[DRAWN:.*]] = sojourn.compare "ge" %[[ONCE]],
// CHECK: %[[UP:.*]] = sojourn.max %[[X]], %{{.*}}
// CHECK: %[[CLAMPED:.*]] = sojourn.min %[[UP]], %{{.*}}
// CHECK: %[[REAL:.*]] = sojourn.compare "eq" %[[CLAMPED]], %[[CLAMPED]]
// CHECK: %[[SAFE:.*]] = sojourn.select %[[REAL]], %[[CLAMPED]],
// CHECK: %[[KEPT:.*]] = sojourn.select %[[DRAWN]], %[[SAFE]],
// CHECK: sojourn.reduce_sum %[[KEPT]], dims = [0]
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%seed: tensor<i64> {sojourn.kind = "seed"}, %t: !sojourn.table<100, "a" : f64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %p = sojourn.iota dim = 0 : tensor<24xi64>
  %i = sojourn.sample_rows %p, %seed, %seed of %t, expected = 8 : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a" : f64> -> tensor<24xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a" : f64>, tensor<24xi64> -> tensor<24xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<24xf64>
  return %s : tensor<f64>
}
}

// -----

// A list that the program alone says is checked before the step runs, and read as it is.
// CHECK-LABEL: func.func @step
// CHECK-NOT: first_rows
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<100, "a" : f64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<100xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a" : f64>, tensor<100xi64> -> tensor<100xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<100xf64>
  return %s : tensor<f64>
}
}
