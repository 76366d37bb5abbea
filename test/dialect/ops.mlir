// SPDX-License-Identifier: Apache-2.0
// The example of every other core op, word for word from its documentation, through text and through bytecode.
// RUN: sojourn-opt %s --verify-roundtrip | FileCheck %s
// RUN: sojourn-opt %s --emit-bytecode | sojourn-opt | FileCheck %s

// CHECK-LABEL: func @constant(
// CHECK: sojourn.constant{{[ "]}}
func.func @constant() {
  %one = sojourn.constant 1.0 : f32
  return
}

// CHECK-LABEL: func @iota(
// CHECK: sojourn.iota{{[ "]}}
func.func @iota() {
  %i = sojourn.iota dim = 1 : tensor<2x3xi64>
  return
}

// CHECK-LABEL: func @rng_bits(
// CHECK: sojourn.rng_bits{{[ "]}}
func.func @rng_bits(%seed: tensor<i64>) {
  %bits = sojourn.rng_bits %seed, stream = 0 : tensor<4x3xi64>
  return
}

// CHECK-LABEL: func @rng_uniform(
// CHECK: sojourn.rng_uniform{{[ "]}}
func.func @rng_uniform(%seed: tensor<i64>) {
  %u = sojourn.rng_uniform %seed, stream = 1 : tensor<4x3xf32>
  return
}

// CHECK-LABEL: func @rng_normal(
// CHECK: sojourn.rng_normal{{[ "]}}
func.func @rng_normal(%seed: tensor<i64>) {
  %z = sojourn.rng_normal %seed, stream = 2 : tensor<4x3xf32>
  return
}

// CHECK-LABEL: func @sample_rows(
// CHECK: sojourn.sample_rows{{[ "]}}
func.func @sample_rows(%positions: tensor<64xi64>, %seed: tensor<i64>, %epoch: tensor<i64>, %split: tensor<i64>,
                       %never: tensor<i64>, %table: !sojourn.table<?, "age" : f64>) {
  %i = sojourn.sample_rows %positions, %seed, %epoch of %table, part = [first 8.000000e-01]
    : tensor<64xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "age" : f64> -> tensor<64xi64>
  %j = sojourn.sample_rows %i, %split, %never of %table, split = [first 8.000000e-01]
    : tensor<64xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "age" : f64> -> tensor<64xi64>
  return
}

