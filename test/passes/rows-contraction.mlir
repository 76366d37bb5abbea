// SPDX-License-Identifier: Apache-2.0
// Products: rows as a batch or free dim stay rows, contracted with themselves they are a cut; windows leave rows alone.
// RUN: sojourn-opt %s -split-input-file --sojourn-rows="bounds=*=-1:3" --verify-diagnostics=only-expected

// A layer: rows are a free dim, on either side; and a batch dim, as of attention.
func.func @step(%w: tensor<3x5xf64>, %t: !sojourn.table<4, "image": 6x3xf64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64>, tensor<4xi64> -> tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 30}}
  %left = sojourn.dot %x, %w, lhs_batch = [], rhs_batch = [], lhs_contract = [2], rhs_contract = [0] : tensor<4x6x3xf64>, tensor<3x5xf64> -> tensor<4x6x5xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 6}}
  %right = sojourn.dot %w, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [2] : tensor<3x5xf64>, tensor<4x6x3xf64> -> tensor<5x4x6xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 36, in [-9, 27]}}
  %attend = sojourn.dot %x, %x, lhs_batch = [0], rhs_batch = [0], lhs_contract = [2], rhs_contract = [2] : tensor<4x6x3xf64>, tensor<4x6x3xf64> -> tensor<4x6x6xf64>
  // Tokens beside rows in one dim.
  %flat = sojourn.reshape %x : tensor<4x6x3xf64> -> tensor<24x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 30}}
  %tokens = sojourn.dot %flat, %w, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0] : tensor<24x3xf64>, tensor<3x5xf64> -> tensor<24x5xf64>
  return
}

// -----

// Weight gradients: rows contracted with rows, with or without tokens, or with public values. A row's share is at most the
// product of the norms of its two blocks: (3 sqrt 18)^2 = 162. Its largest number is 9 per token, its magnitudes are so many
// times that: 6 * 9 * 9 = 486 where tokens are summed, 18 * 18 * 9 = 2916 where they are not.
func.func @step(%w: tensor<4x5xf64>, %t: !sojourn.table<4, "image": 6x3xf64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64>, tensor<4xi64> -> tensor<4x6x3xf64>
  %flat = sojourn.reshape %x : tensor<4x6x3xf64> -> tensor<24x3xf64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 162 (sum 486, largest 54)}}
  %tokens = sojourn.dot %flat, %flat, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : tensor<24x3xf64>, tensor<24x3xf64> -> tensor<3x3xf64>
  // expected-remark@below {{sum over rows: cuts 1, one row moves it by 162 (sum 486, largest 54)}}
  %both = sojourn.dot %x, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [0, 1], rhs_contract = [0, 1] : tensor<4x6x3xf64>, tensor<4x6x3xf64> -> tensor<3x3xf64>
  // expected-remark@below {{sum over rows: cuts 2, one row moves it by 162 (sum 2916, largest 9)}}
  %outer = sojourn.dot %x, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : tensor<4x6x3xf64>, tensor<4x6x3xf64> -> tensor<6x3x6x3xf64>
  // expected-remark@below {{sum over rows: cuts 3}}
  %weighted = sojourn.dot %w, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : tensor<4x5xf64>, tensor<4x6x3xf64> -> tensor<5x6x3xf64>
  // With heads as a batch dim: 54 numbers of at most 9, 9 sqrt 54 = 66.1362.
  // expected-remark@below {{sum over rows: cuts 4, one row moves it by 66.1362 (sum 486, largest 9)}}
  %heads = sojourn.dot %x, %x, lhs_batch = [1], rhs_batch = [1], lhs_contract = [0], rhs_contract = [0] : tensor<4x6x3xf64>, tensor<4x6x3xf64> -> tensor<6x3x3xf64>
  return
}

// -----

// Rows against rows: similarities of all pairs, as contrastive losses take them.
func.func @step(%t: !sojourn.table<4, "image": 6x3xf64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64>, tensor<4xi64> -> tensor<4x6x3xf64>
  // expected-remark@below {{mixed: each row meets other rows of the batch}}
  %pairs = sojourn.dot %x, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [1, 2], rhs_contract = [1, 2] : tensor<4x6x3xf64>, tensor<4x6x3xf64> -> tensor<4x4xf64>
  return
}

// -----

