// SPDX-License-Identifier: Apache-2.0
// What the verifiers of casts and unary ops refuse; each function is named after the rule it breaks.
// RUN: sojourn-opt %s -split-input-file -verify-diagnostics

func.func @floor_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.floor' op operand #0 must be a float tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.floor"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @ceil_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.ceil' op operand #0 must be a float tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.ceil"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @round_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.round' op operand #0 must be a float tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.round"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @exp_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.exp' op operand #0 must be a float or complex tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.exp"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @expm1_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.expm1' op operand #0 must be a float tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.expm1"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @log_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.log' op operand #0 must be a float or complex tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.log"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @log1p_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.log1p' op operand #0 must be a float tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.log1p"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @sqrt_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.sqrt' op operand #0 must be a float or complex tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.sqrt"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @sin_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.sin' op operand #0 must be a float or complex tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.sin"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @cos_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.cos' op operand #0 must be a float or complex tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.cos"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @tanh_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.tanh' op operand #0 must be a float or complex tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.tanh"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @logistic_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.logistic' op operand #0 must be a float tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.logistic"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @erf_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.erf' op operand #0 must be a float tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.erf"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @erfc_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.erfc' op operand #0 must be a float tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.erfc"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @erfinv_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.erfinv' op operand #0 must be a float tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.erfinv"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @lgamma_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.lgamma' op operand #0 must be a float tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.lgamma"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @special_of_halves(%x: tensor<2xf16>) {
  // expected-error@+1 {{'sojourn.special' op operand #0 must be an f32 or f64 tensor of static shape, but got 'tensor<2xf16>'}}
  %y = sojourn.special "i0" %x : tensor<2xf16>
  return
}

// -----

func.func @special_of_two(%x: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.special' op function is "zeta", expected one of airy_ai, bessel_j0, }}
  %y = sojourn.special "zeta" %x : tensor<2xf32>
  return
}

// -----

func.func @special_binary_of_one(%x: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.special_binary' op function is "i0", expected one of zeta, gammainc, }}
  %y = sojourn.special_binary "i0" %x, %x : tensor<2xf32>, tensor<2xf32>
  return
}

// -----

