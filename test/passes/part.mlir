// The part of each role: its own arguments and rows, tensors that all know cut where they meet rows, one exchange for
// the sums that do not wait for each other, and results by the role that has them.
// RUN: sojourn-opt %s --sojourn-part=role=0 | sojourn-opt | FileCheck %s --check-prefixes=CHECK,ROLE0
// RUN: sojourn-opt %s --sojourn-part=role=1 | sojourn-opt | FileCheck %s --check-prefixes=CHECK,ROLE1
// RUN: not sojourn-opt %s --sojourn-part=role=2 2>&1 | FileCheck %s --check-prefix=ROLE2

// ROLE2: role is 2, the step has 2 roles, from 0

// CHECK: module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch", sojourn.role = [[ROLE:[01]]] : i64}
// ROLE0: func.func @step(%[[W:.*]]: tensor<3xf32> {sojourn.kind = "state"}, %[[X:.*]]: tensor<2x3xf32> {sojourn.kind = "state"}, %[[Y:.*]]: tensor<6xf32> {sojourn.kind = "state"})
// ROLE0-SAME: -> (tensor<3xf32> {sojourn.result = "commit", sojourn.target = 0 : i64}, tensor<f32> {sojourn.result = "publish"}, tensor<2xf32> {sojourn.result = "keep"})
// ROLE1: func.func @step(%[[W:.*]]: tensor<3xf32> {sojourn.kind = "state"}, %[[X:.*]]: tensor<4x3xf32> {sojourn.kind = "state"}, %[[Y:.*]]: tensor<6xf32> {sojourn.kind = "state"})
// ROLE1-SAME: -> (tensor<3xf32> {sojourn.result = "commit", sojourn.target = 0 : i64}, tensor<f32> {sojourn.result = "publish"}, tensor<f32> {sojourn.result = "keep"}, tensor<4xf32> {sojourn.result = "keep"})
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
  func.func @step(%w: tensor<3xf32> {sojourn.kind = "state"}, %x0: tensor<2x3xf32> {sojourn.kind = "state", sojourn.party = 0 : i64}, %x1: tensor<4x3xf32> {sojourn.kind = "state", sojourn.party = 1 : i64}, %y: tensor<6xf32> {sojourn.kind = "state"})
      -> (tensor<3xf32> {sojourn.result = "commit", sojourn.target = 0 : i64}, tensor<f32> {sojourn.result = "publish"}, tensor<f32> {sojourn.result = "keep"}, tensor<6xf32> {sojourn.result = "keep"}) {
    %x = sojourn.concat %x0, %x1 dim = 0 : tensor<2x3xf32>, tensor<4x3xf32>
    %p = sojourn.dot %x, %w, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0] : tensor<6x3xf32>, tensor<3xf32> -> tensor<6xf32>
    %d = sojourn.sub %p, %y : tensor<6xf32>, tensor<6xf32>
    %s = sojourn.mul %d, %d : tensor<6xf32>, tensor<6xf32>
    %loss = sojourn.reduce_sum %s, dims = [0] : tensor<6xf32>
    %g = sojourn.dot %d, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : tensor<6xf32>, tensor<6x3xf32> -> tensor<3xf32>
    %next = sojourn.sub %w, %g : tensor<3xf32>, tensor<3xf32>
    %own = sojourn.reduce_sum %x1, dims = [0, 1] : tensor<4x3xf32>
    return %next, %loss, %own, %d : tensor<3xf32>, tensor<f32>, tensor<f32>, tensor<6xf32>
  }
}

// The role's rows of the target.
// CHECK: %[[P:.*]] = sojourn.dot %[[X]], %[[W]]
// ROLE0: %[[T:.*]] = sojourn.slice %{{.*}}, start = [0, 0, 0], limit = [1, 2, 1]
// ROLE1: %[[T:.*]] = sojourn.slice %{{.*}}, start = [0, 2, 0], limit = [1, 6, 1]
// CHECK: %[[OWN:.*]] = sojourn.reshape %[[T]]
// CHECK: %[[D:.*]] = sojourn.sub %[[P]], %[[OWN]]
// What one role has alone.
// ROLE0-NOT: dims = [0, 1]
// ROLE1: sojourn.reduce_sum %[[X]], dims = [0, 1] : tensor<4x3xf32>
// Loss and gradient in one exchange.
// CHECK: %[[LOSS:.*]] = sojourn.reduce_sum
// CHECK: %[[G:.*]] = sojourn.dot %[[D]], %[[X]]
// CHECK: %[[SUMS:.*]]:2 = sojourn.across_sum %[[LOSS]], %[[G]] from = [3, 3] : tensor<f32>, tensor<3xf32>
// CHECK-NOT: across_sum
// CHECK: %[[NEXT:.*]] = sojourn.sub %[[W]], %[[SUMS]]#1
// CHECK: return %[[NEXT]], %[[SUMS]]#0
