// SPDX-License-Identifier: Apache-2.0
// What the verifiers of reads and writes at indices refuse; each function is named after the rule it breaks.
// RUN: sojourn-opt %s -split-input-file -verify-diagnostics

func.func @take_dim(%x: tensor<5x3xf32>, %i: tensor<2xi64>, %u: tensor<2x3xf32>) {
  // expected-error@+1 {{dim is 2, expected one in [0, 2)}}
  %y = sojourn.take %x, %i, dim = 2 : tensor<5x3xf32>, tensor<2xi64>
  return
}

// -----

func.func @take_of_scalar(%x: tensor<f32>, %i: tensor<2xi64>) {
  // expected-error@+1 {{dim is 0, expected one in [0, 0)}}
  %y = sojourn.take %x, %i, dim = 0 : tensor<f32>, tensor<2xi64>
  return
}

// -----

func.func @take_at_floats(%x: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.take' op operand #1 must be an integer tensor of static shape, but got 'tensor<2xf32>'}}
  %y = "sojourn.take"(%x, %x) {dim = 0 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @take_too_large(%x: tensor<1x1048576xf32>, %i: tensor<1048577xi64>) {
  // expected-error@+1 {{'sojourn.take' op result #0 has type 'tensor<1048577x1048576xf32>', expected at most 2^32 elements}}
  %y = sojourn.take %x, %i, dim = 0 : tensor<1x1048576xf32>, tensor<1048577xi64>
  return
}

// -----

func.func @take_along_rank(%x: tensor<5x3xf32>, %i: tensor<2xi64>, %u: tensor<2x3xf32>) {
  // expected-error@+1 {{i has type 'tensor<2xi64>', expected the rank of 'tensor<5x3xf32>' and its sizes outside dim 0}}
  %y = sojourn.take_along %x, %i, dim = 0 : tensor<5x3xf32>, tensor<2xi64>
  return
}

// -----

func.func @take_along_sizes(%x: tensor<5x3xf32>, %i: tensor<6x3xi64>) {
  // expected-error@+1 {{i has type 'tensor<6x3xi64>', expected the rank of 'tensor<5x3xf32>' and its sizes outside dim 1}}
  %y = sojourn.take_along %x, %i, dim = 1 : tensor<5x3xf32>, tensor<6x3xi64>
  return
}

// -----

func.func @take_along_smaller(%x: tensor<5x3xf32>, %i: tensor<4x3xi64>) {
  // expected-error@+1 {{i has type 'tensor<4x3xi64>', expected the rank of 'tensor<5x3xf32>' and its sizes outside dim 1}}
  %y = sojourn.take_along %x, %i, dim = 1 : tensor<5x3xf32>, tensor<4x3xi64>
  return
}

// -----

func.func @put_along_smaller(%x: tensor<5x3xf32>, %i: tensor<4x1xi64>, %u: tensor<4x1xf32>) {
  // expected-error@+1 {{'sojourn.put_along' op i has type 'tensor<4x1xi64>', expected the rank of 'tensor<5x3xf32>' and its sizes outside dim 1}}
  %y = sojourn.put_along "set" %x, %i, %u, dim = 1 : tensor<5x3xf32>, tensor<4x1xi64>, tensor<4x1xf32>
  return
}

// -----

func.func @put_kind(%x: tensor<5x3xf32>, %i: tensor<2xi64>, %u: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.put' op kind is "sub", expected set, add, mul, max or min}}
  %y = sojourn.put "sub" %x, %i, %u, dim = 0 : tensor<5x3xf32>, tensor<2xi64>, tensor<2x3xf32>
  return
}

// -----

func.func @put_dim(%x: tensor<5x3xf32>, %i: tensor<2xi64>, %u: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.put' op dim is 5, expected one in [0, 2)}}
  %y = sojourn.put "add" %x, %i, %u, dim = 5 : tensor<5x3xf32>, tensor<2xi64>, tensor<2x3xf32>
  return
}

// -----

func.func @put_shape(%x: tensor<5x3xf32>, %i: tensor<2xi64>, %u: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.put' op u has type 'tensor<2x3xf32>', expected shape [5, 2], that of take}}
  %y = sojourn.put "add" %x, %i, %u, dim = 1 : tensor<5x3xf32>, tensor<2xi64>, tensor<2x3xf32>
  return
}

// -----

func.func @put_element(%x: tensor<5xf32>, %i: tensor<2xi64>, %u: tensor<2xf64>) {
  // expected-error@+1 {{'sojourn.put' op u has type 'tensor<2xf64>', expected element type 'f32'}}
  %y = sojourn.put "add" %x, %i, %u, dim = 0 : tensor<5xf32>, tensor<2xi64>, tensor<2xf64>
  return
}

// -----

func.func @put_add_of_bool(%x: tensor<5xi1>, %i: tensor<2xi64>, %u: tensor<2xi1>) {
  // expected-error@+1 {{'sojourn.put' op kind is "add", expected set, max (or) or min (and) for i1}}
  %y = sojourn.put "add" %x, %i, %u, dim = 0 : tensor<5xi1>, tensor<2xi64>, tensor<2xi1>
  return
}

// -----

func.func @put_max_of_complex(%x: tensor<5xcomplex<f32>>, %i: tensor<2xi64>, %u: tensor<2xcomplex<f32>>) {
  // expected-error@+1 {{'sojourn.put' op kind is "max", expected set, add or mul for complex elements}}
  %y = sojourn.put "max" %x, %i, %u, dim = 0 : tensor<5xcomplex<f32>>, tensor<2xi64>, tensor<2xcomplex<f32>>
  return
}

// -----

func.func @put_along_kind(%x: tensor<5x3xf32>, %i: tensor<5x1xi64>, %u: tensor<5x1xf32>) {
  // expected-error@+1 {{'sojourn.put_along' op kind is "mean", expected set, add, mul, max or min}}
  %y = sojourn.put_along "mean" %x, %i, %u, dim = 1 : tensor<5x3xf32>, tensor<5x1xi64>, tensor<5x1xf32>
  return
}

// -----

func.func @put_along_shapes(%x: tensor<5x3xf32>, %i: tensor<5x1xi64>, %u: tensor<5x2xf32>) {
  // expected-error@+1 {{'sojourn.put_along' op u has type 'tensor<5x2xf32>' and i 'tensor<5x1xi64>', expected one shape}}
  %y = sojourn.put_along "set" %x, %i, %u, dim = 1 : tensor<5x3xf32>, tensor<5x1xi64>, tensor<5x2xf32>
  return
}

// -----

func.func @put_along_sizes(%x: tensor<5x3xf32>, %i: tensor<6x1xi64>, %u: tensor<6x1xf32>) {
  // expected-error@+1 {{'sojourn.put_along' op i has type 'tensor<6x1xi64>', expected the rank of 'tensor<5x3xf32>' and its sizes outside dim 1}}
  %y = sojourn.put_along "set" %x, %i, %u, dim = 1 : tensor<5x3xf32>, tensor<6x1xi64>, tensor<6x1xf32>
  return
}
