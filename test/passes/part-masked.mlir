// Sums over rows of all roles are masked: integers on a grid, with the number of elements outside it. Others are not.
// RUN: sojourn-opt %s --sojourn-part="role=1 masked=true" | sojourn-opt | FileCheck %s
// RUN: sojourn-opt %s --sojourn-part="role=1" | FileCheck %s --check-prefix=CLEAR

// CLEAR-NOT: masked
// CLEAR: across_sum {{.*}} from = [7, 7, 6, 3] : tensor<3xf32>, tensor<i64>, tensor<3xf32>, tensor<f32>
module attributes {sojourn.parties = 3 : i64, sojourn.promotion = "torch"} {
  func.func @step(%x0: tensor<2x3xf32> {sojourn.kind = "state", sojourn.party = 0 : i64}, %x1: tensor<4x3xf32> {sojourn.kind = "state", sojourn.party = 1 : i64}, %x2: tensor<5x3xf32> {sojourn.kind = "state", sojourn.party = 2 : i64}, %a: tensor<f32> {sojourn.kind = "state", sojourn.party = 0 : i64}, %b: tensor<f32> {sojourn.kind = "state", sojourn.party = 1 : i64})
      -> (tensor<3xf32> {sojourn.result = "publish"}, tensor<i64> {sojourn.result = "publish"}, tensor<3xf32> {sojourn.result = "publish"}, tensor<f32> {sojourn.result = "publish"}) {
    %x = sojourn.concat %x0, %x1, %x2 dim = 0 : tensor<2x3xf32>, tensor<4x3xf32>, tensor<5x3xf32>
    %two = sojourn.concat %x1, %x2 dim = 0 : tensor<4x3xf32>, tensor<5x3xf32>
    %s = sojourn.reduce_sum %x, dims = [0] : tensor<11x3xf32>
    %n = sojourn.convert %x : tensor<11x3xf32> -> tensor<11x3xi64>
    %c = sojourn.reduce_sum %n, dims = [0, 1] : tensor<11x3xi64>
    %t = sojourn.reduce_sum %two, dims = [0] : tensor<9x3xf32>
    %ab = sojourn.add %a, %b : tensor<f32>, tensor<f32>
    return %s, %c, %t, %ab : tensor<3xf32>, tensor<i64>, tensor<3xf32>, tensor<f32>
  }
}
// CHECK: %[[OWN:.*]] = sojourn.reduce_sum %{{.*}}, dims = [0] : tensor<4x3xf32>
// CHECK: %[[STEP:.*]] = sojourn.constant 0x4290000000000000 : f64
// CHECK: %[[WIDE:.*]] = sojourn.convert %[[OWN]] {{.*}}tensor<3xf64>
// CHECK: %[[SCALED:.*]] = sojourn.mul %[[WIDE]], %[[STEP]]
// CHECK: %[[GRID:.*]] = sojourn.round %[[SCALED]]
// CHECK: %[[FITS:.*]] = sojourn.and
// CHECK: %[[KEPT:.*]] = sojourn.select %[[FITS]], %[[GRID]]
// CHECK: %[[WORDS:.*]] = sojourn.convert %[[KEPT]] {{.*}}tensor<3xi64>
// CHECK: %[[LOST:.*]] = sojourn.reduce_sum %{{.*}}, dims = [0] : tensor<3xi64>
// CHECK: %[[SUMS:.*]]:5 = sojourn.across_sum %[[LOST]], %[[WORDS]], %{{.*}} from = [7, 7, 7, 6, 3], masked = [1, 1, 1, 0, 0] : tensor<i64>, tensor<3xi64>, tensor<i64>, tensor<3xf32>, tensor<f32>
// CHECK: %[[WHOLE:.*]] = sojourn.compare "eq" %[[SUMS]]#0
// CHECK: sojourn.select %[[WHOLE]]
// CHECK: return %{{.*}}, %[[SUMS]]#2, %[[SUMS]]#3, %[[SUMS]]#4