// Rows contracted on one side and free on the other; a batch with its own half; tokens in other places.
func.func @step(%t: !sojourn.table<4, "image": 6x3xf64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64>, tensor<4xi64> -> tensor<4x6x3xf64>
  %turned = sojourn.transpose %x, perm = [1, 0, 2] : tensor<4x6x3xf64>
  %k = sojourn.slice %x, start = [0, 0, 0], limit = [4, 4, 3], stride = [1, 1, 1] : tensor<4x6x3xf64>
  // expected-remark@below {{mixed: each row meets other rows of the batch}}
  %cross = sojourn.dot %k, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0] : tensor<4x4x3xf64>, tensor<4x6x3xf64> -> tensor<4x3x6x3xf64>
  %first = sojourn.slice %x, start = [0, 0, 0], limit = [2, 6, 3], stride = [1, 1, 1] : tensor<4x6x3xf64>
  %last = sojourn.slice %x, start = [2, 0, 0], limit = [4, 6, 3], stride = [1, 1, 1] : tensor<4x6x3xf64>
  // expected-remark@below {{mixed: each row meets other rows of the batch}}
  %halves = sojourn.dot %first, %last, lhs_batch = [0], rhs_batch = [0], lhs_contract = [2], rhs_contract = [2] : tensor<2x6x3xf64>, tensor<2x6x3xf64> -> tensor<2x6x6xf64>
  %flat = sojourn.reshape %x : tensor<4x6x3xf64> -> tensor<24x3xf64>
  %other = sojourn.reshape %turned : tensor<6x4x3xf64> -> tensor<24x3xf64>
  // expected-remark@below {{mixed: each row meets other rows of the batch}}
  %places = sojourn.dot %flat, %other, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : tensor<24x3xf64>, tensor<24x3xf64> -> tensor<3x3xf64>
  return
}

// -----

// Rows that straddle dims, and sums beside rows.
func.func @step(%w: tensor<8x2xf64>, %v: tensor<3x2xf64>, %t: !sojourn.table<4, "image": 6x3xf64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64>, tensor<4xi64> -> tensor<4x6x3xf64>
  %odd = sojourn.reshape %x : tensor<4x6x3xf64> -> tensor<9x8xf64>
  // expected-remark@below {{mixed: rows are spread over several dims of an operand}}
  %bad = sojourn.dot %odd, %w, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0] : tensor<9x8xf64>, tensor<8x2xf64> -> tensor<9x2xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4x6x3xf64>
  // expected-remark@below {{mixed: per-row values meet a value that was summed over rows}}
  %meets = sojourn.dot %x, %s, lhs_batch = [], rhs_batch = [], lhs_contract = [1, 2], rhs_contract = [0, 1] : tensor<4x6x3xf64>, tensor<6x3xf64> -> tensor<4xf64>
  // Linear in the sum, bilinear in two.
  // expected-remark@below {{sum over rows: cuts 0}}
  %linear = sojourn.dot %s, %v, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0] : tensor<6x3xf64>, tensor<3x2xf64> -> tensor<6x2xf64>
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %square = sojourn.dot %s, %s, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1] : tensor<6x3xf64>, tensor<6x3xf64> -> tensor<6x6xf64>
  return
}

// -----

// Convolutions: rows are the batch dim, the weight is public; their weight gradient is a cut.
func.func @step(%w: tensor<5x2x3x3xf32>, %p: tensor<1x5x8x8xf32>, %t: !sojourn.table<4, "image": 2x8x8xf32>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 2x8x8xf32>, tensor<4xi64> -> tensor<4x2x8x8xf32>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 320}}
  %y = sojourn.conv %x, %w, stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1 : tensor<4x2x8x8xf32>, tensor<5x2x3x3xf32>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 128}}
  %dx = sojourn.conv_grad_input %y, %w, stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1 : tensor<4x5x8x8xf32>, tensor<5x2x3x3xf32> -> tensor<4x2x8x8xf32>
  // expected-remark@below {{sum over rows: cuts 0}}
  %dw = sojourn.conv_grad_weight %y, %x, stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1 : tensor<4x5x8x8xf32>, tensor<4x2x8x8xf32> -> tensor<5x2x3x3xf32>
  // Of a sum: linear; and of a weight that was made from a sum.
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4x2x8x8xf32>
  %one = sojourn.reshape %s : tensor<2x8x8xf32> -> tensor<1x2x8x8xf32>
  // expected-remark@below {{sum over rows: cuts 1}}
  %ys = sojourn.conv %one, %w, stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1 : tensor<1x2x8x8xf32>, tensor<5x2x3x3xf32>
  // expected-remark@below {{sum over rows: cuts 1}}
  %dws = sojourn.conv_grad_weight %p, %one, stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1 : tensor<1x5x8x8xf32>, tensor<1x2x8x8xf32> -> tensor<5x2x3x3xf32>
  // expected-remark@below {{mixed: per-row values meet a value that was summed over rows}}
  %z = sojourn.conv %x, %dw, stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1 : tensor<4x2x8x8xf32>, tensor<5x2x3x3xf32>
  return
}

