// SPDX-License-Identifier: Apache-2.0
// Position by position: per row stays per row where all operands have one draw's rows at the same places; sums stay
// sums under what is linear in them, and become derived under the rest; per-row values and sums do not mix.
// RUN: sojourn-opt %s -split-input-file --sojourn-rows="bounds=a=-1:3,k=0:4" --verify-diagnostics=only-expected

// Every op of one operand. Outside of a function's domain nothing is known of the range: -1 has no logarithm.
func.func @step(%t: !sojourn.table<4, "a": f64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "a"] : !sojourn.table<4, "a": f64, "k": i64>, tensor<4xi64> -> tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2, in [-3, 1]}}
  %neg = sojourn.neg %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2, in [0, 3]}}
  %abs = sojourn.abs %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2, in [-1, 1]}}
  %sign = sojourn.sign %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %floor = sojourn.floor %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %ceil = sojourn.ceil %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %round = sojourn.round %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2, in [0.367879, 20.0855]}}
  %exp = sojourn.exp %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %expm1 = sojourn.expm1 %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %log = sojourn.log %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %log1p = sojourn.log1p %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %sqrt = sojourn.sqrt %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2, in [-1, 1]}}
  %sin = sojourn.sin %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2, in [-1, 1]}}
  %cos = sojourn.cos %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2, in [-1.0001, 1.0001]}}
  %tanh = sojourn.tanh %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2, in [0, 1.0001]}}
  %logistic = sojourn.logistic %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2, in [-1.0001, 1.0001]}}
  %erf = sojourn.erf %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2, in [0, 2.0001]}}
  %erfc = sojourn.erfc %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %erfinv = sojourn.erfinv %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %lgamma = sojourn.lgamma %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %digamma = sojourn.digamma %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %bessel = sojourn.special "bessel_j0" %x : tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %zeta = sojourn.special_binary "zeta" %x, %x : tensor<4x2xf64>, tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2, in [-1, 3]}}
  %narrow = sojourn.convert %x : tensor<4x2xf64> -> tensor<4x2xf32>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2, in [-1, 3]}}
  %whole = sojourn.convert %x : tensor<4x2xf64> -> tensor<4x2xi8>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2, in [-9.22337e+18, 9.22337e+18]}}
  %bits = sojourn.bitcast %x : tensor<4x2xf64> -> tensor<4x2xi64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2, in [0, 1]}}
  %isset = sojourn.convert %x : tensor<4x2xf64> -> tensor<4x2xi1>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2, in [0, 1]}}
  %not = sojourn.not %isset : tensor<4x2xi1>
  return
}

// -----

// Every op of two operands, with a public one of the same shape: a weight of its own for each slot is public too.
func.func @step(%w: tensor<4x2xf64>, %t: !sojourn.table<4, "a": f64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %one = sojourn.constant 1 : i64
  %x = sojourn.read_rows %t, %i, columns = ["a", "a"] : !sojourn.table<4, "a": f64, "k": i64>, tensor<4xi64> -> tensor<4x2xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<4, "a": f64, "k": i64>, tensor<4xi64> -> tensor<4xi64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %add = sojourn.add %x, %w : tensor<4x2xf64>, tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %sub = sojourn.sub %x, %w : tensor<4x2xf64>, tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %mul = sojourn.mul %x, %w : tensor<4x2xf64>, tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %div = sojourn.div %x, %w : tensor<4x2xf64>, tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %rem = sojourn.rem %x, %w : tensor<4x2xf64>, tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %pow = sojourn.pow %x, %w : tensor<4x2xf64>, tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %atan2 = sojourn.atan2 %x, %w : tensor<4x2xf64>, tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %max = sojourn.max %x, %w : tensor<4x2xf64>, tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %min = sojourn.min %x, %w : tensor<4x2xf64>, tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 1}}
  %and = sojourn.and %k, %one : tensor<4xi64>, tensor<i64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 1}}
  %or = sojourn.or %k, %one : tensor<4xi64>, tensor<i64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 1}}
  %xor = sojourn.xor %k, %one : tensor<4xi64>, tensor<i64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 1}}
  %shl = sojourn.shl %k, %one : tensor<4xi64>, tensor<i64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 1}}
  %shr = sojourn.shr %k, %one : tensor<4xi64>, tensor<i64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2, in [0, 1]}}
  %less = sojourn.compare "lt" %x, %w : tensor<4x2xf64>, tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2}}
  %chosen = sojourn.select %less, %x, %w : tensor<4x2xi1>, tensor<4x2xf64>, tensor<4x2xf64>
  return
}

// -----

// Same draw, other places: element [i, j] of one is of row i, of the other of row j.
func.func @step(%t: !sojourn.table<4, "a": f64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<4, "a": f64, "k": i64>, tensor<4xi64> -> tensor<4xf64>
  %down = sojourn.broadcast %x, dims = [0] : tensor<4xf64> -> tensor<4x4xf64>
  %across = sojourn.broadcast %x, dims = [1] : tensor<4xf64> -> tensor<4x4xf64>
  // expected-remark@below {{mixed: operands have their rows in different places}}
  %pairs = sojourn.sub %down, %across : tensor<4x4xf64>, tensor<4x4xf64>
  // Everything after it names the same op as the reason.
  // expected-remark@below {{mixed: operands have their rows in different places}}
  %abs = sojourn.abs %pairs : tensor<4x4xf64>
  return
}

