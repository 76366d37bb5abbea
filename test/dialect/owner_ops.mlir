// SPDX-License-Identifier: Apache-2.0
// The owner's own form: the documented examples, and the ways of each op, print as they parse.
// RUN: sojourn-opt %s | sojourn-opt | FileCheck %s

// CHECK-LABEL: func.func @flat
func.func @flat(%r: tensor<8xi64>, %g: tensor<8x2xf32>, %x: tensor<8x3xf32>, %c: tensor<2x3xi64>) -> tensor<2x3xf32> {
  // CHECK: sojourn.clipped_sum "flat" rows %{{.*}}, bounds = [1.000000e+00], norm = 2(%{{.*}}, %{{.*}}) : tensor<8xi64>, (tensor<8x2xf32>, tensor<8x3xf32>) -> tensor<2x3xf64> {
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<8x2xf32>, %{{.*}}: tensor<8x3xf32>):
  // CHECK-NEXT: sojourn.dot
  // CHECK-NEXT: sojourn.yield %{{.*}} : tensor<2x3xf32>
  %s = sojourn.clipped_sum "flat" rows %r, bounds = [1.0], norm = 2 (%g, %x)
    : tensor<8xi64>, (tensor<8x2xf32>, tensor<8x3xf32>) -> tensor<2x3xf64> {
  ^bb0(%g0: tensor<8x2xf32>, %x0: tensor<8x3xf32>):
    %w = sojourn.dot %g0, %x0, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0]
      : tensor<8x2xf32>, tensor<8x3xf32> -> tensor<2x3xf32>
    sojourn.yield %w : tensor<2x3xf32>
  }
  // CHECK: sojourn.noise "gaussian"(%{{.*}}) coins(%{{.*}}), exponent = -20, scale = 1048576 : (tensor<2x3xf64>), (tensor<2x3xi64>) -> (tensor<2x3xf32>)
  %n = sojourn.noise "gaussian" (%s) coins (%c), exponent = -20, scale = 1048576
    : (tensor<2x3xf64>), (tensor<2x3xi64>) -> (tensor<2x3xf32>)
  return %n : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @layers
func.func @layers(%r: tensor<8xi64>, %x: tensor<8x3xf64>, %c: tensor<3xi64>, %d: tensor<i64>) -> (tensor<3xf64>, tensor<f64>) {
  // CHECK: sojourn.clipped_sum "per_layer" rows %{{.*}}, bounds = [5.000000e-01, 2.000000e+00], norm = 2(%{{.*}})
  // CHECK: sojourn.yield %{{.*}}, %{{.*}} : tensor<3xf64>, tensor<f64>
  %s:2 = sojourn.clipped_sum "per_layer" rows %r, bounds = [0.5, 2.0], norm = 2 (%x)
    : tensor<8xi64>, (tensor<8x3xf64>) -> (tensor<3xf64>, tensor<f64>) {
  ^bb0(%x0: tensor<8x3xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x3xf64>
    %b = sojourn.reduce_sum %x0, dims = [0, 1] : tensor<8x3xf64>
    sojourn.yield %a, %b : tensor<3xf64>, tensor<f64>
  }
  // CHECK: sojourn.noise "gaussian"(%{{.*}}#0, %{{.*}}#1) coins(%{{.*}}, %{{.*}}), exponent = 3, scale = 7 : (tensor<3xf64>, tensor<f64>), (tensor<3xi64>, tensor<i64>) -> (tensor<3xf64>, tensor<f64>)
  %n:2 = sojourn.noise "gaussian" (%s#0, %s#1) coins (%c, %d), exponent = 3, scale = 7
    : (tensor<3xf64>, tensor<f64>), (tensor<3xi64>, tensor<i64>) -> (tensor<3xf64>, tensor<f64>)
  return %n#0, %n#1 : tensor<3xf64>, tensor<f64>
}

// CHECK-LABEL: func.func @pure
func.func @pure(%r: tensor<8xi64>, %x: tensor<8xi64>, %c: tensor<i64>) -> tensor<f64> {
  // CHECK: sojourn.clipped_sum "none" rows %{{.*}}, bounds = [3.000000e+00], norm = 1(%{{.*}}) : tensor<8xi64>, (tensor<8xi64>) -> tensor<f64>
  %s = sojourn.clipped_sum "none" rows %r, bounds = [3.0], norm = 1 (%x) : tensor<8xi64>, (tensor<8xi64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xi64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xi64>
    sojourn.yield %a : tensor<i64>
  }
  // CHECK: sojourn.noise "laplace"
  %n = sojourn.noise "laplace" (%s) coins (%c), exponent = -20, scale = 3145730 : (tensor<f64>), (tensor<i64>) -> (tensor<f64>)
  return %n : tensor<f64>
}
