// A value of one role that is written to a tensor of all is sent to them, after all other exchanges.
// RUN: sojourn-opt %s --sojourn-part=role=0 | sojourn-opt | FileCheck %s --check-prefixes=CHECK,ROLE0
// RUN: sojourn-opt %s --sojourn-part=role=1 | sojourn-opt | FileCheck %s --check-prefixes=CHECK,ROLE1
// RUN: sojourn-opt %s --sojourn-placement 2>&1 | FileCheck %s --check-prefix=PLACE

// PLACE: result #0 is known to all, sent by role 1 in the last exchange
// PLACE: result #1 is known to all, sent by role 0 in the last exchange
// PLACE: result #2 is at role 1

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
  func.func @step(%w: tensor<3xf32> {sojourn.kind = "state"}, %n: tensor<i64> {sojourn.kind = "state"}, %a: tensor<i64> {sojourn.kind = "state", sojourn.party = 0 : i64}, %b: tensor<3xf32> {sojourn.kind = "state", sojourn.party = 1 : i64})
      -> (tensor<3xf32> {sojourn.result = "commit", sojourn.target = 0 : i64}, tensor<i64> {sojourn.result = "commit", sojourn.target = 1 : i64}, tensor<3xf32> {sojourn.result = "keep"}) {
    %next = sojourn.mul %w, %b : tensor<3xf32>, tensor<3xf32>
    %more = sojourn.mul %n, %a : tensor<i64>, tensor<i64>
    return %next, %more, %next : tensor<3xf32>, tensor<i64>, tensor<3xf32>
  }
}

// ROLE0: func.func @step(%[[W:.*]]: tensor<3xf32> {{.*}}, %[[N:.*]]: tensor<i64> {{.*}}, %[[A:.*]]: tensor<i64>
// ROLE0-SAME: -> (tensor<3xf32> {sojourn.result = "commit", sojourn.target = 0 : i64}, tensor<i64> {sojourn.result = "commit", sojourn.target = 1 : i64})
// ROLE0: %[[OWN:.*]] = sojourn.mul %[[N]], %[[A]]
// ROLE0: %[[ZERO:.*]] = sojourn.broadcast
// ROLE0: %[[SUMS:.*]]:2 = sojourn.across_sum %[[ZERO]], %[[OWN]] from = [2, 1]
// ROLE1: func.func @step(%[[W:.*]]: tensor<3xf32> {{.*}}, %[[N:.*]]: tensor<i64> {{.*}}, %[[B:.*]]: tensor<3xf32>
// ROLE1-SAME: tensor<3xf32> {sojourn.result = "keep"})
// ROLE1: %[[OWN:.*]] = sojourn.mul %[[W]], %[[B]]
// ROLE1: %[[SUMS:.*]]:2 = sojourn.across_sum %[[OWN]], %{{.*}} from = [2, 1]
// CHECK: return %[[SUMS]]#0, %[[SUMS]]#1