// Parts, and what is expected of a draw, as they are written; fractions to the bit; both forms are one op.
// CHECK-LABEL: func @sample_rows_of_parts(
// CHECK-NEXT: sojourn.sample_rows %{{.*}} of %{{[a-z0-9]+}}{{ *}} : tensor<64xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "age" : f64> -> tensor<64xi64>
// CHECK-NEXT: sojourn.sample_rows %{{.*}} of %{{.*}}, expected = 64 :
// CHECK-NEXT: sojourn.sample_rows %{{.*}} of %{{.*}}, part = [first 8.000000e-01, other 5.000000e-01], expected = 64 :
// CHECK-NEXT: sojourn.sample_rows %{{.*}} of %{{.*}}, split = [other 0.33333333333333331, first 2.500000e-01] :
// CHECK-NEXT: sojourn.sample_rows %{{.*}} of %{{.*}}, part = [first 1.000000e-300], expected = 1 :
// CHECK-NEXT: sojourn.sample_rows %{{.*}} of %{{.*}}, part = [first 8.000000e-01, other 5.000000e-01], expected = 64 :
// CHECK-NEXT: sojourn.sample_rows %{{.*}} of %{{.*}}, split = [other 5.000000e-01] :
// CHECK-NEXT: sojourn.sample_rows %{{.*}} of %{{[a-z0-9]+}}{{ *}} : tensor<64xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "age" : f64> -> tensor<64xi64>
func.func @sample_rows_of_parts(%p: tensor<64xi64>, %s: tensor<i64>, %t: !sojourn.table<?, "age" : f64>) {
  %0 = sojourn.sample_rows %p, %s, %s of %t : tensor<64xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "age" : f64> -> tensor<64xi64>
  %1 = sojourn.sample_rows %p, %s, %s of %t, expected = 64 : tensor<64xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "age" : f64> -> tensor<64xi64>
  %2 = sojourn.sample_rows %p, %s, %s of %t, part = [first 0.8, other 0.5], expected = 64 : tensor<64xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "age" : f64> -> tensor<64xi64>
  %3 = sojourn.sample_rows %p, %s, %s of %t, split = [other 0.3333333333333333, first 0.25] : tensor<64xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "age" : f64> -> tensor<64xi64>
  %4 = sojourn.sample_rows %p, %s, %s of %t, part = [first 1.0e-300], expected = 1 : tensor<64xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "age" : f64> -> tensor<64xi64>
  %5 = "sojourn.sample_rows"(%p, %s, %s, %t) <{expected = 64 : i64, fractions = array<f64: 0.8, 0.5>, sides = array<i64: 0, 1>, split = false}>
    : (tensor<64xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "age" : f64>) -> tensor<64xi64>
  %6 = "sojourn.sample_rows"(%p, %s, %s, %t) <{fractions = array<f64: 0.5>, sides = array<i64: 1>, split = true}>
    : (tensor<64xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "age" : f64>) -> tensor<64xi64>
  %7 = "sojourn.sample_rows"(%p, %s, %s, %t) <{fractions = array<f64>, sides = array<i64>, split = false}>
    : (tensor<64xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "age" : f64>) -> tensor<64xi64>
  return
}

// CHECK-LABEL: func @sample_rows_of_scalars(
// CHECK: sojourn.sample_rows %{{.*}} : tensor<64xi64>, !sojourn.scalar<i64>, !sojourn.scalar<i64>, !sojourn.table<569, "age" : f64> -> tensor<64xi64>
func.func @sample_rows_of_scalars(%positions: tensor<64xi64>, %seed: !sojourn.scalar<i64>,
                                  %epoch: !sojourn.scalar<i64>, %table: !sojourn.table<569, "age" : f64>) {
  %i = sojourn.sample_rows %positions, %seed, %epoch of %table
    : tensor<64xi64>, !sojourn.scalar<i64>, !sojourn.scalar<i64>, !sojourn.table<569, "age" : f64> -> tensor<64xi64>
  return
}

// CHECK-LABEL: func @sample_rows_any_rank(
// CHECK: sojourn.sample_rows %{{.*}} : tensor<i64>, tensor<i64>, tensor<i64>, !sojourn.table<0, "a" : f64> -> tensor<i64>
// CHECK: sojourn.sample_rows %{{.*}} : tensor<2x0x3xi64>, tensor<i64>, tensor<i64>, !sojourn.table<4294967296, "a" : f64> -> tensor<2x0x3xi64>
func.func @sample_rows_any_rank(%p: tensor<i64>, %q: tensor<2x0x3xi64>, %s: tensor<i64>,
                                %t: !sojourn.table<0, "a" : f64>, %u: !sojourn.table<4294967296, "a" : f64>) {
  %i = sojourn.sample_rows %p, %s, %s of %t
    : tensor<i64>, tensor<i64>, tensor<i64>, !sojourn.table<0, "a" : f64> -> tensor<i64>
  %j = sojourn.sample_rows %q, %s, %s of %u
    : tensor<2x0x3xi64>, tensor<i64>, tensor<i64>, !sojourn.table<4294967296, "a" : f64> -> tensor<2x0x3xi64>
  return
}

// CHECK-LABEL: func @read_rows(
// CHECK: sojourn.read_rows{{[ "]}}
func.func @read_rows(%table: !sojourn.table<?, "age" : f64, "image" : 28x28xui8>, %i: tensor<64xi64>) {
  %x = sojourn.read_rows %table, %i, columns = ["age"]
    : !sojourn.table<?, "age" : f64, "image" : 28x28xui8>, tensor<64xi64> -> tensor<64x1xf32>
  %y = sojourn.read_rows %table, %i, columns = ["image"]
    : !sojourn.table<?, "age" : f64, "image" : 28x28xui8>, tensor<64xi64> -> tensor<64x28x28xui8>
  return
}

