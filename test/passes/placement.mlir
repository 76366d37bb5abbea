// Placement family by family: what values in parts become, and which sums the roles exchange.
// RUN: sojourn-opt %s -split-input-file --sojourn-placement --verify-diagnostics=only-expected

// What all know stays so; what one role has stays there; tensors of several roles, joined, lie in parts.
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%a: tensor<2x3xf32> {sojourn.kind = "state", sojourn.party = 0 : i64}, %b: tensor<4x3xf32> {sojourn.kind = "state", sojourn.party = 1 : i64}, %w: tensor<3xf32> {sojourn.kind = "state"}) {
  // expected-remark@below {{known to all}}
  %n = sojourn.neg %w : tensor<3xf32>
  // expected-remark@below {{at role 0}}
  %s = sojourn.reduce_sum %a, dims = [0] : tensor<2x3xf32>
  // expected-remark@below {{at role 0}}
  %t = sojourn.add %s, %n : tensor<3xf32>, tensor<3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 3}}
  %x = sojourn.concat %a, %b dim = 0 : tensor<2x3xf32>, tensor<4x3xf32>
  // In any order, and with what all know: the role beside it adds that.
  // expected-remark@below {{parts: 4 rows at role 1, 2 at role 0; stride 3}}
  %y = sojourn.concat %b, %a dim = 0 : tensor<4x3xf32>, tensor<2x3xf32>
  // expected-remark@below {{known to all}}
  %r = sojourn.reshape %w : tensor<3xf32> -> tensor<1x3xf32>
  // expected-remark@below {{parts: 3 rows at role 0, 5 at role 1; stride 3}}
  %z = sojourn.concat %r, %a, %b, %r dim = 0 : tensor<1x3xf32>, tensor<2x3xf32>, tensor<4x3xf32>, tensor<1x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1, 2 at role 0; stride 3}}
  %u = sojourn.concat %x, %a dim = 0 : tensor<6x3xf32>, tensor<2x3xf32>
  // One tensor of each role, stacked: a row at each.
  // expected-remark@below {{at role 1}}
  %q = sojourn.reduce_sum %b, dims = [0] : tensor<4x3xf32>
  // expected-remark@below {{at role 0}}
  %s1 = sojourn.reshape %s : tensor<3xf32> -> tensor<1x3xf32>
  // expected-remark@below {{at role 1}}
  %q1 = sojourn.reshape %q : tensor<3xf32> -> tensor<1x3xf32>
  // expected-remark@below {{parts: 1 rows at role 0, 1 at role 1; stride 3}}
  %k = sojourn.concat %s1, %q1 dim = 0 : tensor<1x3xf32>, tensor<1x3xf32>
  // expected-remark@below {{known to all, from exchange 0 among roles 0 and 1}}
  %ks = sojourn.reduce_sum %k, dims = [0] : tensor<2x3xf32>
  // Sums and differences of values at two roles meet; of values that wait for an exchange, one later.
  // expected-remark@below {{known to all, from exchange 0 among roles 0 and 1}}
  %add = sojourn.add %s, %q : tensor<3xf32>, tensor<3xf32>
  // expected-remark@below {{known to all, from exchange 0 among roles 0 and 1}}
  %sub = sojourn.sub %q, %s : tensor<3xf32>, tensor<3xf32>
  // expected-remark@below {{at role 0}}
  %later = sojourn.mul %s, %add : tensor<3xf32>, tensor<3xf32>
  // expected-remark@below {{known to all, from exchange 1 among roles 0 and 1}}
  %again = sojourn.add %later, %q : tensor<3xf32>, tensor<3xf32>
  return
}
}

// -----

// Elementwise: in parts, with splats, with tensors that all know, and with the same rows.
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}, %i: tensor<6x3xi64> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}, %w: tensor<6x3xf32> {sojourn.kind = "state"}, %c: tensor<f32> {sojourn.kind = "state"}) {
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 3}}
  %a = sojourn.exp %x : tensor<6x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 3}}
  %b = sojourn.mul %a, %c : tensor<6x3xf32>, tensor<f32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 3}}
  %d = sojourn.sub %w, %b : tensor<6x3xf32>, tensor<6x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 3}}
  %e = sojourn.compare "lt" %d, %x : tensor<6x3xf32>, tensor<6x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 3}}
  %f = sojourn.select %e, %d, %c : tensor<6x3xi1>, tensor<6x3xf32>, tensor<f32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 3}}
  %g = sojourn.convert %i : tensor<6x3xi64> -> tensor<6x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 3}}
  %h = sojourn.add %g, %f : tensor<6x3xf32>, tensor<6x3xf32>
  return
}
}

// -----

