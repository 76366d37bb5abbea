// SPDX-License-Identifier: Apache-2.0
// Reductions, scans and sorts: within a row all of them are per row; over rows a sum is a cut, the rest mixes.
// RUN: sojourn-opt %s -split-input-file --sojourn-rows="bounds=*=-1:3" --verify-diagnostics=only-expected

// Sums. Over rows: how far a row moves it follows from its range. 18 numbers of magnitude 3 have a Euclidean norm of
// 3 sqrt(18) = 12.7279 and a sum of 54; summed to 6 numbers of 3 terms each, a row moves each by at most 9: 9 sqrt(6) =
// 22.0454; to 3 numbers of 6 terms, by 18: 18 sqrt(3) = 31.1769. The magnitudes stay 54 in all.
func.func @step(%t: !sojourn.table<4, "image": 6x3xf64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64, "k": i64>, tensor<4xi64> -> tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 6, in [-3, 9]}}
  %y = sojourn.reduce_sum %x, dims = [2] : tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 1, in [-18, 54]}}
  %z = sojourn.reduce_sum %x, dims = [1, 2] : tensor<4x6x3xf64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 12.7279 (sum 54, largest 3), in [-4, 12]}}
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4x6x3xf64>
  // expected-remark@below {{sum over rows: cuts 1, one row moves it by 22.0454 (sum 54, largest 9), in [-12, 36]}}
  %u = sojourn.reduce_sum %x, dims = [0, 2] : tensor<4x6x3xf64>
  // expected-remark@below {{sum over rows: cuts 2, one row moves it by 54, in [-72, 216]}}
  %v = sojourn.reduce_sum %x, dims = [0, 1, 2] : tensor<4x6x3xf64>
  // Of a sum again: linear.
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 31.1769 (sum 54, largest 18)}}
  %w = sojourn.reduce_sum %s, dims = [0] : tensor<6x3xf64>
  // Tokens of rows, flattened into one dim with them.
  %flat = sojourn.reshape %x : tensor<4x6x3xf64> -> tensor<24x3xf64>
  // expected-remark@below {{sum over rows: cuts 3, one row moves it by 31.1769 (sum 54, largest 18)}}
  %tokens = sojourn.reduce_sum %flat, dims = [0] : tensor<24x3xf64>
  return
}

// -----

// Rows that straddle dims cannot be summed.
func.func @step(%t: !sojourn.table<4, "image": 6x3xf64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64, "k": i64>, tensor<4xi64> -> tensor<4x6x3xf64>
  %all = sojourn.reshape %x : tensor<4x6x3xf64> -> tensor<9x8xf64>
  // expected-remark@below {{mixed: rows are spread over several dims of an operand}}
  %y = sojourn.reduce_sum %all, dims = [0] : tensor<9x8xf64>
  // expected-remark@below {{mixed: rows are spread over several dims of an operand}}
  %z = sojourn.reduce_max %all, dims = [0] : tensor<9x8xf64>
  // expected-remark@below {{mixed: rows are spread over several dims of an operand}}
  %w = sojourn.cumsum %all, dim = 0 : tensor<9x8xf64>
  return
}

// -----