func.func @digamma_of_integers(%x: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.digamma' op operand #0 must be a float tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.digamma"(%x) : (tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @neg_of_bool(%x: tensor<2xi1>) {
  // expected-error@+1 {{'sojourn.neg' op operand #0 must be a tensor of numbers (not i1) and static shape, but got 'tensor<2xi1>'}}
  %y = "sojourn.neg"(%x) : (tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

func.func @abs_of_bool(%x: tensor<2xi1>) {
  // expected-error@+1 {{'sojourn.abs' op operand #0 must be a tensor of integers or floats and static shape, but got 'tensor<2xi1>'}}
  %y = "sojourn.abs"(%x) : (tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

func.func @sign_of_bool(%x: tensor<2xi1>) {
  // expected-error@+1 {{'sojourn.sign' op operand #0 must be a tensor of integers or floats and static shape, but got 'tensor<2xi1>'}}
  %y = "sojourn.sign"(%x) : (tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

func.func @not_of_floats(%x: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.not' op operand #0 must be an i1 or integer tensor of static shape, but got 'tensor<2xf32>'}}
  %y = "sojourn.not"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @abs_of_complex(%x: tensor<2xcomplex<f32>>) {
  // expected-error@+1 {{'sojourn.abs' op operand #0 must be a tensor of integers or floats and static shape, but got 'tensor<2xcomplex<f32>>'}}
  %y = "sojourn.abs"(%x) : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  return
}

// -----

func.func @neg_changes_shape(%x: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.neg' op requires the same type for all operands and results}}
  %y = "sojourn.neg"(%x) : (tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @exp_of_dynamic(%x: tensor<?xf32>) {
  // expected-error@+1 {{'sojourn.exp' op operand #0 must be a float or complex tensor of static shape, but got 'tensor<?xf32>'}}
  %y = "sojourn.exp"(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return
}

// -----

func.func @exp_of_unranked(%x: tensor<*xf32>) {
  // expected-error@+1 {{'sojourn.exp' op operand #0 must be a float or complex tensor of static shape, but got 'tensor<*xf32>'}}
  %y = "sojourn.exp"(%x) : (tensor<*xf32>) -> tensor<*xf32>
  return
}

// -----

func.func @exp_too_large(%x: tensor<1048576x1048577xf32>) {
  // expected-error@+1 {{'sojourn.exp' op operand #0 has type 'tensor<1048576x1048577xf32>', expected at most 2^32 elements}}
  %y = "sojourn.exp"(%x) : (tensor<1048576x1048577xf32>) -> tensor<1048576x1048577xf32>
  return
}

// -----

func.func @exp_with_encoding(%x: tensor<2xf32, 1 : i32>) {
  // expected-error@+1 {{'sojourn.exp' op operand #0 has type 'tensor<2xf32, 1 : i32>', expected a tensor without encoding}}
  %y = "sojourn.exp"(%x) : (tensor<2xf32, 1 : i32>) -> tensor<2xf32, 1 : i32>
  return
}

// -----

func.func @exp_of_rank_17(%x: tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>) {
  // expected-error@+1 {{'sojourn.exp' op operand #0 has type 'tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>', expected at most 16 dims}}
  %y = "sojourn.exp"(%x) : (tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>) -> tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>
  return
}

// -----

func.func @exp_of_too_many_bytes(%x: tensor<65536x65536xf32>, %y: tensor<65536x32769xf64>) {
  %a = "sojourn.exp"(%x) : (tensor<65536x65536xf32>) -> tensor<65536x65536xf32>
  // expected-error@+1 {{'sojourn.exp' op operand #0 has type 'tensor<65536x32769xf64>', expected at most 2^34 bytes}}
  %b = "sojourn.exp"(%y) : (tensor<65536x32769xf64>) -> tensor<65536x32769xf64>
  return
}

// -----

func.func @exp_of_nothing_too_large(%x: tensor<0x65536x65537xf32>) {
  // expected-error@+1 {{'sojourn.exp' op operand #0 has type 'tensor<0x65536x65537xf32>', expected at most 2^32 elements}}
  %y = "sojourn.exp"(%x) : (tensor<0x65536x65537xf32>) -> tensor<0x65536x65537xf32>
  return
}

// -----

func.func @convert_complex_to_real(%x: tensor<2xcomplex<f32>>) {
  // expected-error@+1 {{'sojourn.convert' op converts 'tensor<2xcomplex<f32>>' to 'tensor<2xf32>'; a complex number has no real value, take its real part}}
  %y = sojourn.convert %x : tensor<2xcomplex<f32>> -> tensor<2xf32>
  return
}

// -----

func.func @convert_changes_shape(%x: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.convert' op requires the same shape for all operands and results}}
  %y = sojourn.convert %x : tensor<2xf32> -> tensor<3xf64>
  return
}

// -----

func.func @convert_to_f8(%x: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.convert' op result #0 must be a tensor of static shape and core element, but got 'tensor<2xf8E4M3FN>'}}
  %y = sojourn.convert %x : tensor<2xf32> -> tensor<2xf8E4M3FN>
  return
}

// -----

func.func @bitcast_widths(%x: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.bitcast' op operand elements have 32 bits and result elements 64, expected equal widths}}
  %y = sojourn.bitcast %x : tensor<2xf32> -> tensor<2xi64>
  return
}

// -----

func.func @bitcast_of_bool(%x: tensor<2xi1>) {
  // expected-error@+1 {{'sojourn.bitcast' op operand #0 must be a tensor of integers or floats and static shape, but got 'tensor<2xi1>'}}
  %y = sojourn.bitcast %x : tensor<2xi1> -> tensor<2xi8>
  return
}