// Layout: rows keep their place in the flat order.
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}, %y: tensor<6x2x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 6>}, %w: tensor<6x3xf32> {sojourn.kind = "state"}) {
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 6}}
  %a = sojourn.reshape %y : tensor<6x2x3xf32> -> tensor<12x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 1}}
  %b = sojourn.transpose %x, perm = [1, 0] : tensor<6x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 6}}
  %c = sojourn.broadcast %x, dims = [0, 2] : tensor<6x3xf32> -> tensor<6x2x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 3}}
  %d = sojourn.reverse %x, dims = [1] : tensor<6x3xf32>
  // expected-remark@below {{known to all}}
  %zero = sojourn.constant 0.0 : f32
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 5}}
  %e = sojourn.pad %x, %zero, low = [0, 1], high = [0, 1], interior = [0, 0] : tensor<6x3xf32>, tensor<f32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 6}}
  %f = sojourn.concat %x, %w dim = 1 : tensor<6x3xf32>, tensor<6x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 1}}
  %u = sojourn.slice %x, start = [0, 1], limit = [6, 2], stride = [1, 1] : tensor<6x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 3}}
  %g = sojourn.update_slice %w, %u, start = [0, 1], stride = [1, 1] : tensor<6x3xf32>, tensor<6x1xf32>
  return
}
}

// -----

// Slices along rows: the rows that are left, or the one role that has them.
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}, %y: tensor<12x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 6>}) {
  // expected-remark@below {{parts: 1 rows at role 0, 2 at role 1; stride 3}}
  %a = sojourn.slice %x, start = [1, 0], limit = [4, 3], stride = [1, 1] : tensor<6x3xf32>
  // expected-remark@below {{parts: 1 rows at role 0, 2 at role 1; stride 3}}
  %b = sojourn.slice %x, start = [0, 0], limit = [6, 3], stride = [2, 1] : tensor<6x3xf32>
  // expected-remark@below {{at role 0}}
  %c = sojourn.slice %x, start = [0, 0], limit = [1, 3], stride = [1, 1] : tensor<6x3xf32>
  // expected-remark@below {{at role 1}}
  %d = sojourn.slice %x, start = [3, 0], limit = [6, 3], stride = [2, 1] : tensor<6x3xf32>
  // Rows of two elements each along the dim: the same element of each, and whole rows.
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 3}}
  %e = sojourn.slice %y, start = [1, 0], limit = [12, 3], stride = [2, 1] : tensor<12x3xf32>
  // expected-remark@below {{parts: 1 rows at role 0, 1 at role 1; stride 6}}
  %f = sojourn.slice %y, start = [2, 0], limit = [6, 3], stride = [1, 1] : tensor<12x3xf32>
  return
}
}

// -----

// Contractions and convolutions: per row, or a sum over rows.
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}, %g: tensor<6x2xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 2>}, %w: tensor<3x2xf32> {sojourn.kind = "state"}, %m: tensor<6x2xf32> {sojourn.kind = "state"}, %image: tensor<6x1x5xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 5>}, %k: tensor<2x1x3xf32> {sojourn.kind = "state"}) {
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 2}}
  %a = sojourn.dot %x, %w, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0] : tensor<6x3xf32>, tensor<3x2xf32> -> tensor<6x2xf32>
  // expected-remark@below {{known to all, from exchange 0 among roles 0 and 1}}
  %b = sojourn.dot %x, %g, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : tensor<6x3xf32>, tensor<6x2xf32> -> tensor<3x2xf32>
  // expected-remark@below {{known to all, from exchange 0 among roles 0 and 1}}
  %c = sojourn.dot %m, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : tensor<6x2xf32>, tensor<6x3xf32> -> tensor<2x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 6}}
  %d = sojourn.dot %x, %g, lhs_batch = [0], rhs_batch = [0], lhs_contract = [], rhs_contract = [] : tensor<6x3xf32>, tensor<6x2xf32> -> tensor<6x3x2xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 6}}
  %e = sojourn.conv %image, %k, stride = [1], padding = [0], dilation = [1], groups = 1 : tensor<6x1x5xf32>, tensor<2x1x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 5}}
  %f = sojourn.conv_grad_input %e, %k, stride = [1], padding = [0], dilation = [1], groups = 1 : tensor<6x2x3xf32>, tensor<2x1x3xf32> -> tensor<6x1x5xf32>
  // expected-remark@below {{known to all, from exchange 0 among roles 0 and 1}}
  %h = sojourn.conv_grad_weight %e, %image, stride = [1], padding = [0], dilation = [1], groups = 1 : tensor<6x2x3xf32>, tensor<6x1x5xf32> -> tensor<2x1x3xf32>
  return
}
}

// -----

// Along dims: other dims than the rows' stay per row; sums over rows meet. Means wait for sums: a batch normalization has two exchanges.
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}) {
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 1}}
  %a = sojourn.reduce_max %x, dims = [1] : tensor<6x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 1}}
  %b = sojourn.argmax %x, dim = 1 : tensor<6x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 3}}
  %c = sojourn.cumsum %x, dim = 1 : tensor<6x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 3}}
  %d, %di = sojourn.sort %x, dim = 1, descending = false : tensor<6x3xf32>
  // expected-remark@below {{known to all, from exchange 0 among roles 0 and 1}}
  %e = sojourn.reduce_sum %x, dims = [0] : tensor<6x3xf32>
  // expected-remark@below {{known to all, from exchange 0 among roles 0 and 1}}
  %f = sojourn.reduce_sum %x, dims = [0, 1] : tensor<6x3xf32>
  // expected-remark@below {{known to all}}
  %n = sojourn.constant 6.0 : f32
  // expected-remark@below {{known to all}}
  %mean = sojourn.div %e, %n : tensor<3xf32>, tensor<f32>
  // expected-remark@below {{known to all}}
  %means = sojourn.broadcast %mean, dims = [1] : tensor<3xf32> -> tensor<6x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 3}}
  %centred = sojourn.sub %x, %means : tensor<6x3xf32>, tensor<6x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 3}}
  %square = sojourn.mul %centred, %centred : tensor<6x3xf32>, tensor<6x3xf32>
  // expected-remark@below {{known to all, from exchange 1 among roles 0 and 1}}
  %var = sojourn.reduce_sum %square, dims = [0] : tensor<6x3xf32>
  return
}
}