// -----

// A weight that depends on rows; rows laid along channels; rows laid along channels of a gradient.
func.func @step(%p: tensor<1x2x8x8xf32>, %w: tensor<5x4x3x3xf32>, %t: !sojourn.table<4, "image": 2x8x8xf32>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 2x8x8xf32>, tensor<4xi64> -> tensor<4x2x8x8xf32>
  // expected-remark@below {{mixed: the weight of a convolution depends on rows}}
  %y = sojourn.conv %p, %x, stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1 : tensor<1x2x8x8xf32>, tensor<4x2x8x8xf32>
  %turned = sojourn.transpose %x, perm = [1, 0, 2, 3] : tensor<4x2x8x8xf32>
  // expected-remark@below {{mixed: rows are not the batch dim of a convolution}}
  %z = sojourn.conv %turned, %w, stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1 : tensor<2x4x8x8xf32>, tensor<5x4x3x3xf32>
  // expected-remark@below {{mixed: rows are not the batch dim of a convolution}}
  %dw = sojourn.conv_grad_weight %turned, %turned, stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1 : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32> -> tensor<4x4x3x3xf32>
  return
}

// -----

// Pools work plane by plane: rows may be the first or second dim, and no window runs over rows.
func.func @step(%t: !sojourn.table<4, "image": 2x8x8xf32>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 2x8x8xf32>, tensor<4xi64> -> tensor<4x2x8x8xf32>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 32}}
  %y = sojourn.pool_sum %x, window = [2, 2], stride = [2, 2], padding = [0, 0], dilation = [1, 1] : tensor<4x2x8x8xf32>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 32, in [-1, 3]}}
  %v, %p = sojourn.pool_max %x, window = [2, 2], stride = [2, 2], padding = [0, 0], dilation = [1, 1] : tensor<4x2x8x8xf32>
  %turned = sojourn.transpose %x, perm = [1, 2, 0, 3] : tensor<4x2x8x8xf32>
  // expected-remark@below {{mixed: pools over the dim that holds rows}}
  %z = sojourn.pool_sum %turned, window = [2, 2], stride = [2, 2], padding = [0, 0], dilation = [1, 1] : tensor<2x8x4x8xf32>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4x2x8x8xf32>
  %one = sojourn.reshape %s : tensor<2x8x8xf32> -> tensor<1x2x8x8xf32>
  // expected-remark@below {{sum over rows: cuts 0}}
  %sum = sojourn.pool_sum %one, window = [2, 2], stride = [2, 2], padding = [0, 0], dilation = [1, 1] : tensor<1x2x8x8xf32>
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %mv, %mp = sojourn.pool_max %one, window = [2, 2], stride = [2, 2], padding = [0, 0], dilation = [1, 1] : tensor<1x2x8x8xf32>
  return
}

// -----

