// SPDX-License-Identifier: Apache-2.0
// What the verifiers of the owner's own form refuse; each function is named after the rule it breaks.
// RUN: sojourn-opt %s -split-input-file -verify-diagnostics

func.func @region_arguments(%r: tensor<8xi64>, %x: tensor<8x3xf64>) {
  // expected-error@below {{has a region with arguments of other types than its inputs}}
  %s = "sojourn.clipped_sum"(%r, %x) <{clip = "flat", bounds = array<f64: 1.0>, norm = 2 : i64}> ({
  ^bb0(%x0: tensor<8x2xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x2xf64>
    "sojourn.yield"(%a) : (tensor<2xf64>) -> ()
  }) : (tensor<8xi64>, tensor<8x3xf64>) -> tensor<2xf64>
  return
}

// -----

func.func @result_type(%r: tensor<8xi64>, %x: tensor<8x3xf64>) {
  // expected-error@below {{has a result of type 'tensor<3xf32>' where its region yields 'tensor<3xf64>', expected f64 of that shape}}
  %s = "sojourn.clipped_sum"(%r, %x) <{clip = "flat", bounds = array<f64: 1.0>, norm = 2 : i64}> ({
  ^bb0(%x0: tensor<8x3xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x3xf64>
    "sojourn.yield"(%a) : (tensor<3xf64>) -> ()
  }) : (tensor<8xi64>, tensor<8x3xf64>) -> tensor<3xf32>
  return
}

// -----

func.func @result_shape(%r: tensor<8xi64>, %x: tensor<8x3xf64>) {
  // expected-error@below {{has a result of type 'tensor<2xf64>' where its region yields 'tensor<3xf64>', expected f64 of that shape}}
  %s = "sojourn.clipped_sum"(%r, %x) <{clip = "flat", bounds = array<f64: 1.0>, norm = 2 : i64}> ({
  ^bb0(%x0: tensor<8x3xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x3xf64>
    "sojourn.yield"(%a) : (tensor<3xf64>) -> ()
  }) : (tensor<8xi64>, tensor<8x3xf64>) -> tensor<2xf64>
  return
}

// -----

func.func @result_count(%r: tensor<8xi64>, %x: tensor<8x3xf64>) {
  // expected-error@below {{has 2 results, expected as many as its region yields}}
  %s:2 = "sojourn.clipped_sum"(%r, %x) <{clip = "flat", bounds = array<f64: 1.0>, norm = 2 : i64}> ({
  ^bb0(%x0: tensor<8x3xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x3xf64>
    "sojourn.yield"(%a) : (tensor<3xf64>) -> ()
  }) : (tensor<8xi64>, tensor<8x3xf64>) -> (tensor<3xf64>, tensor<3xf64>)
  return
}

// -----

func.func @clip_name(%r: tensor<8xi64>, %x: tensor<8x3xf64>) {
  // expected-error@below {{clip is "automatic", expected "flat", "per_layer" or "none"}}
  %s = "sojourn.clipped_sum"(%r, %x) <{clip = "automatic", bounds = array<f64: 1.0>, norm = 2 : i64}> ({
  ^bb0(%x0: tensor<8x3xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x3xf64>
    "sojourn.yield"(%a) : (tensor<3xf64>) -> ()
  }) : (tensor<8xi64>, tensor<8x3xf64>) -> tensor<3xf64>
  return
}

// -----

func.func @flat_bounds(%r: tensor<8xi64>, %x: tensor<8x3xf64>) {
  // expected-error@below {{has 2 bounds, expected 1}}
  %s = "sojourn.clipped_sum"(%r, %x) <{clip = "flat", bounds = array<f64: 1.0, 2.0>, norm = 2 : i64}> ({
  ^bb0(%x0: tensor<8x3xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x3xf64>
    "sojourn.yield"(%a) : (tensor<3xf64>) -> ()
  }) : (tensor<8xi64>, tensor<8x3xf64>) -> tensor<3xf64>
  return
}

// -----

func.func @layer_bounds(%r: tensor<8xi64>, %x: tensor<8x3xf64>) {
  // expected-error@below {{has 2 bounds, expected 1}}
  %s = "sojourn.clipped_sum"(%r, %x) <{clip = "per_layer", bounds = array<f64: 1.0, 2.0>, norm = 2 : i64}> ({
  ^bb0(%x0: tensor<8x3xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x3xf64>
    "sojourn.yield"(%a) : (tensor<3xf64>) -> ()
  }) : (tensor<8xi64>, tensor<8x3xf64>) -> tensor<3xf64>
  return
}

// -----

func.func @no_bounds(%r: tensor<8xi64>, %x: tensor<8x3xf64>) {
  // expected-error@below {{has 0 bounds, expected 1}}
  %s = "sojourn.clipped_sum"(%r, %x) <{clip = "flat", bounds = array<f64>, norm = 2 : i64}> ({
  ^bb0(%x0: tensor<8x3xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x3xf64>
    "sojourn.yield"(%a) : (tensor<3xf64>) -> ()
  }) : (tensor<8xi64>, tensor<8x3xf64>) -> tensor<3xf64>
  return
}

// -----

func.func @zero_bound(%r: tensor<8xi64>, %x: tensor<8x3xf64>) {
  // expected-error@below {{has the bound 0.000000e+00, expected a finite number above 0}}
  %s = "sojourn.clipped_sum"(%r, %x) <{clip = "flat", bounds = array<f64: 0.0>, norm = 2 : i64}> ({
  ^bb0(%x0: tensor<8x3xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x3xf64>
    "sojourn.yield"(%a) : (tensor<3xf64>) -> ()
  }) : (tensor<8xi64>, tensor<8x3xf64>) -> tensor<3xf64>
  return
}

// -----

func.func @negative_bound(%r: tensor<8xi64>, %x: tensor<8x3xf64>) {
  // expected-error@below {{has the bound -1.000000e+00, expected a finite number above 0}}
  %s = "sojourn.clipped_sum"(%r, %x) <{clip = "flat", bounds = array<f64: -1.0>, norm = 2 : i64}> ({
  ^bb0(%x0: tensor<8x3xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x3xf64>
    "sojourn.yield"(%a) : (tensor<3xf64>) -> ()
  }) : (tensor<8xi64>, tensor<8x3xf64>) -> tensor<3xf64>
  return
}

// -----

func.func @infinite_bound(%r: tensor<8xi64>, %x: tensor<8x3xf64>) {
  // expected-error@below {{has the bound INF, expected a finite number above 0}}
  %s = "sojourn.clipped_sum"(%r, %x) <{clip = "flat", bounds = array<f64: 0x7FF0000000000000>, norm = 2 : i64}> ({
  ^bb0(%x0: tensor<8x3xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x3xf64>
    "sojourn.yield"(%a) : (tensor<3xf64>) -> ()
  }) : (tensor<8xi64>, tensor<8x3xf64>) -> tensor<3xf64>
  return
}

// -----

func.func @nan_bound(%r: tensor<8xi64>, %x: tensor<8x3xf64>) {
  // expected-error@below {{has the bound }}
  %s = "sojourn.clipped_sum"(%r, %x) <{clip = "flat", bounds = array<f64: 0x7FF8000000000000>, norm = 2 : i64}> ({
  ^bb0(%x0: tensor<8x3xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x3xf64>
    "sojourn.yield"(%a) : (tensor<3xf64>) -> ()
  }) : (tensor<8xi64>, tensor<8x3xf64>) -> tensor<3xf64>
  return
}

// -----

func.func @norm_1_clipped(%r: tensor<8xi64>, %x: tensor<8x3xf64>) {
  // expected-error@below {{norm is 1, expected 2, or 1 where nothing is clipped}}
  %s = "sojourn.clipped_sum"(%r, %x) <{clip = "flat", bounds = array<f64: 1.0>, norm = 1 : i64}> ({
  ^bb0(%x0: tensor<8x3xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x3xf64>
    "sojourn.yield"(%a) : (tensor<3xf64>) -> ()
  }) : (tensor<8xi64>, tensor<8x3xf64>) -> tensor<3xf64>
  return
}

// -----

func.func @norm_0(%r: tensor<8xi64>, %x: tensor<8x3xf64>) {
  // expected-error@below {{norm is 0, expected 2, or 1 where nothing is clipped}}
  %s = "sojourn.clipped_sum"(%r, %x) <{clip = "none", bounds = array<f64: 1.0>, norm = 0 : i64}> ({
  ^bb0(%x0: tensor<8x3xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x3xf64>
    "sojourn.yield"(%a) : (tensor<3xf64>) -> ()
  }) : (tensor<8xi64>, tensor<8x3xf64>) -> tensor<3xf64>
  return
}

// -----

func.func @slots_rank(%r: tensor<8x1xi64>, %x: tensor<8x3xf64>) {
  // expected-error@below {{slots have type 'tensor<8x1xi64>', expected rank 1}}
  %s = "sojourn.clipped_sum"(%r, %x) <{clip = "flat", bounds = array<f64: 1.0>, norm = 2 : i64}> ({
  ^bb0(%x0: tensor<8x3xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x3xf64>
    "sojourn.yield"(%a) : (tensor<3xf64>) -> ()
  }) : (tensor<8x1xi64>, tensor<8x3xf64>) -> tensor<3xf64>
  return
}

// -----

func.func @slots_type(%r: tensor<8xi32>, %x: tensor<8x3xf64>) {
  // expected-error@below {{operand #0 must be an i64 tensor of static shape}}
  %s = "sojourn.clipped_sum"(%r, %x) <{clip = "flat", bounds = array<f64: 1.0>, norm = 2 : i64}> ({
  ^bb0(%x0: tensor<8x3xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x3xf64>
    "sojourn.yield"(%a) : (tensor<3xf64>) -> ()
  }) : (tensor<8xi32>, tensor<8x3xf64>) -> tensor<3xf64>
  return
}

// -----

func.func @isolated(%r: tensor<8xi64>, %x: tensor<8x3xf64>) {
  // expected-note@below {{required by region isolation constraints}}
  %s = "sojourn.clipped_sum"(%r, %x) <{clip = "flat", bounds = array<f64: 1.0>, norm = 2 : i64}> ({
  ^bb0(%x0: tensor<8x3xf64>):
    // expected-error@below {{op using value defined outside the region}}
    %a = sojourn.reduce_sum %x, dims = [0] : tensor<8x3xf64>
    "sojourn.yield"(%a) : (tensor<3xf64>) -> ()
  }) : (tensor<8xi64>, tensor<8x3xf64>) -> tensor<3xf64>
  return
}

// -----

func.func @yield_alone(%x: tensor<8x3xf64>) {
  // expected-error@below {{expects parent op 'sojourn.clipped_sum'}}
  sojourn.yield %x : tensor<8x3xf64>
}

// -----

func.func @noise_narrow(%s: tensor<3xf32>, %c: tensor<3xi64>) {
  // expected-error@below {{has a sum of type 'tensor<3xf32>', coins of type 'tensor<3xi64>' and a result of type 'tensor<3xf64>', expected f64, i64 and a float of one shape}}
  %n = "sojourn.noise"(%s, %c) <{distribution = "gaussian", exponent = -20 : i64, scale = 5 : i64}> : (tensor<3xf32>, tensor<3xi64>) -> tensor<3xf64>
  return
}

// -----

func.func @noise_coin_shape(%s: tensor<3xf64>, %c: tensor<2xi64>) {
  // expected-error@below {{has a sum of type 'tensor<3xf64>', coins of type 'tensor<2xi64>' and a result of type 'tensor<3xf64>', expected f64, i64 and a float of one shape}}
  %n = "sojourn.noise"(%s, %c) <{distribution = "gaussian", exponent = -20 : i64, scale = 5 : i64}> : (tensor<3xf64>, tensor<2xi64>) -> tensor<3xf64>
  return
}

// -----

func.func @noise_result_shape(%s: tensor<3xf64>, %c: tensor<3xi64>) {
  // expected-error@below {{expected f64, i64 and a float of one shape}}
  %n = "sojourn.noise"(%s, %c) <{distribution = "gaussian", exponent = -20 : i64, scale = 5 : i64}> : (tensor<3xf64>, tensor<3xi64>) -> tensor<2xf64>
  return
}

// -----

func.func @noise_coin_type(%s: tensor<3xf64>, %c: tensor<3xi32>) {
  // expected-error@below {{operand #1 must be variadic of an i64 tensor of static shape}}
  %n = "sojourn.noise"(%s, %c) <{distribution = "gaussian", exponent = -20 : i64, scale = 5 : i64}> : (tensor<3xf64>, tensor<3xi32>) -> tensor<3xf64>
  return
}

// -----

func.func @noise_distribution(%s: tensor<3xf64>, %c: tensor<3xi64>) {
  // expected-error@below {{distribution is "normal", expected "gaussian" or "laplace"}}
  %n = "sojourn.noise"(%s, %c) <{distribution = "normal", exponent = -20 : i64, scale = 5 : i64}> : (tensor<3xf64>, tensor<3xi64>) -> tensor<3xf64>
  return
}

// -----

func.func @noise_exponent(%s: tensor<3xf64>, %c: tensor<3xi64>) {
  // expected-error@below {{exponent is 901, expected one in [-900, 900]}}
  %n = "sojourn.noise"(%s, %c) <{distribution = "gaussian", exponent = 901 : i64, scale = 5 : i64}> : (tensor<3xf64>, tensor<3xi64>) -> tensor<3xf64>
  return
}

// -----

func.func @noise_exponent_low(%s: tensor<3xf64>, %c: tensor<3xi64>) {
  // expected-error@below {{exponent is -901, expected one in [-900, 900]}}
  %n = "sojourn.noise"(%s, %c) <{distribution = "gaussian", exponent = -901 : i64, scale = 5 : i64}> : (tensor<3xf64>, tensor<3xi64>) -> tensor<3xf64>
  return
}

// -----

func.func @noise_scale(%s: tensor<3xf64>, %c: tensor<3xi64>) {
  // expected-error@below {{scale is 0, expected one in [1, 2^52]}}
  %n = "sojourn.noise"(%s, %c) <{distribution = "gaussian", exponent = -20 : i64, scale = 0 : i64}> : (tensor<3xf64>, tensor<3xi64>) -> tensor<3xf64>
  return
}

// -----

func.func @noise_scale_high(%s: tensor<3xf64>, %c: tensor<3xi64>) {
  // expected-error@below {{scale is 4503599627370497, expected one in [1, 2^52]}}
  %n = "sojourn.noise"(%s, %c) <{distribution = "gaussian", exponent = -20 : i64, scale = 4503599627370497 : i64}> : (tensor<3xf64>, tensor<3xi64>) -> tensor<3xf64>
  return
}

// -----

func.func @noise_of_nothing() {
  // expected-error@below {{has 0 sums and 0 results, expected equal numbers of at least 1}}
  "sojourn.noise"() <{distribution = "gaussian", exponent = -20 : i64, scale = 5 : i64}> : () -> ()
  return
}

// -----

func.func @noise_count(%s: tensor<3xf64>, %c: tensor<3xi64>) {
  // expected-error@below {{has 1 sums and 2 results, expected equal numbers of at least 1}}
  %n:2 = "sojourn.noise"(%s, %c) <{distribution = "gaussian", exponent = -20 : i64, scale = 5 : i64}> : (tensor<3xf64>, tensor<3xi64>) -> (tensor<3xf64>, tensor<3xf64>)
  return
}

// -----

func.func @expected_rows(%p: tensor<8xi64>, %s: tensor<i64>, %t: !sojourn.table<9, "a" : f64>) {
  // expected-error@below {{expected is 0, expected a number of rows in [1, 2^32]}}
  %i = sojourn.sample_rows %p, %s, %s of %t, expected = 0 : tensor<8xi64>, tensor<i64>, tensor<i64>, !sojourn.table<9, "a" : f64> -> tensor<8xi64>
  return
}

// -----

func.func @expected_above_tables(%p: tensor<8xi64>, %s: tensor<i64>, %t: !sojourn.table<9, "a" : f64>) {
  // expected-error@below {{expected is 4294967297, expected a number of rows in [1, 2^32]}}
  %i = sojourn.sample_rows %p, %s, %s of %t, expected = 4294967297 : tensor<8xi64>, tensor<i64>, tensor<i64>, !sojourn.table<9, "a" : f64> -> tensor<8xi64>
  return
}
