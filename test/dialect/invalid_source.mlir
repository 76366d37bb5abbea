// SPDX-License-Identifier: Apache-2.0
// What the verifiers of constants, draws and rows refuse, and what their texts may not say; each function is named after the rule it breaks.
// RUN: sojourn-opt %s -split-input-file -verify-diagnostics

func.func @constant_of_tensor() {
  // expected-error@+2 {{value is dense<1.000000e+00> : tensor<2xf32>, expected one number of an element type of core form}}
  // expected-error@+1 {{'sojourn.constant' op failed to infer returned types}}
  %y = "sojourn.constant"() {value = dense<1.0> : tensor<2xf32>} : () -> tensor<2xf32>
  return
}

// -----

func.func @constant_of_index() {
  // expected-error@+1 {{value is 1 : index, expected one number of an element type of core form}}
  %y = sojourn.constant 1 : index
  return
}

// -----

func.func @constant_of_text() {
  // expected-error@+2 {{value is "a", expected one number of an element type of core form}}
  // expected-error@+1 {{'sojourn.constant' op failed to infer returned types}}
  %y = "sojourn.constant"() {value = "a"} : () -> tensor<f32>
  return
}

// -----

func.func @constant_result() {
  // expected-error@+2 {{'sojourn.constant' op inferred type(s) 'tensor<f32>' are incompatible with return type(s) of operation 'tensor<f64>'}}
  // expected-error@+1 {{'sojourn.constant' op failed to infer returned types}}
  %y = "sojourn.constant"() {value = 1.0 : f32} : () -> tensor<f64>
  return
}

// -----

func.func @iota_dim() {
  // expected-error@+1 {{'sojourn.iota' op dim is 2, expected one in [0, 2)}}
  %y = sojourn.iota dim = 2 : tensor<2x3xi64>
  return
}

// -----

func.func @iota_negative_dim() {
  // expected-error@+1 {{'sojourn.iota' op dim is -1, expected one in [0, 2)}}
  %y = sojourn.iota dim = -1 : tensor<2x3xi64>
  return
}

// -----

func.func @iota_of_bool() {
  // expected-error@+1 {{'sojourn.iota' op result #0 must be a tensor of integers or floats and static shape, but got 'tensor<2xi1>'}}
  %y = "sojourn.iota"() {dim = 0 : i64} : () -> tensor<2xi1>
  return
}

// -----

func.func @iota_dim_type() {
  // expected-error@+1 {{'sojourn.iota' op attribute 'dim' failed to satisfy constraint: 64-bit signless integer attribute}}
  %y = "sojourn.iota"() {dim = 0 : i32} : () -> tensor<2xi64>
  return
}

// -----

func.func @rng_bits_result(%s: tensor<i64>) {
  // expected-error@+1 {{'sojourn.rng_bits' op result #0 must be an i64 tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.rng_bits"(%s) {stream = 0 : i64} : (tensor<i64>) -> tensor<2xi32>
  return
}

// -----

func.func @rng_bits_stream(%s: tensor<i64>) {
  // expected-error@+1 {{'sojourn.rng_bits' op stream is -1, expected one in [0, 2^32)}}
  %y = sojourn.rng_bits %s, stream = -1 : tensor<2xi64>
  return
}

// -----

func.func @rng_uniform_of_half(%s: tensor<i64>) {
  // expected-error@+1 {{'sojourn.rng_uniform' op result #0 must be an f32 or f64 tensor of static shape, but got 'tensor<2xf16>'}}
  %y = "sojourn.rng_uniform"(%s) {stream = 0 : i64} : (tensor<i64>) -> tensor<2xf16>
  return
}

// -----

func.func @rng_uniform_stream(%s: tensor<i64>) {
  // expected-error@+1 {{'sojourn.rng_uniform' op stream is 4294967296, expected one in [0, 2^32)}}
  %y = sojourn.rng_uniform %s, stream = 4294967296 : tensor<2xf32>
  return
}

// -----

