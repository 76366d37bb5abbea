// SPDX-License-Identifier: Apache-2.0
// The formula of each family by hand, and shapes as large as there are.
// RUN: sojourn-opt %s --split-input-file --sojourn-price --verify-diagnostics

module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  // expected-remark @+1 {{price: 1048 operations}}
  func.func @step(%x: tensor<4x6xf32>, %i: tensor<2xi64>, %seed: tensor<i64>) -> tensor<4x5xf32> {
    // 24 functions, of 4 each.
    // expected-remark @+1 {{96 operations, 0 bytes of scratch}}
    %e = sojourn.exp %x : tensor<4x6xf32>
    // 24 read, of 4 each, 6 written.
    // expected-remark @+1 {{102 operations, 240 bytes of scratch}}
    %s = sojourn.reduce_sum %e, dims = [0] : tensor<4x6xf32>
    // 24 elements through 1 + log2 of 8 passes over lines of 6, of 4 each.
    // expected-remark @+1 {{384 operations, 384 bytes of scratch}}
    %v, %p = sojourn.sort %e, dim = 1, descending = false : tensor<4x6xf32>
    // expected-remark @+1 {{12 operations}}
    %t = sojourn.take %v, %i, dim = 0 : tensor<4x6xf32>, tensor<2xi64>
    // 24 of x, 12 of u, of 2 each.
    // expected-remark @+1 {{48 operations, 288 bytes of scratch}}
    %q = sojourn.put "add" %v, %i, %t, dim = 0 : tensor<4x6xf32>, tensor<2xi64>, tensor<2x6xf32>
    // 6 elements of Philox, 16 each.
    // expected-remark @+1 {{96 operations}}
    %r = sojourn.rng_uniform %seed, stream = 0 : tensor<6xf32>
    // 2 * 4 * 5 * (6 + 1), of a broadcast of 30.
    // expected-remark @+1 {{30 operations}}
    %w = sojourn.broadcast %r, dims = [0] : tensor<6xf32> -> tensor<6x5xf32>
    // expected-remark @+1 {{280 operations, 888 bytes of scratch}}
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
    // Three times 40, 24 and 36 floats; columns of 2 * 4 * 12 elements, once and for each of 3 channels.
    // expected-remark @+1 {{4272 bytes of scratch}}
    %y = sojourn.conv %x, %w, stride = [1, 1], padding = [0, 0], dilation = [1, 1], groups = 1
      : tensor<1x2x5x4xf32>, tensor<3x2x2x2xf32>
    return %y : tensor<1x3x4x3xf32>
  }
}

// -----

module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  // expected-remark @+1 {{price: 140810502799360 operations}}
  func.func @step(%x: tensor<32768x32768xf32>) -> tensor<32768x32768xf32> {
    // expected-remark @+1 {{70370891661312 operations}}
    %y = sojourn.dot %x, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]
      : tensor<32768x32768xf32>, tensor<32768x32768xf32> -> tensor<32768x32768xf32>
    // expected-remark @+1 {{68719476736 operations}}
    %z, %i = sojourn.sort %y, dim = 1, descending = false : tensor<32768x32768xf32>
    // expected-remark @+1 {{70370891661312 operations}}
    %a = sojourn.dot %y, %z, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]
      : tensor<32768x32768xf32>, tensor<32768x32768xf32> -> tensor<32768x32768xf32>
    return %a : tensor<32768x32768xf32>
  }
}

// -----

// A call for each matrix, whether it has elements or not; and results larger than the operand.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  // expected-remark @+1 {{price: }}
  func.func @step(%x: tensor<1000000x0x0xf32>, %y: tensor<1000000x1x1xf32>, %z: tensor<1x4096x1xf32>) {
    // expected-remark @+1 {{4160000000 operations}}
    %l, %p, %r, %o = sojourn.lu %x : tensor<1000000x0x0xf32>
    // expected-remark @+1 {{8332000000 operations}}
    %q, %t = sojourn.qr %y full = false : tensor<1000000x1x1xf32>
    // 4096 for the elimination, 4096 * 4097 entries of 64 + 4.
    // expected-remark @+1 {{1140990088 operations}}
    %u, %s, %v = sojourn.svd %z full = true : tensor<1x4096x1xf32>
    return
  }
}

// -----

// One element of g, and a million of the result: they are written. A group with its own call. Doubles have columns.
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  // expected-remark @+1 {{price: }}
  func.func @step(%g: tensor<1x1x1x1xf32>, %w: tensor<1x1x1x1xf32>, %x: tensor<1x16384x1x1xf32>,
                  %d: tensor<16384x1x1x1xf32>, %i: tensor<1x1x2048x2048xf64>, %k: tensor<1x1x64x64xf64>) {
    // 2 + 16 * (1 + 1000000) + 16 + 4096 + 256, and 8 for a column.
    // expected-remark @+1 {{16004394 operations}}
    %a = sojourn.conv_grad_input %g, %w, stride = [1000, 1000], padding = [0, 0], dilation = [1, 1], groups = 1
      : tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32> -> tensor<1x1x1000x1000xf32>
    // expected-remark @+1 {{71860224 operations}}
    %b = sojourn.conv %x, %d, stride = [1, 1], padding = [0, 0], dilation = [1, 1], groups = 16384
      : tensor<1x16384x1x1xf32>, tensor<16384x1x1x1xf32>
    // 64 * 64 * 1985 * 1985 doubles of columns, and as much again while they fit.
    // expected-remark @+1 {{129577055256 bytes of scratch}}
    %c = sojourn.conv %i, %k, stride = [1, 1], padding = [0, 0], dilation = [1, 1], groups = 1
      : tensor<1x1x2048x2048xf64>, tensor<1x1x64x64xf64>
    return
  }
}
