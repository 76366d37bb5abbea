// SPDX-License-Identifier: Apache-2.0
// Layout ops cancel, equal ops merge, and what nobody uses goes; no rounding changes.
// RUN: sojourn-opt %s --sojourn-optimize | FileCheck %s

// CHECK-LABEL: func.func @reshapes_cancel
// CHECK-NEXT: return %arg0
func.func @reshapes_cancel(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = sojourn.reshape %x : tensor<4x3xf32> -> tensor<12xf32>
  %1 = sojourn.reshape %0 : tensor<12xf32> -> tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}

// CHECK-LABEL: func.func @equal_ops_merge
// CHECK-NEXT: %[[E:.*]] = sojourn.exp
// CHECK-NEXT: sojourn.add %[[E]], %[[E]]
func.func @equal_ops_merge(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = sojourn.exp %x : tensor<3xf32>
  %1 = sojourn.exp %x : tensor<3xf32>
  %dead = sojourn.neg %x : tensor<3xf32>
  %2 = sojourn.add %0, %1 : tensor<3xf32>, tensor<3xf32>
  return %2 : tensor<3xf32>
}

// CHECK-LABEL: func.func @dot_takes_transposes
// CHECK-NEXT: sojourn.dot %arg0, %arg1, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [1]
func.func @dot_takes_transposes(%x: tensor<3x2xf32>, %w: tensor<4x3xf32>) -> tensor<2x4xf32> {
  %0 = sojourn.transpose %x, perm = [1, 0] : tensor<3x2xf32>
  %1 = sojourn.transpose %w, perm = [1, 0] : tensor<4x3xf32>
  %2 = sojourn.dot %0, %1, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]
    : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// Free dims out of order would change the result's layout.
// CHECK-LABEL: func.func @dot_keeps_order
// CHECK-NEXT: sojourn.transpose
func.func @dot_keeps_order(%x: tensor<2x5x3xf32>, %w: tensor<3x4xf32>) -> tensor<5x2x4xf32> {
  %0 = sojourn.transpose %x, perm = [1, 0, 2] : tensor<2x5x3xf32>
  %1 = sojourn.dot %0, %w, lhs_batch = [], rhs_batch = [], lhs_contract = [2], rhs_contract = [0]
    : tensor<5x2x3xf32>, tensor<3x4xf32> -> tensor<5x2x4xf32>
  return %1 : tensor<5x2x4xf32>
}

// CHECK-LABEL: func.func @transpose_of_dot
// CHECK-NEXT: sojourn.dot %arg1, %arg0, lhs_batch = [0], rhs_batch = [0], lhs_contract = [1], rhs_contract = [2] : tensor<7x3x4xf32>, tensor<7x2x3xf32> -> tensor<7x4x2xf32>
func.func @transpose_of_dot(%x: tensor<7x2x3xf32>, %w: tensor<7x3x4xf32>) -> tensor<7x4x2xf32> {
  %0 = sojourn.dot %x, %w, lhs_batch = [0], rhs_batch = [0], lhs_contract = [2], rhs_contract = [1]
    : tensor<7x2x3xf32>, tensor<7x3x4xf32> -> tensor<7x2x4xf32>
  %1 = sojourn.transpose %0, perm = [0, 2, 1] : tensor<7x2x4xf32>
  return %1 : tensor<7x4x2xf32>
}

// CHECK-LABEL: func.func @slice_of_update
// CHECK-NEXT: %[[S:.*]] = sojourn.slice %arg0, start = [2], limit = [4]
// CHECK-NEXT: return %arg1, %[[S]]
func.func @slice_of_update(%x: tensor<6xf32>, %u: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = sojourn.update_slice %x, %u, start = [0], stride = [1] : tensor<6xf32>, tensor<2xf32>
  %1 = sojourn.slice %0, start = [0], limit = [2], stride = [1] : tensor<6xf32>
  %2 = sojourn.slice %0, start = [2], limit = [4], stride = [1] : tensor<6xf32>
  return %1, %2 : tensor<2xf32>, tensor<2xf32>
}