func.func @rng_normal_seed(%s: tensor<2xi64>) {
  // expected-error@+1 {{'sojourn.rng_normal' op operand #0 must be tensor<i64>, but got 'tensor<2xi64>'}}
  %y = "sojourn.rng_normal"(%s) {stream = 0 : i64} : (tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @sample_rows_result(%p: tensor<2xi64>, %s: tensor<i64>, %t: !sojourn.table<5, "age" : f64>) {
  // expected-error@+2 {{'sojourn.sample_rows' op failed to infer returned types}}
  // expected-error@+1 {{inferred type(s) 'tensor<2xi64>' are incompatible with return type(s) of operation 'tensor<3xi64>'}}
  %y = sojourn.sample_rows %p, %s, %s of %t : tensor<2xi64>, tensor<i64>, tensor<i64>, !sojourn.table<5, "age" : f64> -> tensor<3xi64>
  return
}

// -----

func.func @sample_rows_positions(%p: tensor<2xi32>, %s: tensor<i64>, %t: !sojourn.table<5, "age" : f64>) {
  // expected-error@+1 {{'sojourn.sample_rows' op operand #0 must be an i64 tensor of static shape, but got 'tensor<2xi32>'}}
  %y = sojourn.sample_rows %p, %s, %s of %t : tensor<2xi32>, tensor<i64>, tensor<i64>, !sojourn.table<5, "age" : f64> -> tensor<2xi64>
  return
}

// -----

func.func @sample_rows_seed(%p: tensor<2xi64>, %s: tensor<i32>, %t: !sojourn.table<5, "age" : f64>) {
  // expected-error@+1 {{'sojourn.sample_rows' op operand #1 must be tensor<i64>, but got 'tensor<i32>'}}
  %y = sojourn.sample_rows %p, %s, %s of %t : tensor<2xi64>, tensor<i32>, tensor<i32>, !sojourn.table<5, "age" : f64> -> tensor<2xi64>
  return
}

// -----

func.func @sample_rows_without_table(%p: tensor<2xi64>, %s: tensor<i64>) {
  // expected-error@+1 {{'sojourn.sample_rows' op expected 4 operands, but found 3}}
  %y = "sojourn.sample_rows"(%p, %s, %s) <{fractions = array<f64>, sides = array<i64>, split = false}> : (tensor<2xi64>, tensor<i64>, tensor<i64>) -> tensor<2xi64>
  return
}

// -----

func.func @sample_rows_of_tensor(%p: tensor<2xi64>, %s: tensor<i64>) {
  // expected-error@+1 {{'sojourn.sample_rows' op operand #3 must be !sojourn.table, but got 'tensor<i64>'}}
  %y = "sojourn.sample_rows"(%p, %s, %s, %s) <{fractions = array<f64>, sides = array<i64>, split = false}> : (tensor<2xi64>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<2xi64>
  return
}

// -----

func.func @sample_rows_sides_missing(%p: tensor<2xi64>, %s: tensor<i64>, %t: !sojourn.table<5, "age" : f64>) {
  // expected-error@+1 {{'sojourn.sample_rows' op fractions has 2 entries and sides has 1, expected one side for each fraction}}
  %y = "sojourn.sample_rows"(%p, %s, %s, %t) <{fractions = array<f64: 0.8, 0.5>, sides = array<i64: 0>, split = false}> : (tensor<2xi64>, tensor<i64>, tensor<i64>, !sojourn.table<5, "age" : f64>) -> tensor<2xi64>
  return
}

// -----

func.func @sample_rows_fractions_missing(%p: tensor<2xi64>, %s: tensor<i64>, %t: !sojourn.table<5, "age" : f64>) {
  // expected-error@+1 {{'sojourn.sample_rows' op fractions has 0 entries and sides has 1, expected one side for each fraction}}
  %y = "sojourn.sample_rows"(%p, %s, %s, %t) <{fractions = array<f64>, sides = array<i64: 0>, split = true}> : (tensor<2xi64>, tensor<i64>, tensor<i64>, !sojourn.table<5, "age" : f64>) -> tensor<2xi64>
  return
}

// -----

func.func @sample_rows_fraction_zero(%p: tensor<2xi64>, %s: tensor<i64>, %t: !sojourn.table<5, "age" : f64>) {
  // expected-error-re@+1 {{'sojourn.sample_rows' op fraction {{0\.0.*}} of a split, expected a number above 0 and below 1}}
  %y = sojourn.sample_rows %p, %s, %s of %t, part = [first 0.0] : tensor<2xi64>, tensor<i64>, tensor<i64>, !sojourn.table<5, "age" : f64> -> tensor<2xi64>
  return
}

// -----

func.func @sample_rows_fraction_one(%p: tensor<2xi64>, %s: tensor<i64>, %t: !sojourn.table<5, "age" : f64>) {
  // expected-error-re@+1 {{'sojourn.sample_rows' op fraction {{1\.0.*}} of a split, expected a number above 0 and below 1}}
  %y = sojourn.sample_rows %p, %s, %s of %t, part = [first 0.5, other 1.0] : tensor<2xi64>, tensor<i64>, tensor<i64>, !sojourn.table<5, "age" : f64> -> tensor<2xi64>
  return
}

// -----

func.func @sample_rows_fraction_negative(%p: tensor<2xi64>, %s: tensor<i64>, %t: !sojourn.table<5, "age" : f64>) {
  // expected-error-re@+1 {{'sojourn.sample_rows' op fraction {{-5\.0.*}} of a split, expected a number above 0 and below 1}}
  %y = sojourn.sample_rows %p, %s, %s of %t, split = [other -0.5] : tensor<2xi64>, tensor<i64>, tensor<i64>, !sojourn.table<5, "age" : f64> -> tensor<2xi64>
  return
}

// -----

func.func @sample_rows_fraction_nan(%p: tensor<2xi64>, %s: tensor<i64>, %t: !sojourn.table<5, "age" : f64>) {
  // expected-error-re@+1 {{'sojourn.sample_rows' op fraction {{.*}} of a split, expected a number above 0 and below 1}}
  %y = sojourn.sample_rows %p, %s, %s of %t, part = [first 0x7FF8000000000000] : tensor<2xi64>, tensor<i64>, tensor<i64>, !sojourn.table<5, "age" : f64> -> tensor<2xi64>
  return
}

// -----

func.func @sample_rows_fraction_infinite(%p: tensor<2xi64>, %s: tensor<i64>, %t: !sojourn.table<5, "age" : f64>) {
  // expected-error-re@+1 {{'sojourn.sample_rows' op fraction {{.*}} of a split, expected a number above 0 and below 1}}
  %y = sojourn.sample_rows %p, %s, %s of %t, split = [first 0x7FF0000000000000] : tensor<2xi64>, tensor<i64>, tensor<i64>, !sojourn.table<5, "age" : f64> -> tensor<2xi64>
  return
}

// -----

func.func @sample_rows_side(%p: tensor<2xi64>, %s: tensor<i64>, %t: !sojourn.table<5, "age" : f64>) {
  // expected-error@+1 {{'sojourn.sample_rows' op side 2 of a split, expected 0 (first) or 1 (other)}}
  %y = "sojourn.sample_rows"(%p, %s, %s, %t) <{fractions = array<f64: 0.8>, sides = array<i64: 2>, split = false}> : (tensor<2xi64>, tensor<i64>, tensor<i64>, !sojourn.table<5, "age" : f64>) -> tensor<2xi64>
  return
}

// -----

func.func @sample_rows_side_negative(%p: tensor<2xi64>, %s: tensor<i64>, %t: !sojourn.table<5, "age" : f64>) {
  // expected-error@+1 {{'sojourn.sample_rows' op side -1 of a split, expected 0 (first) or 1 (other)}}
  %y = "sojourn.sample_rows"(%p, %s, %s, %t) <{fractions = array<f64: 0.8>, sides = array<i64: -1>, split = true}> : (tensor<2xi64>, tensor<i64>, tensor<i64>, !sojourn.table<5, "age" : f64>) -> tensor<2xi64>
  return
}

// -----

func.func @sample_rows_split_of_nothing(%p: tensor<2xi64>, %s: tensor<i64>, %t: !sojourn.table<5, "age" : f64>) {
  // expected-error@+1 {{'sojourn.sample_rows' op a split's own order needs a part: give split at least one (side, fraction)}}
  %y = sojourn.sample_rows %p, %s, %s of %t, split = [] : tensor<2xi64>, tensor<i64>, tensor<i64>, !sojourn.table<5, "age" : f64> -> tensor<2xi64>
  return
}

// -----

func.func @sample_rows_split_expected(%p: tensor<2xi64>, %s: tensor<i64>, %t: !sojourn.table<5, "age" : f64>) {
  // expected-error@+1 {{'sojourn.sample_rows' op a split's own order is drawn by its seed; attribute expected belongs to an order of a part's rows}}
  %y = sojourn.sample_rows %p, %s, %s of %t, split = [first 0.5], expected = 1 : tensor<2xi64>, tensor<i64>, tensor<i64>, !sojourn.table<5, "age" : f64> -> tensor<2xi64>
  return
}

// -----

func.func @sample_rows_part_too_deep(%p: tensor<2xi64>, %s: tensor<i64>, %t: !sojourn.table<5, "age" : f64>) {
  // expected-error@+1 {{'sojourn.sample_rows' op a part of 65 splits, expected at most 64}}
  %y = sojourn.sample_rows %p, %s, %s of %t, part = [first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5, first 0.5] : tensor<2xi64>, tensor<i64>, tensor<i64>, !sojourn.table<5, "age" : f64> -> tensor<2xi64>
  return
}

// -----

func.func @sample_rows_side_by_name(%p: tensor<2xi64>, %s: tensor<i64>, %t: !sojourn.table<5, "age" : f64>) {
  // expected-error@+1 {{side 'second' of a split, expected first or other}}
  %y = sojourn.sample_rows %p, %s, %s of %t, part = [second 0.5] : tensor<2xi64>, tensor<i64>, tensor<i64>, !sojourn.table<5, "age" : f64> -> tensor<2xi64>
  return
}

// -----

func.func @sample_rows_part_and_split(%p: tensor<2xi64>, %s: tensor<i64>, %t: !sojourn.table<5, "age" : f64>) {
  // expected-error@+1 {{'split', expected at most one part or split and one 'expected'}}
  %y = sojourn.sample_rows %p, %s, %s of %t, part = [first 0.5], split = [first 0.5] : tensor<2xi64>, tensor<i64>, tensor<i64>, !sojourn.table<5, "age" : f64> -> tensor<2xi64>
  return
}

// -----

// expected-error@+1 {{!sojourn.table of -1 rows, expected a number in [0, 2^32]}}
func.func @table_rows_minus_one(%t: !sojourn.table<-1, "age" : f64>) {
  return
}

// -----

func.func @read_rows_column(%t: !sojourn.table<5, "age" : f64>, %i: tensor<2xi64>) {
  // expected-error@+1 {{'sojourn.read_rows' op reads column "weight", which '!sojourn.table<5, "age" : f64>' does not have}}
  %y = sojourn.read_rows %t, %i, columns = ["weight"] : !sojourn.table<5, "age" : f64>, tensor<2xi64> -> tensor<2x1xf32>
  return
}

// -----

func.func @read_rows_shape(%t: !sojourn.table<5, "age" : f64>, %i: tensor<2xi64>) {
  // expected-error@+1 {{'sojourn.read_rows' op result has type 'tensor<2x2xf32>', expected shape [2, 1] or [2]: one row per index, one column per name}}
  %y = sojourn.read_rows %t, %i, columns = ["age"] : !sojourn.table<5, "age" : f64>, tensor<2xi64> -> tensor<2x2xf32>
  return
}

// -----

func.func @read_rows_two_names(%t: !sojourn.table<5, "a" : f64, "b" : i1>, %i: tensor<2xi64>) {
  // expected-error@+1 {{'sojourn.read_rows' op result has type 'tensor<2xf32>', expected shape [2, 2]: one row per index, one column per name}}
  %y = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<5, "a" : f64, "b" : i1>, tensor<2xi64> -> tensor<2xf32>
  return
}

// -----

func.func @read_rows_shaped_result(%t: !sojourn.table<5, "a" : 3x4xf64>, %i: tensor<2xi64>) {
  // expected-error@+1 {{'sojourn.read_rows' op result has type 'tensor<2x12xf32>', expected shape [2, 3, 4]: one entry of column "a" per index}}
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<5, "a" : 3x4xf64>, tensor<2xi64> -> tensor<2x12xf32>
  return
}

// -----

func.func @read_rows_mixed(%t: !sojourn.table<5, "a" : 3x4xf64, "b" : i1>, %i: tensor<2xi64>) {
  // expected-error@+1 {{'sojourn.read_rows' op reads 2 columns including "a", whose entries have shape [3, 4], expected a shaped column alone}}
  %y = sojourn.read_rows %t, %i, columns = ["b", "a"] : !sojourn.table<5, "a" : 3x4xf64, "b" : i1>, tensor<2xi64> -> tensor<2x13xf32>
  return
}

// -----

func.func @read_rows_indices(%t: !sojourn.table<5, "age" : f64>, %i: tensor<i64>) {
  // expected-error@+1 {{'sojourn.read_rows' op indices have type 'tensor<i64>', expected rank 1}}
  %y = sojourn.read_rows %t, %i, columns = ["age"] : !sojourn.table<5, "age" : f64>, tensor<i64> -> tensor<1x1xf32>
  return
}

// -----

func.func @read_rows_columns_type(%t: !sojourn.table<5, "age" : f64>, %i: tensor<2xi64>) {
  // expected-error@+1 {{'sojourn.read_rows' op attribute 'columns' failed to satisfy constraint: string array attribute}}
  %y = "sojourn.read_rows"(%t, %i) {columns = [1]} : (!sojourn.table<5, "age" : f64>, tensor<2xi64>) -> tensor<2x1xf32>
  return
}

// -----

func.func @read_rows_without_table(%t: tensor<5xf32>, %i: tensor<2xi64>) {
  // expected-error@+1 {{'sojourn.read_rows' op operand #0 must be !sojourn.table, but got 'tensor<5xf32>'}}
  %y = "sojourn.read_rows"(%t, %i) {columns = ["a"]} : (tensor<5xf32>, tensor<2xi64>) -> tensor<2x1xf32>
  return
}