// Other reductions within a row, and over rows, where one row can change anything.
func.func @step(%t: !sojourn.table<4, "image": 6x3xf64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64, "k": i64>, tensor<4xi64> -> tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 3}}
  %reduce_prod_in = sojourn.reduce_prod %x, dims = [1] : tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 3, in [-1, 3]}}
  %reduce_max_in = sojourn.reduce_max %x, dims = [1] : tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 3, in [-1, 3]}}
  %reduce_min_in = sojourn.reduce_min %x, dims = [1] : tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 3, in [0, 5]}}
  %argmax_in = sojourn.argmax %x, dim = 1 : tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 3, in [0, 5]}}
  %argmin_in = sojourn.argmin %x, dim = 1 : tensor<4x6x3xf64>
  // expected-remark@below {{mixed: is taken over rows}}
  %reduce_prod_over = sojourn.reduce_prod %x, dims = [0] : tensor<4x6x3xf64>
  // expected-remark@below {{mixed: is taken over rows}}
  %reduce_max_over = sojourn.reduce_max %x, dims = [0] : tensor<4x6x3xf64>
  // expected-remark@below {{mixed: is taken over rows}}
  %reduce_min_over = sojourn.reduce_min %x, dims = [0] : tensor<4x6x3xf64>
  // expected-remark@below {{mixed: is taken over rows}}
  %argmax_over = sojourn.argmax %x, dim = 0 : tensor<4x6x3xf64>
  // expected-remark@below {{mixed: is taken over rows}}
  %argmin_over = sojourn.argmin %x, dim = 0 : tensor<4x6x3xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4x6x3xf64>
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %m = sojourn.reduce_max %s, dims = [0] : tensor<6x3xf64>
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %a = sojourn.argmax %s, dim = 0 : tensor<6x3xf64>
  return
}

// -----

// Scans within a row, and along rows. A scan of a sum is linear for sums alone.
func.func @step(%t: !sojourn.table<4, "image": 6x3xf64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64, "k": i64>, tensor<4xi64> -> tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18}}
  %cumsum_in = sojourn.cumsum %x, dim = 1 : tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18}}
  %cumprod_in = sojourn.cumprod %x, dim = 1 : tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18}}
  %cummax_in = sojourn.cummax %x, dim = 1 : tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18}}
  %cummin_in = sojourn.cummin %x, dim = 1 : tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18}}
  %cumlogsumexp_in = sojourn.cumlogsumexp %x, dim = 1 : tensor<4x6x3xf64>
  // expected-remark@below {{mixed: runs along rows}}
  %cumsum_over = sojourn.cumsum %x, dim = 0 : tensor<4x6x3xf64>
  // expected-remark@below {{mixed: runs along rows}}
  %cumprod_over = sojourn.cumprod %x, dim = 0 : tensor<4x6x3xf64>
  // expected-remark@below {{mixed: runs along rows}}
  %cummax_over = sojourn.cummax %x, dim = 0 : tensor<4x6x3xf64>
  // expected-remark@below {{mixed: runs along rows}}
  %cummin_over = sojourn.cummin %x, dim = 0 : tensor<4x6x3xf64>
  // expected-remark@below {{mixed: runs along rows}}
  %cumlogsumexp_over = sojourn.cumlogsumexp %x, dim = 0 : tensor<4x6x3xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4x6x3xf64>
  // expected-remark@below {{sum over rows: cuts 0}}
  %c = sojourn.cumsum %s, dim = 0 : tensor<6x3xf64>
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %m = sojourn.cummax %s, dim = 0 : tensor<6x3xf64>
  return
}

// -----

// Sorting within a row gives values and places of the same row; along rows it is a median in the making.
func.func @step(%t: !sojourn.table<4, "image": 6x3xf64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64, "k": i64>, tensor<4xi64> -> tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18, in [-1, 3]}}
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18, in [0, 5]}}
  %v, %p = sojourn.sort %x, dim = 1, descending = false : tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 6, in [-1, 3]}}
  // expected-remark@below {{per row: draw 0, 4 slots, stride 6, in [0, 5]}}
  %tv, %tp = sojourn.topk %x, dim = 1, k = 2, largest = true : tensor<4x6x3xf64>
  // expected-remark@below {{mixed: runs along rows}}
  %sv, %sp = sojourn.sort %x, dim = 0, descending = false : tensor<4x6x3xf64>
  // expected-remark@below {{mixed: runs along rows}}
  %kv, %kp = sojourn.topk %x, dim = 0, k = 2, largest = true : tensor<4x6x3xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4x6x3xf64>
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %dv, %dp = sojourn.sort %s, dim = 0, descending = false : tensor<6x3xf64>
  return
}