// Factors of matrices: one per row, of products of a row's own features; over rows, nothing.
func.func @step(%t: !sojourn.table<4, "image": 6x3xf64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x3xf64>, tensor<4xi64> -> tensor<4x6x3xf64>
  %gram = sojourn.dot %x, %x, lhs_batch = [0], rhs_batch = [0], lhs_contract = [2], rhs_contract = [2] : tensor<4x6x3xf64>, tensor<4x6x3xf64> -> tensor<4x6x6xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 36}}
  // expected-remark@below {{per row: draw 0, 4 slots, stride 1, in [0, 6]}}
  %l, %o = sojourn.cholesky %gram : tensor<4x6x6xf64>
  %turned = sojourn.transpose %gram, perm = [1, 2, 0] : tensor<4x6x6xf64>
  %part = sojourn.slice %turned, start = [0, 0, 0], limit = [6, 4, 4], stride = [1, 1, 1] : tensor<6x6x4xf64>
  // expected-remark@below {{mixed: uses private rows as the rows of a matrix}}
  %ml, %mo = sojourn.cholesky %part : tensor<6x4x4xf64>
  %s = sojourn.reduce_sum %gram, dims = [0] : tensor<4x6x6xf64>
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %dl, %do = sojourn.cholesky %s : tensor<6x6xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 36}}
  %solved = sojourn.triangular_solve %l, %gram, lower = true, unit = false : tensor<4x6x6xf64>, tensor<4x6x6xf64>
  // expected-remark@below {{mixed: uses private rows as the rows of a matrix}}
  %ms = sojourn.triangular_solve %part, %part, lower = true, unit = false : tensor<6x4x4xf64>, tensor<6x4x4xf64>
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %ds = sojourn.triangular_solve %dl, %s, lower = true, unit = false : tensor<6x6xf64>, tensor<6x6xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 6}}
  // expected-remark@below {{per row: draw 0, 4 slots, stride 36}}
  %values, %vectors = sojourn.eigh %gram : tensor<4x6x6xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18}}
  // expected-remark@below {{per row: draw 0, 4 slots, stride 3}}
  // expected-remark@below {{per row: draw 0, 4 slots, stride 6}}
  // expected-remark@below {{per row: draw 0, 4 slots, stride 1}}
  %lu, %pivots, %order, %info = sojourn.lu %x : tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18}}
  // expected-remark@below {{per row: draw 0, 4 slots, stride 9}}
  %q, %r = sojourn.qr %x full = false : tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18}}
  // expected-remark@below {{per row: draw 0, 4 slots, stride 3}}
  // expected-remark@below {{per row: draw 0, 4 slots, stride 9}}
  %u, %sv, %vt = sojourn.svd %x full = false : tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 36}}
  // expected-remark@below {{per row: draw 0, 4 slots, stride 6}}
  // expected-remark@below {{per row: draw 0, 4 slots, stride 1}}
  %ld, %exchanges, %zero = sojourn.ldl %gram hermitian = false : tensor<4x6x6xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 18}}
  %answers = sojourn.ldl_solve %ld, %exchanges, %x, hermitian = false : tensor<4x6x6xf64>, tensor<4x6xi64>, tensor<4x6x3xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 6}}
  // expected-remark@below {{per row: draw 0, 4 slots, stride 36}}
  %ev, %evs = sojourn.eig %gram : tensor<4x6x6xf64>
  return
}

// -----

// Transforms: along a row's own dims rows stay rows; along rows, nothing. Numbers and their parts are rows alike.
func.func @step(%t: !sojourn.table<4, "image": 6x2xf64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["image"] : !sojourn.table<4, "image": 6x2xf64>, tensor<4xi64> -> tensor<4x6x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 8}}
  %half = sojourn.fft_r2c %x, dims = [2, 1] : tensor<4x6x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 8}}
  %whole = sojourn.fft_c2c %half, dims = [2], inverse = false : tensor<4x4x2xcomplex<f64>>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 12}}
  %back = sojourn.fft_c2r %whole, dims = [2, 1], size = 6 : tensor<4x4x2xcomplex<f64>>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 6}}
  %numbers = sojourn.complex %x : tensor<4x6x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 16}}
  %parts = sojourn.parts %whole : tensor<4x4x2xcomplex<f64>>
  // expected-remark@below {{mixed: is taken over rows}}
  %over = sojourn.fft_c2c %numbers, dims = [0], inverse = true : tensor<4x6xcomplex<f64>>
  %two = sojourn.slice %x, start = [0, 0, 0], limit = [2, 6, 2], stride = [1, 1, 1] : tensor<4x6x2xf64>
  %turned = sojourn.transpose %two, perm = [1, 2, 0] : tensor<2x6x2xf64>
  // expected-remark@below {{mixed: uses rows as the parts of a number}}
  %wrong = sojourn.complex %turned : tensor<6x2x2xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4x6x2xf64>
  // expected-remark@below {{sum over rows: cuts 0}}
  %sums = sojourn.complex %s : tensor<6x2xf64>
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %spectrum = sojourn.fft_c2c %sums, dims = [0], inverse = false : tensor<6xcomplex<f64>>
  return
}