// Even and odd places never meet; a partial overlap stays.
// CHECK-LABEL: func.func @slice_of_strided_update
// CHECK: %[[U:.*]] = sojourn.update_slice
// CHECK-DAG: sojourn.slice %arg0, start = [1], limit = [6], stride = [2]
// CHECK-DAG: sojourn.slice %[[U]], start = [1], limit = [3], stride = [1]
func.func @slice_of_strided_update(%x: tensor<6xf32>, %u: tensor<3xf32>) -> (tensor<3xf32>, tensor<2xf32>) {
  %0 = sojourn.update_slice %x, %u, start = [0], stride = [2] : tensor<6xf32>, tensor<3xf32>
  %1 = sojourn.slice %0, start = [1], limit = [6], stride = [2] : tensor<6xf32>
  %2 = sojourn.slice %0, start = [1], limit = [3], stride = [1] : tensor<6xf32>
  return %1, %2 : tensor<3xf32>, tensor<2xf32>
}

// CHECK-LABEL: func.func @update_of_update
// CHECK-NEXT: %[[U:.*]] = sojourn.update_slice %arg0, %arg2
// CHECK-NEXT: return %[[U]]
func.func @update_of_update(%x: tensor<6xf32>, %u: tensor<2xf32>, %v: tensor<2xf32>) -> tensor<6xf32> {
  %0 = sojourn.update_slice %x, %u, start = [1], stride = [1] : tensor<6xf32>, tensor<2xf32>
  %1 = sojourn.update_slice %0, %v, start = [1], stride = [1] : tensor<6xf32>, tensor<2xf32>
  return %1 : tensor<6xf32>
}

// The same number says where: what was written is read, and the last write stays. Other numbers may meet.
// CHECK-LABEL: func.func @dynamic_slices
// CHECK-DAG: %[[V:.*]] = sojourn.dynamic_update_slice %arg0, %arg2 from[%arg3], dims = [0]
// CHECK-DAG: %[[S:.*]] = sojourn.dynamic_slice %{{.*}} from[%arg4], dims = [0], sizes = [2]
// CHECK: return %arg1, %[[V]], %[[S]]
func.func @dynamic_slices(%x: tensor<6xf32>, %u: tensor<2xf32>, %v: tensor<2xf32>, %k: tensor<i64>, %l: tensor<i64>)
    -> (tensor<2xf32>, tensor<6xf32>, tensor<2xf32>) {
  %0 = sojourn.dynamic_update_slice %x, %u from [%k], dims = [0] : tensor<6xf32>, tensor<2xf32>, tensor<i64>
  %1 = sojourn.dynamic_slice %0 from [%k], dims = [0], sizes = [2] : tensor<6xf32>, tensor<i64>
  %2 = sojourn.dynamic_update_slice %0, %v from [%k], dims = [0] : tensor<6xf32>, tensor<2xf32>, tensor<i64>
  %3 = sojourn.dynamic_slice %0 from [%l], dims = [0], sizes = [2] : tensor<6xf32>, tensor<i64>
  return %1, %2, %3 : tensor<2xf32>, tensor<6xf32>, tensor<2xf32>
}

// Whole chains of equal ops are one, in either order of operands that commute; other attributes are other ops.
// CHECK-LABEL: func.func @equal_chains_merge
// CHECK-NEXT: %[[S:.*]] = sojourn.add %arg0, %arg1
// CHECK-NEXT: %[[E:.*]] = sojourn.exp %[[S]]
// CHECK-NEXT: %[[A:.*]] = sojourn.slice %[[E]], start = [0], limit = [2]
// CHECK-NEXT: %[[B:.*]] = sojourn.slice %[[E]], start = [1], limit = [3]
// CHECK-NEXT: return %[[E]], %[[E]], %[[A]], %[[B]]
func.func @equal_chains_merge(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<2xf32>, tensor<2xf32>) {
  %0 = sojourn.add %x, %y : tensor<3xf32>, tensor<3xf32>
  %1 = sojourn.exp %0 : tensor<3xf32>
  %2 = sojourn.add %y, %x : tensor<3xf32>, tensor<3xf32>
  %3 = sojourn.exp %2 : tensor<3xf32>
  %4 = sojourn.tanh %3 : tensor<3xf32>
  %5 = sojourn.slice %1, start = [0], limit = [2], stride = [1] : tensor<3xf32>
  %6 = sojourn.slice %3, start = [1], limit = [3], stride = [1] : tensor<3xf32>
  return %1, %3, %5, %6 : tensor<3xf32>, tensor<3xf32>, tensor<2xf32>, tensor<2xf32>
}
