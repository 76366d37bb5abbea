// Steps that cannot be placed: the op, the reason, and the way out.
// RUN: sojourn-opt %s -split-input-file --sojourn-placement --verify-diagnostics=only-expected

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}) {
  // expected-error@below {{'sojourn.cumsum' op runs along rows; the rows lie at roles 0 and 1, and owners can only add up sums over rows: compute per row, or from such sums}}
  %y = sojourn.cumsum %x, dim = 0 : tensor<6x3xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}) {
  // expected-error@below {{'sojourn.sort' op runs along rows; the rows lie at roles 0 and 1, and owners can only add up sums over rows: compute per row, or from such sums}}
  %y, %i = sojourn.sort %x, dim = 0, descending = false : tensor<6x3xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}) {
  // expected-error@below {{'sojourn.topk' op runs along rows; the rows lie at roles 0 and 1, and owners can only add up sums over rows: compute per row, or from such sums}}
  %y, %i = sojourn.topk %x, dim = 0, k = 2, largest = true : tensor<6x3xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}) {
  // expected-error@below {{'sojourn.reduce_max' op is taken over rows}}
  %y = sojourn.reduce_max %x, dims = [0] : tensor<6x3xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}) {
  // expected-error@below {{'sojourn.reduce_prod' op is taken over rows}}
  %y = sojourn.reduce_prod %x, dims = [0, 1] : tensor<6x3xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}) {
  // expected-error@below {{'sojourn.argmax' op is taken over rows}}
  %y = sojourn.argmax %x, dim = 0 : tensor<6x3xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}) {
  // expected-error@below {{'sojourn.reverse' op reverses the order of rows}}
  %y = sojourn.reverse %x, dims = [0] : tensor<6x3xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}, %c: tensor<f32> {sojourn.kind = "state"}) {
  // expected-error@below {{'sojourn.pad' op pads the dim that holds rows}}
  %y = sojourn.pad %x, %c, low = [1, 0], high = [0, 0], interior = [0, 0] : tensor<6x3xf32>, tensor<f32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}) {
  // expected-error@below {{'sojourn.dot' op each row meets other rows of the batch}}
  %y = sojourn.dot %x, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1] : tensor<6x3xf32>, tensor<6x3xf32> -> tensor<6x6xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%w: tensor<6x1x2xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 2>}, %x: tensor<2x1x5xf32> {sojourn.kind = "state"}) {
  // expected-error@below {{'sojourn.conv' op the weight of a convolution depends on rows}}
  %y = sojourn.conv %x, %w, stride = [1], padding = [0], dilation = [1], groups = 1 : tensor<2x1x5xf32>, tensor<6x1x2xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<1x1x6xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 1>}) {
  // expected-error@below {{'sojourn.pool_sum' op pools over the dim that holds rows}}
  %y = sojourn.pool_sum %x, window = [2], stride = [1], padding = [0], dilation = [1] : tensor<1x1x6xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x6xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 6>}) {
  // expected-error@below {{'sojourn.cholesky' op uses private rows as the rows of a matrix}}
  %l, %o = sojourn.cholesky %x : tensor<6x6xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6xcomplex<f32>> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 1>}) {
  // expected-error@below {{'sojourn.fft_c2c' op is taken over rows}}
  %y = sojourn.fft_c2c %x, dims = [0], inverse = false : tensor<6xcomplex<f32>>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}, %i: tensor<2xi64> {sojourn.kind = "state"}) {
  // expected-error@below {{'sojourn.take' op takes rows of the batch by number}}
  %y = sojourn.take %x, %i, dim = 0 : tensor<6x3xf32>, tensor<2xi64>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}, %i: tensor<6xi64> {sojourn.kind = "state"}, %z: tensor<5x3xf32> {sojourn.kind = "state"}) {
  // expected-error@below {{'sojourn.put' op rows overwrite each other}}
  %y = sojourn.put "set" %z, %i, %x, dim = 0 : tensor<5x3xf32>, tensor<6xi64>, tensor<6x3xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}, %i: tensor<6xi64> {sojourn.kind = "state"}, %z: tensor<5x3xf32> {sojourn.kind = "state"}) {
  // expected-error@below {{'sojourn.put' op adds rows onto values other than zeros}}
  %y = sojourn.put "add" %z, %i, %x, dim = 0 : tensor<5x3xf32>, tensor<6xi64>, tensor<6x3xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}) {
  // expected-error@below {{'sojourn.reshape' op spreads rows over several dims}}
  %y = sojourn.reshape %x : tensor<6x3xf32> -> tensor<2x9xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<12x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 6>}) {
  // expected-error@below {{'sojourn.slice' op takes a part of a dim that holds rows and other elements}}
  %y = sojourn.slice %x, start = [1, 0], limit = [4, 3], stride = [1, 1] : tensor<12x3xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}, %k: tensor<i64> {sojourn.kind = "slot"}) {
  // expected-error@below {{'sojourn.dynamic_slice' op takes some rows at a run-time position}}
  %y = sojourn.dynamic_slice %x from [%k], dims = [0], sizes = [2] : tensor<6x3xf32>, tensor<i64>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%a: tensor<3xf32> {sojourn.kind = "state", sojourn.party = 0 : i64}, %b: tensor<3xf32> {sojourn.kind = "state", sojourn.party = 1 : i64}) {
  // expected-error@below {{'sojourn.mul' op combines values at roles 0 and 1: values of different owners meet in sums alone (a + b, a - b, torch.stack([a, b]).sum(0)); add first, or compute at one owner and publish}}
  %y = sojourn.mul %a, %b : tensor<3xf32>, tensor<3xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 3 : i64, sojourn.promotion = "torch"} {
func.func @step(%p: tensor<3xi1> {sojourn.kind = "state", sojourn.party = 2 : i64}, %a: tensor<3xf32> {sojourn.kind = "state", sojourn.party = 0 : i64}, %b: tensor<3xf32> {sojourn.kind = "state", sojourn.party = 1 : i64}) {
  // expected-error@below {{'sojourn.select' op combines values at roles 0, 1 and 2}}
  %y = sojourn.select %p, %a, %b : tensor<3xi1>, tensor<3xf32>, tensor<3xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}, %m: tensor<f32> {sojourn.kind = "state", sojourn.party = 1 : i64}) {
  // expected-error@below {{'sojourn.sub' op combines rows at roles 0 and 1 with a value at role 1 alone: the other owners do not have it; compute the value on the rows of all owners}}
  %y = sojourn.sub %x, %m : tensor<6x3xf32>, tensor<f32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}, %y: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [4, 2], stride = 3>}) {
  // expected-error@below {{'sojourn.add' op combines parts: 4 rows at role 0, 2 at role 1; stride 3 with parts: 2 rows at role 0, 4 at role 1; stride 3: rows meet rows of the same role, in the same order; join both tensors alike}}
  %z = sojourn.add %y, %x : tensor<6x3xf32>, tensor<6x3xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<6x6xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 6>}) {
  %t = sojourn.transpose %x, perm = [1, 0] : tensor<6x6xf32>
  // expected-error@below {{'sojourn.add' op operands have their rows in different places}}
  %z = sojourn.add %x, %t : tensor<6x6xf32>, tensor<6x6xf32>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%i: tensor<6xi64> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 1>}, %t: !sojourn.table<?, "age" : f64> {sojourn.kind = "table", sojourn.party = 0 : i64}) {
  // expected-error@below {{'sojourn.read_rows' op reads a table at row numbers that lie at several roles}}
  %y = sojourn.read_rows %t, %i, columns = ["age"] : !sojourn.table<?, "age" : f64>, tensor<6xi64> -> tensor<6xf64>
  return
}
}