// CHECK-LABEL: func @read_rows_shaped(
// CHECK-SAME: !sojourn.table<569, "age" : f64, "image" : 28x28xui8, "word" : 64xi64>
// CHECK: sojourn.read_rows %{{.*}} -> tensor<5x28x28xf32>
// CHECK: sojourn.read_rows %{{.*}} -> tensor<5x64xi64>
// CHECK: sojourn.read_rows %{{.*}} -> tensor<5xf64>
func.func @read_rows_shaped(%t: !sojourn.table<569, "age" : f64, "image" : 28x28xui8, "word" : 64xi64>,
                            %i: tensor<5xi64>) {
  %x = sojourn.read_rows %t, %i, columns = ["image"]
    : !sojourn.table<569, "age" : f64, "image" : 28x28xui8, "word" : 64xi64>, tensor<5xi64> -> tensor<5x28x28xf32>
  %y = sojourn.read_rows %t, %i, columns = ["word"]
    : !sojourn.table<569, "age" : f64, "image" : 28x28xui8, "word" : 64xi64>, tensor<5xi64> -> tensor<5x64xi64>
  %z = sojourn.read_rows %t, %i, columns = ["age"]
    : !sojourn.table<569, "age" : f64, "image" : 28x28xui8, "word" : 64xi64>, tensor<5xi64> -> tensor<5xf64>
  return
}

