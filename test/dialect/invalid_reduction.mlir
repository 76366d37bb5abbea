// SPDX-License-Identifier: Apache-2.0
// What the verifiers of reductions, scans and sorting refuse; each function is named after the rule it breaks.
// RUN: sojourn-opt %s -split-input-file -verify-diagnostics

func.func @reduce_sum_order(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dims has 0 at position 1, expected strictly increasing dims in [0, 2)}}
  %y = sojourn.reduce_sum %x, dims = [1, 0] : tensor<2x3xf32>
  return
}

// -----

func.func @reduce_sum_range(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dims has 2 at position 0, expected strictly increasing dims in [0, 2)}}
  %y = sojourn.reduce_sum %x, dims = [2] : tensor<2x3xf32>
  return
}

// -----

func.func @reduce_prod_order(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dims has 0 at position 1, expected strictly increasing dims in [0, 2)}}
  %y = sojourn.reduce_prod %x, dims = [1, 0] : tensor<2x3xf32>
  return
}

// -----

func.func @reduce_prod_range(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dims has 2 at position 0, expected strictly increasing dims in [0, 2)}}
  %y = sojourn.reduce_prod %x, dims = [2] : tensor<2x3xf32>
  return
}

// -----

func.func @reduce_max_order(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dims has 0 at position 1, expected strictly increasing dims in [0, 2)}}
  %y = sojourn.reduce_max %x, dims = [1, 0] : tensor<2x3xf32>
  return
}

// -----

func.func @reduce_max_range(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dims has 2 at position 0, expected strictly increasing dims in [0, 2)}}
  %y = sojourn.reduce_max %x, dims = [2] : tensor<2x3xf32>
  return
}

// -----

func.func @reduce_min_order(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dims has 0 at position 1, expected strictly increasing dims in [0, 2)}}
  %y = sojourn.reduce_min %x, dims = [1, 0] : tensor<2x3xf32>
  return
}

// -----

func.func @reduce_min_range(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dims has 2 at position 0, expected strictly increasing dims in [0, 2)}}
  %y = sojourn.reduce_min %x, dims = [2] : tensor<2x3xf32>
  return
}

// -----

func.func @reduce_max_of_nothing(%x: tensor<2x0xf32>) {
  // expected-error@+1 {{reduces dim 1 of 'tensor<2x0xf32>', expected at least one element}}
  %y = sojourn.reduce_max %x, dims = [1] : tensor<2x0xf32>
  return
}

// -----

func.func @reduce_min_of_nothing(%x: tensor<2x0xf32>) {
  // expected-error@+1 {{reduces dim 1 of 'tensor<2x0xf32>', expected at least one element}}
  %y = sojourn.reduce_min %x, dims = [1] : tensor<2x0xf32>
  return
}

// -----

func.func @reduce_sum_of_bool(%x: tensor<2xi1>) {
  // expected-error@+1 {{'sojourn.reduce_sum' op operand #0 must be a tensor of numbers (not i1) and static shape, but got 'tensor<2xi1>'}}
  %y = "sojourn.reduce_sum"(%x) {dims = array<i64: 0>} : (tensor<2xi1>) -> tensor<i1>
  return
}

// -----

func.func @reduce_sum_result(%x: tensor<2x3xf32>) {
  // expected-error@+2 {{'sojourn.reduce_sum' op inferred type(s) 'tensor<3xf32>' are incompatible with return type(s) of operation 'tensor<2xf32>'}}
  // expected-error@+1 {{'sojourn.reduce_sum' op failed to infer returned types}}
  %y = "sojourn.reduce_sum"(%x) {dims = array<i64: 0>} : (tensor<2x3xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @argmax_dim(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dim is -1, expected one in [0, 2)}}
  %y = sojourn.argmax %x, dim = -1 : tensor<2x3xf32>
  return
}

// -----

func.func @argmax_of_nothing(%x: tensor<0xf32>) {
  // expected-error@+1 {{reduces dim 0 of 'tensor<0xf32>', expected at least one element}}
  %y = sojourn.argmax %x, dim = 0 : tensor<0xf32>
  return
}

// -----

func.func @argmin_dim(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dim is -1, expected one in [0, 2)}}
  %y = sojourn.argmin %x, dim = -1 : tensor<2x3xf32>
  return
}

// -----

func.func @argmin_of_nothing(%x: tensor<0xf32>) {
  // expected-error@+1 {{reduces dim 0 of 'tensor<0xf32>', expected at least one element}}
  %y = sojourn.argmin %x, dim = 0 : tensor<0xf32>
  return
}

// -----

func.func @cumsum_dim(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.cumsum' op dim is 2, expected one in [0, 2)}}
  %y = sojourn.cumsum %x, dim = 2 : tensor<2x3xf32>
  return
}

// -----

func.func @cumprod_dim(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.cumprod' op dim is 2, expected one in [0, 2)}}
  %y = sojourn.cumprod %x, dim = 2 : tensor<2x3xf32>
  return
}

// -----

func.func @cummax_dim(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.cummax' op dim is 2, expected one in [0, 2)}}
  %y = sojourn.cummax %x, dim = 2 : tensor<2x3xf32>
  return
}

// -----

func.func @cummin_dim(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.cummin' op dim is 2, expected one in [0, 2)}}
  %y = sojourn.cummin %x, dim = 2 : tensor<2x3xf32>
  return
}

// -----

func.func @cumlogsumexp_dim(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.cumlogsumexp' op dim is 2, expected one in [0, 2)}}
  %y = sojourn.cumlogsumexp %x, dim = 2 : tensor<2x3xf32>
  return
}

// -----

func.func @cumlogsumexp_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.cumlogsumexp' op operand #0 must be a float or complex tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.cumlogsumexp"(%x) {dim = 0 : i64} : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @sort_dim(%x: tensor<f32>) {
  // expected-error@+1 {{dim is 0, expected one in [0, 0)}}
  %y, %i = sojourn.sort %x, dim = 0, descending = true : tensor<f32>
  return
}

// -----

func.func @sort_of_complex(%x: tensor<2xcomplex<f32>>) {
  // expected-error@+1 {{'sojourn.sort' op operand #0 must be a tensor of i1, integers or floats and static shape, but got 'tensor<2xcomplex<f32>>'}}
  %y, %i = "sojourn.sort"(%x) {dim = 0 : i64, descending = true} : (tensor<2xcomplex<f32>>) -> (tensor<2xcomplex<f32>>, tensor<2xi64>)
  return
}

// -----

func.func @topk_k(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{k is 4, expected one in [0, 3]}}
  %y, %i = sojourn.topk %x, dim = 1, k = 4, largest = true : tensor<2x3xf32>
  return
}

// -----

func.func @topk_negative(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{k is -1, expected one in [0, 3]}}
  %y, %i = sojourn.topk %x, dim = 1, k = -1, largest = true : tensor<2x3xf32>
  return
}

// -----

func.func @topk_dim(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dim is 2, expected one in [0, 2)}}
  %y, %i = sojourn.topk %x, dim = 2, k = 1, largest = true : tensor<2x3xf32>
  return
}
