// SPDX-License-Identifier: Apache-2.0
// The formula of each family by hand, and shapes as large as there are.
// RUN: sojourn-opt %s --split-input-file --sojourn-price --verify-diagnostics

module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  // expected-remark @+1 {{price: 564 operations}}
  func.func @step(%x: tensor<4x6xf32>, %i: tensor<2xi64>, %seed: tensor<i64>) -> tensor<4x5xf32> {
    // expected-remark @+1 {{24 operations, 0 bytes of scratch}}
    %e = sojourn.exp %x : tensor<4x6xf32>
    // 24 read, 6 written.
    // expected-remark @+1 {{30 operations, 240 bytes of scratch}}
    %s = sojourn.reduce_sum %e, dims = [0] : tensor<4x6xf32>
    // 24 elements through 1 + log2 of 8 passes over lines of 6.
    // expected-remark @+1 {{96 operations, 288 bytes of scratch}}
    %v, %p = sojourn.sort %e, dim = 1, descending = false : tensor<4x6xf32>
    // expected-remark @+1 {{12 operations}}
    %t = sojourn.take %v, %i, dim = 0 : tensor<4x6xf32>, tensor<2xi64>
    // 24 of x, 12 of u.
    // expected-remark @+1 {{36 operations, 288 bytes of scratch}}
    %q = sojourn.put "add" %v, %i, %t, dim = 0 : tensor<4x6xf32>, tensor<2xi64>, tensor<2x6xf32>
    // 6 elements of Philox, 16 each.
    // expected-remark @+1 {{96 operations}}
    %r = sojourn.rng_uniform %seed, stream = 0 : tensor<6xf32>
    // 2 * 4 * 5 * 6, of a broadcast of 30.
    // expected-remark @+1 {{30 operations}}
    %w = sojourn.broadcast %r, dims = [0] : tensor<6xf32> -> tensor<6x5xf32>
    // expected-remark @+1 {{240 operations, 888 bytes of scratch}}
    %y = sojourn.dot %q, %w, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]
      : tensor<4x6xf32>, tensor<6x5xf32> -> tensor<4x5xf32>
    return %y : tensor<4x5xf32>
  }
}

// -----

module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  // expected-remark @+1 {{price: }}
  func.func @step(%x: tensor<1x2x5x4xf32>, %w: tensor<3x2x2x2xf32>) -> tensor<1x3x4x3xf32> {
    // Two copies of cells with a position, the windows' ends, and a wide copy, of 40 and 24 elements.
    // expected-remark @+1 {{3584 bytes of scratch}}
    %m, %i = sojourn.pool_max %x, window = [2, 2], stride = [1, 1], padding = [0, 0], dilation = [1, 1]
      : tensor<1x2x5x4xf32>
    // expected-remark @+1 {{2560 bytes of scratch}}
    %s = sojourn.pool_sum %x, window = [2, 2], stride = [1, 1], padding = [0, 0], dilation = [1, 1]
      : tensor<1x2x5x4xf32>
    // Three times 40, 24 and 36 floats.
    // expected-remark @+1 {{1200 bytes of scratch}}
    %y = sojourn.conv %x, %w, stride = [1, 1], padding = [0, 0], dilation = [1, 1], groups = 1
      : tensor<1x2x5x4xf32>, tensor<3x2x2x2xf32>
    return %y : tensor<1x3x4x3xf32>
  }
}

// -----

module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  // expected-remark @+1 {{price: 140754668224512 operations}}
  func.func @step(%x: tensor<32768x32768xf32>) -> tensor<32768x32768xf32> {
    // expected-remark @+1 {{70368744177664 operations}}
    %y = sojourn.dot %x, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]
      : tensor<32768x32768xf32>, tensor<32768x32768xf32> -> tensor<32768x32768xf32>
    // expected-remark @+1 {{17179869184 operations}}
    %z, %i = sojourn.sort %y, dim = 1, descending = false : tensor<32768x32768xf32>
    // expected-remark @+1 {{70368744177664 operations}}
    %a = sojourn.dot %y, %z, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]
      : tensor<32768x32768xf32>, tensor<32768x32768xf32> -> tensor<32768x32768xf32>
    return %a : tensor<32768x32768xf32>
  }
}