// CHECK-LABEL: func @broadcast(
// CHECK: sojourn.broadcast{{[ "]}}
func.func @broadcast(%x: tensor<3xf32>) {
  %y = sojourn.broadcast %x, dims = [1] : tensor<3xf32> -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @reshape(
// CHECK: sojourn.reshape{{[ "]}}
func.func @reshape(%x: tensor<2x3xf32>) {
  %y = sojourn.reshape %x : tensor<2x3xf32> -> tensor<6xf32>
  return
}

// CHECK-LABEL: func @transpose(
// CHECK: sojourn.transpose{{[ "]}}
func.func @transpose(%x: tensor<2x3xf32>) {
  %y = sojourn.transpose %x, perm = [1, 0] : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @slice(
// CHECK: sojourn.slice{{[ "]}}
func.func @slice(%x: tensor<2x3xf32>) {
  %y = sojourn.slice %x, start = [0, 1], limit = [2, 3], stride = [1, 2] : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @reverse(
// CHECK: sojourn.reverse{{[ "]}}
func.func @reverse(%x: tensor<2x3xf32>) {
  %y = sojourn.reverse %x, dims = [1] : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @update_slice(
// CHECK: sojourn.update_slice{{[ "]}}
func.func @update_slice(%x: tensor<2x3xf32>, %u: tensor<2x2xf32>) {
  %y = sojourn.update_slice %x, %u, start = [0, 1], stride = [1, 1] : tensor<2x3xf32>, tensor<2x2xf32>
  return
}

// CHECK-LABEL: func @dynamic_slice(
// CHECK: sojourn.dynamic_slice{{[ "]}}
func.func @dynamic_slice(%x: tensor<5x3xf32>, %k: tensor<i64>) {
  %y = sojourn.dynamic_slice %x from [%k], dims = [0], sizes = [2] : tensor<5x3xf32>, tensor<i64>
  return
}

// CHECK-LABEL: func @dynamic_update_slice(
// CHECK: sojourn.dynamic_update_slice{{[ "]}}
func.func @dynamic_update_slice(%x: tensor<5x3xf32>, %u: tensor<2x3xf32>, %k: tensor<i64>) {
  %y = sojourn.dynamic_update_slice %x, %u from [%k], dims = [0] : tensor<5x3xf32>, tensor<2x3xf32>, tensor<i64>
  return
}

// CHECK-LABEL: func @concat(
// CHECK: sojourn.concat{{[ "]}}
func.func @concat(%a: tensor<2x3xf32>, %b: tensor<2x1xf32>) {
  %y = sojourn.concat %a, %b dim = 1 : tensor<2x3xf32>, tensor<2x1xf32>
  return
}

// CHECK-LABEL: func @pad(
// CHECK: sojourn.pad{{[ "]}}
func.func @pad(%x: tensor<2x3xf32>, %value: tensor<f32>) {
  %y = sojourn.pad %x, %value, low = [0, 1], high = [0, 1], interior = [1, 0] : tensor<2x3xf32>, tensor<f32>
  return
}

// CHECK-LABEL: func @dot(
// CHECK: sojourn.dot{{[ "]}}
func.func @dot(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  %y = sojourn.dot %a, %b, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]
    : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  return
}

// CHECK-LABEL: func @conv(
// CHECK: sojourn.conv{{[ "]}}
func.func @conv(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) {
  %y = sojourn.conv %x, %w, stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1
    : tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>
  return
}

// CHECK-LABEL: func @conv_grad_input(
// CHECK: sojourn.conv_grad_input{{[ "]}}
func.func @conv_grad_input(%g: tensor<2x4x4x4xf32>, %w: tensor<4x3x3x3xf32>) {
  %dx = sojourn.conv_grad_input %g, %w, stride = [2, 2], padding = [1, 1], dilation = [1, 1], groups = 1
    : tensor<2x4x4x4xf32>, tensor<4x3x3x3xf32> -> tensor<2x3x8x8xf32>
  return
}

// CHECK-LABEL: func @conv_grad_weight(
// CHECK: sojourn.conv_grad_weight{{[ "]}}
func.func @conv_grad_weight(%g: tensor<2x4x4x4xf32>, %x: tensor<2x3x8x8xf32>) {
  %dw = sojourn.conv_grad_weight %g, %x, stride = [2, 2], padding = [1, 1], dilation = [1, 1], groups = 1
    : tensor<2x4x4x4xf32>, tensor<2x3x8x8xf32> -> tensor<4x3x3x3xf32>
  return
}

// CHECK-LABEL: func @reduce_sum(
// CHECK: sojourn.reduce_sum{{[ "]}}
func.func @reduce_sum(%x: tensor<2x3xf32>) {
  %y = sojourn.reduce_sum %x, dims = [1] : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @reduce_prod(
// CHECK: sojourn.reduce_prod{{[ "]}}
func.func @reduce_prod(%x: tensor<2x3xf32>) {
  %y = sojourn.reduce_prod %x, dims = [1] : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @reduce_max(
// CHECK: sojourn.reduce_max{{[ "]}}
func.func @reduce_max(%x: tensor<2x3xf32>) {
  %y = sojourn.reduce_max %x, dims = [1] : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @reduce_min(
// CHECK: sojourn.reduce_min{{[ "]}}
func.func @reduce_min(%x: tensor<2x3xf32>) {
  %y = sojourn.reduce_min %x, dims = [1] : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @argmax(
// CHECK: sojourn.argmax{{[ "]}}
func.func @argmax(%x: tensor<2x3xf32>) {
  %y = sojourn.argmax %x, dim = 1 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @argmin(
// CHECK: sojourn.argmin{{[ "]}}
func.func @argmin(%x: tensor<2x3xf32>) {
  %y = sojourn.argmin %x, dim = 1 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @cumsum(
// CHECK: sojourn.cumsum{{[ "]}}
func.func @cumsum(%x: tensor<2x3xf32>) {
  %y = sojourn.cumsum %x, dim = 1 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @cumprod(
// CHECK: sojourn.cumprod{{[ "]}}
func.func @cumprod(%x: tensor<2x3xf32>) {
  %y = sojourn.cumprod %x, dim = 1 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @cummax(
// CHECK: sojourn.cummax{{[ "]}}
func.func @cummax(%x: tensor<2x3xf32>) {
  %y = sojourn.cummax %x, dim = 1 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @cummin(
// CHECK: sojourn.cummin{{[ "]}}
func.func @cummin(%x: tensor<2x3xf32>) {
  %y = sojourn.cummin %x, dim = 1 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @cumlogsumexp(
// CHECK: sojourn.cumlogsumexp{{[ "]}}
func.func @cumlogsumexp(%x: tensor<2x3xf32>) {
  %y = sojourn.cumlogsumexp %x, dim = 1 : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @cholesky(
// CHECK: sojourn.cholesky{{[ "]}}
func.func @cholesky(%x: tensor<4x3x3xf32>) {
  %l, %order = sojourn.cholesky %x : tensor<4x3x3xf32>
  return
}

// CHECK-LABEL: func @triangular_solve(
// CHECK: sojourn.triangular_solve{{[ "]}}
func.func @triangular_solve(%a: tensor<4x3x3xf32>, %b: tensor<4x3x2xf32>) {
  %x = sojourn.triangular_solve %a, %b, lower = true, unit = false : tensor<4x3x3xf32>, tensor<4x3x2xf32>
  return
}

// CHECK-LABEL: func @lu(
// CHECK: sojourn.lu{{[ "]}}
func.func @lu(%x: tensor<4x3x5xf32>) {
  %lu, %pivots, %rows, %order = sojourn.lu %x : tensor<4x3x5xf32>
  return
}

// CHECK-LABEL: func @qr(
// CHECK: sojourn.qr{{[ "]}}
func.func @qr(%x: tensor<4x5x3xf32>) {
  %q, %r = sojourn.qr %x full = false : tensor<4x5x3xf32>
  return
}

// CHECK-LABEL: func @eigh(
// CHECK: sojourn.eigh{{[ "]}}
func.func @eigh(%x: tensor<4x3x3xf32>) {
  %values, %vectors = sojourn.eigh %x : tensor<4x3x3xf32>
  return
}

// CHECK-LABEL: func @svd(
// CHECK: sojourn.svd{{[ "]}}
func.func @svd(%x: tensor<4x5x3xf32>) {
  %u, %s, %vt = sojourn.svd %x full = false : tensor<4x5x3xf32>
  return
}

// CHECK-LABEL: func @ldl(
// CHECK: sojourn.ldl{{[ "]}}
func.func @ldl(%x: tensor<4x3x3xf32>) {
  %ld, %pivots, %order = sojourn.ldl %x hermitian = false : tensor<4x3x3xf32>
  return
}

// CHECK-LABEL: func @ldl_solve(
// CHECK: sojourn.ldl_solve{{[ "]}}
func.func @ldl_solve(%ld: tensor<4x3x3xf32>, %pivots: tensor<4x3xi64>, %b: tensor<4x3x2xf32>) {
  %x = sojourn.ldl_solve %ld, %pivots, %b, hermitian = false : tensor<4x3x3xf32>, tensor<4x3xi64>, tensor<4x3x2xf32>
  return
}

// CHECK-LABEL: func @eig(
// CHECK: sojourn.eig{{[ "]}}
func.func @eig(%x: tensor<4x3x3xf32>) {
  %values, %vectors = sojourn.eig %x : tensor<4x3x3xf32>
  return
}

// CHECK-LABEL: func @parts(
// CHECK: sojourn.parts{{[ "]}}
func.func @parts(%x: tensor<2x3xcomplex<f32>>) -> tensor<2x3x2xf32> {
  %y = sojourn.parts %x : tensor<2x3xcomplex<f32>>
  return %y : tensor<2x3x2xf32>
}

// CHECK-LABEL: func @complex(
// CHECK: sojourn.complex{{[ "]}}
func.func @complex(%x: tensor<2x3x2xf64>) -> tensor<2x3xcomplex<f64>> {
  %y = sojourn.complex %x : tensor<2x3x2xf64>
  return %y : tensor<2x3xcomplex<f64>>
}

// CHECK-LABEL: func @fft_c2c(
// CHECK: sojourn.fft_c2c{{[ "]}}
func.func @fft_c2c(%x: tensor<2x8xcomplex<f32>>) {
  %y = sojourn.fft_c2c %x, dims = [1], inverse = false : tensor<2x8xcomplex<f32>>
  return
}

// CHECK-LABEL: func @fft_r2c(
// CHECK: sojourn.fft_r2c{{[ "]}}
func.func @fft_r2c(%x: tensor<4x8xf32>) -> tensor<4x5xcomplex<f32>> {
  %y = sojourn.fft_r2c %x, dims = [0, 1] : tensor<4x8xf32>
  return %y : tensor<4x5xcomplex<f32>>
}

// CHECK-LABEL: func @fft_c2r(
// CHECK: sojourn.fft_c2r{{[ "]}}
func.func @fft_c2r(%x: tensor<4x5xcomplex<f32>>) -> tensor<4x9xf32> {
  %y = sojourn.fft_c2r %x, dims = [0, 1], size = 9 : tensor<4x5xcomplex<f32>>
  return %y : tensor<4x9xf32>
}

// CHECK-LABEL: func @sort(
// CHECK: sojourn.sort{{[ "]}}
func.func @sort(%x: tensor<2x3xf32>) {
  %values, %indices = sojourn.sort %x, dim = 1, descending = false : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @topk(
// CHECK: sojourn.topk{{[ "]}}
func.func @topk(%x: tensor<2x3xf32>) {
  %values, %indices = sojourn.topk %x, dim = 1, k = 2, largest = true : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @take(
// CHECK: sojourn.take{{[ "]}}
func.func @take(%x: tensor<5x3xf32>, %i: tensor<2x2xi64>) {
  %y = sojourn.take %x, %i, dim = 0 : tensor<5x3xf32>, tensor<2x2xi64>
  return
}

// CHECK-LABEL: func @take_along(
// CHECK: sojourn.take_along{{[ "]}}
func.func @take_along(%x: tensor<5x3xf32>, %i: tensor<5x1xi64>) {
  %y = sojourn.take_along %x, %i, dim = 1 : tensor<5x3xf32>, tensor<5x1xi64>
  return
}

// CHECK-LABEL: func @put(
// CHECK: sojourn.put{{[ "]}}
func.func @put(%x: tensor<5x3xf32>, %i: tensor<2xi64>, %u: tensor<2x3xf32>) {
  %y = sojourn.put "add" %x, %i, %u, dim = 0 : tensor<5x3xf32>, tensor<2xi64>, tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @put_along(
// CHECK: sojourn.put_along{{[ "]}}
func.func @put_along(%x: tensor<5x3xf32>, %i: tensor<5x1xi64>, %u: tensor<5x1xf32>) {
  %y = sojourn.put_along "set" %x, %i, %u, dim = 1 : tensor<5x3xf32>, tensor<5x1xi64>, tensor<5x1xf32>
  return
}

// CHECK-LABEL: func @pool_sum(
// CHECK: sojourn.pool_sum{{[ "]}}
func.func @pool_sum(%x: tensor<2x3x8x8xf32>) {
  %y = sojourn.pool_sum %x, window = [2, 2], stride = [2, 2], padding = [0, 0], dilation = [1, 1]
    : tensor<2x3x8x8xf32>
  return
}

// CHECK-LABEL: func @pool_max(
// CHECK: sojourn.pool_max{{[ "]}}
func.func @pool_max(%x: tensor<2x3x8x8xf32>) {
  %values, %indices = sojourn.pool_max %x, window = [2, 2], stride = [2, 2], padding = [0, 0], dilation = [1, 1]
    : tensor<2x3x8x8xf32>
  return
}