// -----

module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<12x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 6>}, %y: tensor<6x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 4], stride = 3>}) {
  // expected-error@below {{'sojourn.concat' op joins rows of different lengths along dim 0; flatten after joining}}
  %z = sojourn.concat %x, %y dim = 0 : tensor<12x3xf32>, tensor<6x3xf32>
  return
}
}

// -----

// What is written to a tensor lies where the tensor does; a number of one role is sent to the others (told.mlir).
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%a: tensor<3xf32> {sojourn.kind = "state", sojourn.party = 0 : i64}, %b: tensor<3xf32> {sojourn.kind = "state", sojourn.party = 1 : i64}) -> (tensor<3xf32> {sojourn.result = "commit", sojourn.target = 0 : i64}) {
  // expected-error@below {{'sojourn.neg' op is at role 1 and written to a tensor that is at role 0, expected one place; write to a new tensor}}
  %s = sojourn.neg %b : tensor<3xf32>
  return %s : tensor<3xf32>
}
}

// -----

module attributes {sojourn.promotion = "torch"} {
// expected-error@below {{'func.func' op has no roles: the module lacks sojourn.parties}}
func.func @step(%x: tensor<3xf32> {sojourn.kind = "state"}) {
  return
}
}

// -----

// No place for rows beside a dim of size 0.
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%a: tensor<3x2x0xf32> {sojourn.kind = "state", sojourn.party = 0 : i64}, %b: tensor<3x4x0xf32> {sojourn.kind = "state", sojourn.party = 1 : i64}) {
  // expected-error@below {{'sojourn.concat' op has rows of several roles beside a dim of size 0}}
  %c = sojourn.concat %a, %b dim = 1 : tensor<3x2x0xf32>, tensor<3x4x0xf32>
  return
}
}
