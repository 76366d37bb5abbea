// SPDX-License-Identifier: Apache-2.0
// What the verifiers of contractions and windows refuse; each function is named after the rule it breaks.
// RUN: sojourn-opt %s -split-input-file -verify-diagnostics

func.func @dot_number_of_dims(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error@+1 {{'sojourn.dot' op pairs 0 with 0 batch dims and 1 with 0 contracted dims, expected equal numbers}}
  %y = sojourn.dot %a, %b, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [] : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @dot_range(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error@+1 {{'sojourn.dot' op lhs dim 2 of 'tensor<2x3xf32>', expected distinct dims in [0, 2)}}
  %y = sojourn.dot %a, %b, lhs_batch = [], rhs_batch = [], lhs_contract = [2], rhs_contract = [0] : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @dot_twice(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error@+1 {{'sojourn.dot' op lhs dim 1 of 'tensor<2x3xf32>', expected distinct dims in [0, 2)}}
  %y = sojourn.dot %a, %b, lhs_batch = [1], rhs_batch = [0], lhs_contract = [1], rhs_contract = [0] : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @dot_sizes(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error@+1 {{'sojourn.dot' op contracted dims 0 of 'tensor<2x3xf32>' and 0 of 'tensor<3x4xf32>', expected equal sizes}}
  %y = sojourn.dot %a, %b, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  return
}

// -----

func.func @dot_batch_sizes(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error@+1 {{'sojourn.dot' op batch dims 0 of 'tensor<2x3xf32>' and 0 of 'tensor<3x4xf32>', expected equal sizes}}
  %y = sojourn.dot %a, %b, lhs_batch = [0], rhs_batch = [0], lhs_contract = [], rhs_contract = [] : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x3x4xf32>
  return
}

// -----

func.func @dot_result_shape(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error@+1 {{'sojourn.dot' op result has type 'tensor<4x2xf32>', expected shape [2, 4]}}
  %y = sojourn.dot %a, %b, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0] : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<4x2xf32>
  return
}

// -----

func.func @dot_result_element(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error@+1 {{'sojourn.dot' op result has type 'tensor<2x4xf64>', expected element type 'f32' (or f32 for f16 and bf16)}}
  %y = sojourn.dot %a, %b, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0] : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf64>
  return
}

// -----

func.func @dot_operands(%a: tensor<2x3xf32>, %b: tensor<3x4xf64>) {
  // expected-error@+1 {{'sojourn.dot' op multiplies 'tensor<2x3xf32>' and 'tensor<3x4xf64>', expected one element type}}
  %y = sojourn.dot %a, %b, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0] : tensor<2x3xf32>, tensor<3x4xf64> -> tensor<2x4xf32>
  return
}

// -----

func.func @dot_of_bool(%a: tensor<2xi1>) {
  // expected-error@+1 {{'sojourn.dot' op operand #0 must be a tensor of numbers (not i1) and static shape, but got 'tensor<2xi1>'}}
  %y = "sojourn.dot"(%a, %a) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64>, rhs_contract = array<i64>} : (tensor<2xi1>, tensor<2xi1>) -> tensor<2x2xi1>
  return
}

// -----