// -----

// Even slots and odd slots are different rows, though both are two of them.
func.func @step(%t: !sojourn.table<4, "a": f64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<4, "a": f64, "k": i64>, tensor<4xi64> -> tensor<4xf64>
  // expected-remark@below {{per row: draw 0, 2 slots, stride 1, from slot 0 by 2, in [-1, 3]}}
  %even = sojourn.slice %x, start = [0], limit = [4], stride = [2] : tensor<4xf64>
  // expected-remark@below {{per row: draw 0, 2 slots, stride 1, from slot 1 by 2, in [-1, 3]}}
  %odd = sojourn.slice %x, start = [1], limit = [4], stride = [2] : tensor<4xf64>
  // expected-remark@below {{mixed: operands have their rows in different places}}
  %z = sojourn.mul %even, %odd : tensor<2xf64>, tensor<2xf64>
  return
}

// -----

// What is linear in a sum: scaling by public numbers, adding sums, choosing between them by public predicates. How far
// a row moves it: at most 3 (the magnitude of its number), 6 and 9 after scaling, 3 + 6 for both.
func.func @step(%c: tensor<i1>, %t: !sojourn.table<4, "a": f64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %zero = sojourn.constant 0.0 : f64
  %two = sojourn.constant 2.0 : f64
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<4, "a": f64, "k": i64>, tensor<4xi64> -> tensor<4xf64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 3, in [-4, 12]}}
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4xf64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 3, in [-12, 4]}}
  %neg = sojourn.neg %s : tensor<f64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 6, in [-8, 24]}}
  %double = sojourn.mul %s, %two : tensor<f64>, tensor<f64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 1.5, in [-2, 6]}}
  %half = sojourn.div %s, %two : tensor<f64>, tensor<f64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 9, in [-12, 36]}}
  %both = sojourn.add %s, %double : tensor<f64>, tensor<f64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 3}}
  %less = sojourn.sub %s, %zero : tensor<f64>, tensor<f64>
  // expected-remark@below {{sum over rows: cuts 0}}
  %either = sojourn.select %c, %s, %zero : tensor<i1>, tensor<f64>, tensor<f64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 3}}
  %cast = sojourn.convert %s : tensor<f64> -> tensor<f32>
  return
}

// -----

// What is not: it is derived, public as soon as its cuts are noised.
func.func @step(%t: !sojourn.table<4, "a": f64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %two = sojourn.constant 2.0 : f64
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<4, "a": f64, "k": i64>, tensor<4xi64> -> tensor<4xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4xf64>
  %y = sojourn.abs %x : tensor<4xf64>
  %u = sojourn.reduce_sum %y, dims = [0] : tensor<4xf64>
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %shifted = sojourn.add %s, %two : tensor<f64>, tensor<f64>
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %inverse = sojourn.div %two, %s : tensor<f64>, tensor<f64>
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %square = sojourn.mul %s, %s : tensor<f64>, tensor<f64>
  // expected-remark@below {{derived from sums over rows: cuts 0, 1}}
  %ratio = sojourn.div %s, %u : tensor<f64>, tensor<f64>
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %root = sojourn.sqrt %s : tensor<f64>
  // Rounding to integers is no linear map.
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %whole = sojourn.convert %s : tensor<f64> -> tensor<i64>
  // expected-remark@below {{derived from sums over rows: cuts 0, 1}}
  %larger = sojourn.compare "gt" %s, %u : tensor<f64>, tensor<f64>
  // expected-remark@below {{derived from sums over rows: cuts 0, 1}}
  %chosen = sojourn.select %larger, %s, %u : tensor<i1>, tensor<f64>, tensor<f64>
  return
}

// -----

// A row meets what all rows made: x - mean(x).
func.func @step(%t: !sojourn.table<4, "a": f64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<4, "a": f64, "k": i64>, tensor<4xi64> -> tensor<4xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<4xf64>
  // expected-remark@below {{mixed: per-row values meet a value that was summed over rows}}
  %centred = sojourn.sub %x, %s : tensor<4xf64>, tensor<f64>
  return
}

// -----

// Values that bounds decide are public: no age is above 200. A float zero is not, since it has two signs.
func.func @step(%t: !sojourn.table<4, "a": f64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %most = sojourn.constant 200.0 : f64
  %low = sojourn.constant -1 : i64
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<4, "a": f64, "k": i64>, tensor<4xi64> -> tensor<4xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<4, "a": f64, "k": i64>, tensor<4xi64> -> tensor<4xi64>
  // expected-remark@below {{public, in [0, 0]}}
  %above = sojourn.compare "gt" %x, %most : tensor<4xf64>, tensor<f64>
  // expected-remark@below {{public, in [1, 1]}}
  %valid = sojourn.compare "ne" %k, %low : tensor<4xi64>, tensor<i64>
  // expected-remark@below {{public, in [1, 1]}}
  %one = sojourn.convert %valid : tensor<4xi1> -> tensor<4xi64>
  // So the number of valid labels is no secret.
  // expected-remark@below {{public, in [4, 4]}}
  %count = sojourn.reduce_sum %one, dims = [0] : tensor<4xi64>
  %zero = sojourn.constant 0.0 : f64
  // expected-remark@below {{per row: draw 0, 4 slots, stride 1, in [0, 0]}}
  %product = sojourn.mul %x, %zero : tensor<4xf64>, tensor<f64>
  return
}