// -----

// Index: what is looked up per row, and rows added at their places, as the gradient of an embedding is.
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}, %i: tensor<6xi64> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 1>}, %w: tensor<5x3xf32> {sojourn.kind = "state"}, %j: tensor<6x1xi64> {sojourn.kind = "state"}) {
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 3}}
  %a = sojourn.take %w, %i, dim = 0 : tensor<5x3xf32>, tensor<6xi64>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 1}}
  %b = sojourn.take_along %x, %j, dim = 1 : tensor<6x3xf32>, tensor<6x1xi64>
  // expected-remark@below {{known to all}}
  %zero = sojourn.constant 0.0 : f32
  // expected-remark@below {{known to all}}
  %zeros = sojourn.broadcast %zero, dims = [] : tensor<f32> -> tensor<5x3xf32>
  // expected-remark@below {{known to all, from exchange 0 among roles 0 and 1}}
  %c = sojourn.put "add" %zeros, %i, %x, dim = 0 : tensor<5x3xf32>, tensor<6xi64>, tensor<6x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 3}}
  %d = sojourn.put_along "set" %x, %j, %b, dim = 1 : tensor<6x3xf32>, tensor<6x1xi64>, tensor<6x1xf32>
  return
}
}

// -----

// Windows, factors of matrices and transforms: row by row.
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x2x4xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 8>}, %m: tensor<6x3x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 9>}, %b: tensor<6x3x1xf32> {sojourn.kind = "state"}) {
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 4}}
  %a = sojourn.pool_sum %x, window = [2], stride = [2], padding = [0], dilation = [1] : tensor<6x2x4xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 4}}
  %c, %ci = sojourn.pool_max %x, window = [2], stride = [2], padding = [0], dilation = [1] : tensor<6x2x4xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 1}}
  %l, %o = sojourn.cholesky %m : tensor<6x3x3xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 3}}
  %s = sojourn.triangular_solve %l, %b, lower = true, unit = false : tensor<6x3x3xf32>, tensor<6x3x1xf32>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 6}}
  %f = sojourn.fft_r2c %x, dims = [2] : tensor<6x2x4xf32>
  return
}
}

// -----

// Tables: each role draws and reads its own; joined, the rows are one batch.
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%k: tensor<i64> {sojourn.kind = "slot"}, %seed: tensor<i64> {sojourn.kind = "slot"}, %s: !sojourn.table<?, "age" : f64> {sojourn.kind = "table", sojourn.party = 0 : i64}, %t: !sojourn.table<?, "age" : f64> {sojourn.kind = "table", sojourn.party = 1 : i64}) {
  // expected-remark@below {{known to all}}
  %i = sojourn.iota dim = 0 : tensor<2xi64>
  // expected-remark@below {{known to all}}
  %at = sojourn.add %i, %k : tensor<2xi64>, tensor<i64>
  // expected-remark@below {{at role 0}}
  %d = sojourn.sample_rows %at, %seed, %k of %s : tensor<2xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "age" : f64> -> tensor<2xi64>
  // expected-remark@below {{at role 0}}
  %x = sojourn.read_rows %s, %d, columns = ["age"] : !sojourn.table<?, "age" : f64>, tensor<2xi64> -> tensor<2xf64>
  // expected-remark@below {{known to all}}
  %j = sojourn.iota dim = 0 : tensor<4xi64>
  // expected-remark@below {{at role 1}}
  %e = sojourn.sample_rows %j, %seed, %k of %t : tensor<4xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "age" : f64> -> tensor<4xi64>
  // expected-remark@below {{at role 1}}
  %y = sojourn.read_rows %t, %e, columns = ["age"] : !sojourn.table<?, "age" : f64>, tensor<4xi64> -> tensor<4xf64>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 1}}
  %all = sojourn.concat %x, %y dim = 0 : tensor<2xf64>, tensor<4xf64>
  // Random numbers are drawn by all, of one seed: each takes its rows.
  // expected-remark@below {{known to all}}
  %mask = sojourn.rng_uniform %seed, stream = 0 : tensor<6xf64>
  // expected-remark@below {{parts: 2 rows at role 0, 4 at role 1; stride 1}}
  %kept = sojourn.mul %all, %mask : tensor<6xf64>, tensor<6xf64>
  return
}
}