func.func @conv_groups(%x: tensor<2x4x8x8xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error@+1 {{x has 4 channels and w 6 outputs of 2 channels in 3 groups, expected channels = groups * w's and outputs divisible}}
  %y = sojourn.conv %x, %w, stride = [1, 1], padding = [0, 0], dilation = [1, 1], groups = 3 : tensor<2x4x8x8xf32>, tensor<6x2x3x3xf32>
  return
}

// -----

func.func @conv_no_groups(%x: tensor<2x4x8x8xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error@+1 {{x has 4 channels and w 6 outputs of 2 channels in 0 groups, expected channels = groups * w's and outputs divisible}}
  %y = sojourn.conv %x, %w, stride = [1, 1], padding = [0, 0], dilation = [1, 1], groups = 0 : tensor<2x4x8x8xf32>, tensor<6x2x3x3xf32>
  return
}

// -----

func.func @conv_stride(%x: tensor<2x4x8x8xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error@+1 {{spatial dim 1 of size 8 with kernel 3, stride 0, padding 0, dilation 1, expected positive numbers and a kernel that fits}}
  %y = sojourn.conv %x, %w, stride = [1, 0], padding = [0, 0], dilation = [1, 1], groups = 2 : tensor<2x4x8x8xf32>, tensor<6x2x3x3xf32>
  return
}

// -----

func.func @conv_padding(%x: tensor<2x4x8x8xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error@+1 {{spatial dim 0 of size 8 with kernel 3, stride 1, padding -1, dilation 1, expected positive numbers and a kernel that fits}}
  %y = sojourn.conv %x, %w, stride = [1, 1], padding = [-1, 0], dilation = [1, 1], groups = 2 : tensor<2x4x8x8xf32>, tensor<6x2x3x3xf32>
  return
}

// -----

func.func @conv_dilation(%x: tensor<2x4x8x8xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error@+1 {{spatial dim 0 of size 8 with kernel 3, stride 1, padding 0, dilation 9223372036854775807, expected positive numbers and a kernel that fits}}
  %y = sojourn.conv %x, %w, stride = [1, 1], padding = [0, 0], dilation = [9223372036854775807, 1], groups = 2 : tensor<2x4x8x8xf32>, tensor<6x2x3x3xf32>
  return
}

// -----

func.func @conv_kernel_does_not_fit(%x: tensor<2x4x8x8xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error@+1 {{spatial dim 0 of size 8 with kernel 3, stride 1, padding 0, dilation 4, expected positive numbers and a kernel that fits}}
  %y = sojourn.conv %x, %w, stride = [1, 1], padding = [0, 0], dilation = [4, 1], groups = 2 : tensor<2x4x8x8xf32>, tensor<6x2x3x3xf32>
  return
}

// -----

func.func @conv_spatial(%x: tensor<2x4x8x8xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error@+1 {{stride, padding and dilation have 1, 2 and 2 entries, expected 2, the number of spatial dims}}
  %y = sojourn.conv %x, %w, stride = [1], padding = [0, 0], dilation = [1, 1], groups = 2 : tensor<2x4x8x8xf32>, tensor<6x2x3x3xf32>
  return
}

// -----

func.func @conv_rank(%x: tensor<2x4xf32>, %w: tensor<6x4xf32>) {
  // expected-error@+1 {{x has type 'tensor<2x4xf32>' and w 'tensor<6x4xf32>', expected equal ranks from 3 to 5}}
  %y = sojourn.conv %x, %w, stride = [], padding = [], dilation = [], groups = 1 : tensor<2x4xf32>, tensor<6x4xf32>
  return
}

// -----

func.func @conv_element_types(%x: tensor<2x4x8xf32>, %w: tensor<6x4x3xf64>) {
  // expected-error@+1 {{found 'tensor<2x4x8xf32>' and 'tensor<6x4x3xf64>', expected one element type}}
  %y = sojourn.conv %x, %w, stride = [1], padding = [0], dilation = [1], groups = 1 : tensor<2x4x8xf32>, tensor<6x4x3xf64>
  return
}

// -----

func.func @conv_grad_input_g(%g: tensor<2x6x5x6xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error@+1 {{'sojourn.conv_grad_input' op g has type 'tensor<2x6x5x6xf32>', expected 'tensor<2x6x6x6xf32>', the type of conv}}
  %y = sojourn.conv_grad_input %g, %w, stride = [1, 1], padding = [0, 0], dilation = [1, 1], groups = 2 : tensor<2x6x5x6xf32>, tensor<6x2x3x3xf32> -> tensor<2x4x8x8xf32>
  return
}

// -----

func.func @conv_grad_input_groups(%g: tensor<2x6x6x6xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error@+1 {{'sojourn.conv_grad_input' op x has 5 channels and w 6 outputs of 2 channels in 2 groups, expected channels = groups * w's and outputs divisible}}
  %y = sojourn.conv_grad_input %g, %w, stride = [1, 1], padding = [0, 0], dilation = [1, 1], groups = 2 : tensor<2x6x6x6xf32>, tensor<6x2x3x3xf32> -> tensor<2x5x8x8xf32>
  return
}

// -----

func.func @conv_grad_weight_g(%g: tensor<2x6x6x6xf32>, %x: tensor<3x4x8x8xf32>) {
  // expected-error@+1 {{'sojourn.conv_grad_weight' op g has type 'tensor<2x6x6x6xf32>', expected 'tensor<3x6x6x6xf32>', the type of conv}}
  %y = sojourn.conv_grad_weight %g, %x, stride = [1, 1], padding = [0, 0], dilation = [1, 1], groups = 2 : tensor<2x6x6x6xf32>, tensor<3x4x8x8xf32> -> tensor<6x2x3x3xf32>
  return
}

// -----

func.func @pool_sum_window(%x: tensor<2x3x8x8xf32>) {
  // expected-error@+1 {{spatial dim 0 of size 8 with window 0, stride 2, padding 0, dilation 1, expected positive numbers and a window that fits}}
  %y = sojourn.pool_sum %x, window = [0, 2], stride = [2, 2], padding = [0, 0], dilation = [1, 1] : tensor<2x3x8x8xf32>
  return
}

// -----

func.func @pool_sum_stride(%x: tensor<2x3x8x8xf32>) {
  // expected-error@+1 {{spatial dim 1 of size 8 with window 2, stride -2, padding 0, dilation 1, expected positive numbers and a window that fits}}
  %y = sojourn.pool_sum %x, window = [2, 2], stride = [2, -2], padding = [0, 0], dilation = [1, 1] : tensor<2x3x8x8xf32>
  return
}

// -----

func.func @pool_sum_spatial(%x: tensor<2x3x8x8xf32>) {
  // expected-error@+1 {{window, stride, padding or dilation has 1 entries, expected 2, the number of spatial dims}}
  %y = sojourn.pool_sum %x, window = [2, 2], stride = [2, 2], padding = [0], dilation = [1, 1] : tensor<2x3x8x8xf32>
  return
}

// -----

func.func @pool_sum_does_not_fit(%x: tensor<2x3x8x8xf32>) {
  // expected-error@+1 {{spatial dim 0 of size 8 with window 9, stride 2, padding 0, dilation 1, expected positive numbers and a window that fits}}
  %y = sojourn.pool_sum %x, window = [9, 2], stride = [2, 2], padding = [0, 0], dilation = [1, 1] : tensor<2x3x8x8xf32>
  return
}

// -----

func.func @pool_sum_rank(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{x has type 'tensor<2x3xf32>', expected [N, C, spatial] with 1 to 3 spatial dims}}
  %y = sojourn.pool_sum %x, window = [], stride = [], padding = [], dilation = [] : tensor<2x3xf32>
  return
}

// -----

func.func @pool_max_padding(%x: tensor<2x3x8x8xf32>) {
  // expected-error@+1 {{spatial dim 0 of size 8 has padding 2, expected at most half of the window and no dilation above the size}}
  %y, %i = sojourn.pool_max %x, window = [2, 2], stride = [2, 2], padding = [2, 0], dilation = [1, 1] : tensor<2x3x8x8xf32>
  return
}

// -----

func.func @pool_max_dilation(%x: tensor<2x3x1xf32>) {
  // expected-error@+1 {{spatial dim 0 of size 1 has padding 1, expected at most half of the window and no dilation above the size}}
  %y, %i = sojourn.pool_max %x, window = [2], stride = [1], padding = [1], dilation = [2] : tensor<2x3x1xf32>
  return
}

// -----

func.func @pool_max_of_bool(%x: tensor<2x3x1xi1>) {
  // expected-error@+1 {{'sojourn.pool_max' op operand #0 must be a tensor of integers or floats and static shape, but got 'tensor<2x3x1xi1>'}}
  %y, %i = "sojourn.pool_max"(%x) {window = array<i64: 1>, stride = array<i64: 1>, padding = array<i64: 0>, dilation = array<i64: 1>} : (tensor<2x3x1xi1>) -> (tensor<2x3x1xi1>, tensor<2x3x1xi64>)
  return
}

// -----

func.func @solve_not_square(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.triangular_solve' op a has type 'tensor<2x3xf32>', expected square matrices [..., n, n]}}
  %x = sojourn.triangular_solve %a, %b, lower = true, unit = false : tensor<2x3xf32>, tensor<2x3xf32>
  return
}

// -----

func.func @solve_rows(%a: tensor<3x3xf32>, %b: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.triangular_solve' op b has type 'tensor<2x3xf32>', expected matrices [..., n, k] that match 'tensor<3x3xf32>'}}
  %x = sojourn.triangular_solve %a, %b, lower = true, unit = false : tensor<3x3xf32>, tensor<2x3xf32>
  return
}

// -----

func.func @lu_of_vector(%x: tensor<3xf32>) {
  // expected-error@+1 {{operand has type 'tensor<3xf32>', expected matrices [..., m, n] of static shape and at most 2^32 elements}}
  %lu, %pivots, %rows, %order = sojourn.lu %x : tensor<3xf32>
  return
}

// -----

func.func @lu_of_many_rows(%x: tensor<2147483648x1xf32>) {
  // expected-error@+1 {{operand has type 'tensor<2147483648x1xf32>', expected fewer than 2^31 rows and columns}}
  %lu, %pivots, %rows, %order = sojourn.lu %x : tensor<2147483648x1xf32>
  return
}

// -----

func.func @solve_of_many_columns(%a: tensor<1x1xf32>, %b: tensor<1x2147483648xf32>) {
  // expected-error@+1 {{'sojourn.triangular_solve' op solves 'tensor<1x1xf32>' for 'tensor<1x2147483648xf32>', expected fewer than 2^31 rows and columns}}
  %x = sojourn.triangular_solve %a, %b, lower = true, unit = false : tensor<1x1xf32>, tensor<1x2147483648xf32>
  return
}

// -----

func.func @eigh_not_square(%x: tensor<3x4xf32>) {
  // expected-error@+1 {{operand has type 'tensor<3x4xf32>', expected square matrices [..., n, n] of static shape and at most 2^32 elements}}
  %values, %vectors = sojourn.eigh %x : tensor<3x4xf32>
  return
}

// -----

func.func @cholesky_of_vector(%x: tensor<3xf32>) {
  // expected-error@+1 {{operand has type 'tensor<3xf32>', expected square matrices [..., n, n] of static shape and at most 2^32 elements}}
  %l, %order = sojourn.cholesky %x : tensor<3xf32>
  return
}

// -----

func.func @cholesky_not_square(%x: tensor<2x3x4xf64>) {
  // expected-error@+1 {{operand has type 'tensor<2x3x4xf64>', expected square matrices [..., n, n] of static shape and at most 2^32 elements}}
  %l, %order = sojourn.cholesky %x : tensor<2x3x4xf64>
  return
}

// -----

func.func @cholesky_of_integers(%x: tensor<3x3xi64>) {
  // expected-error@+1 {{'sojourn.cholesky' op operand #0 must be a float or complex tensor of static shape, but got 'tensor<3x3xi64>'}}
  %l, %order = "sojourn.cholesky"(%x) : (tensor<3x3xi64>) -> (tensor<3x3xi64>, tensor<i64>)
  return
}

// -----

func.func @cholesky_order(%x: tensor<2x3x3xf64>) {
  // expected-error@+2 {{'sojourn.cholesky' op failed to infer returned types}}
  // expected-error@+1 {{'sojourn.cholesky' op inferred type(s) 'tensor<2x3x3xf64>', 'tensor<2xi64>' are incompatible with return type(s) of operation 'tensor<2x3x3xf64>', 'tensor<2x1xi64>'}}
  %l, %order = "sojourn.cholesky"(%x) : (tensor<2x3x3xf64>) -> (tensor<2x3x3xf64>, tensor<2x1xi64>)
  return
}

// -----

func.func @cholesky_of_no_matrix_too_large(%x: tensor<0x1048576x1048576xf32>) {
  // expected-error@+1 {{operand has type 'tensor<0x1048576x1048576xf32>', expected square matrices [..., n, n] of static shape and at most 2^32 elements}}
  %l, %order = sojourn.cholesky %x : tensor<0x1048576x1048576xf32>
  return
}

// -----

func.func @fft_of_nothing(%x: tensor<2x0xcomplex<f32>>) {
  // expected-error@+1 {{dim 1 of 'tensor<2x0xcomplex<f32>>' has size 0, expected one in [1, 2^31)}}
  %y = sojourn.fft_c2c %x, dims = [1], inverse = false : tensor<2x0xcomplex<f32>>
  return
}

// -----

func.func @fft_along_nothing(%x: tensor<2x3xcomplex<f32>>) {
  // expected-error@+1 {{dims are empty, expected at least one}}
  %y = sojourn.fft_c2c %x, dims = [], inverse = false : tensor<2x3xcomplex<f32>>
  return
}

// -----

func.func @fft_twice_along_a_dim(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dims are [1, 1], expected distinct dims in [0, 2)}}
  %y = sojourn.fft_r2c %x, dims = [1, 1] : tensor<2x3xf32>
  return
}

// -----

func.func @fft_of_another_size(%x: tensor<2x3xcomplex<f32>>) {
  // expected-error@+1 {{size is 6, expected 4 or 5 for the 3 entries of dim 1}}
  %y = sojourn.fft_c2r %x, dims = [1], size = 6 : tensor<2x3xcomplex<f32>>
  return
}

// -----

func.func @complex_of_triples(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{operand has type 'tensor<2x3xf32>', expected floats [..., 2], pairs of parts}}
  %y = sojourn.complex %x : tensor<2x3xf32>
  return
}

// -----

func.func @eig_not_square(%x: tensor<2x3x4xf64>) {
  // expected-error@+1 {{operand has type 'tensor<2x3x4xf64>', expected square matrices [..., n, n] of static shape and at most 2^32 elements}}
  %v, %w = sojourn.eig %x : tensor<2x3x4xf64>
  return
}
