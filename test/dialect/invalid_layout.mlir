// SPDX-License-Identifier: Apache-2.0
// What the verifiers of layout ops refuse; each function is named after the rule it breaks.
// RUN: sojourn-opt %s -split-input-file -verify-diagnostics

func.func @broadcast_element_type(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.broadcast' op result has type 'tensor<2x3xf64>', expected element type 'f32'}}
  %y = sojourn.broadcast %x, dims = [0, 1] : tensor<2x3xf32> -> tensor<2x3xf64>
  return
}

// -----

func.func @broadcast_number_of_dims(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.broadcast' op dims has 1 entries, expected 2, the rank of x}}
  %y = sojourn.broadcast %x, dims = [0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @broadcast_order(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.broadcast' op dims are [1, 0], expected strictly increasing dims in [0, 2)}}
  %y = sojourn.broadcast %x, dims = [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  return
}

// -----

func.func @broadcast_range(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.broadcast' op dims are [0, 9223372036854775807], expected strictly increasing dims in [0, 2)}}
  %y = sojourn.broadcast %x, dims = [0, 9223372036854775807] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @broadcast_size(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.broadcast' op operand dim 0 has size 2 and result dim 0 size 4, expected equal sizes or 1}}
  %y = sojourn.broadcast %x, dims = [0, 1] : tensor<2x3xf32> -> tensor<4x3xf32>
  return
}

// -----

func.func @broadcast_too_large(%x: tensor<f32>) {
  // expected-error@+1 {{'sojourn.broadcast' op result #0 has type 'tensor<4611686018427387904x4xf32>', expected at most 2^32 elements}}
  %y = sojourn.broadcast %x, dims = [] : tensor<f32> -> tensor<4611686018427387904x4xf32>
  return
}

// -----

func.func @reshape_element_type(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.reshape' op result has type 'tensor<6xi32>', expected element type 'f32'}}
  %y = sojourn.reshape %x : tensor<2x3xf32> -> tensor<6xi32>
  return
}

// -----

func.func @reshape_numel(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.reshape' op reshapes 'tensor<2x3xf32>' to 'tensor<7xf32>', expected equal numbers of elements}}
  %y = sojourn.reshape %x : tensor<2x3xf32> -> tensor<7xf32>
  return
}

// -----

func.func @transpose_rank(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{perm has 1 entries, expected 2, the rank of x}}
  %y = sojourn.transpose %x, perm = [0] : tensor<2x3xf32>
  return
}

// -----

func.func @transpose_twice(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{perm has 0, expected a permutation of [0, 2)}}
  %y = sojourn.transpose %x, perm = [0, 0] : tensor<2x3xf32>
  return
}

// -----

func.func @transpose_range(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{perm has -1, expected a permutation of [0, 2)}}
  %y = sojourn.transpose %x, perm = [0, -1] : tensor<2x3xf32>
  return
}

// -----

func.func @transpose_result(%x: tensor<2x3xf32>) {
  // expected-error@+2 {{'sojourn.transpose' op inferred type(s) 'tensor<3x2xf32>' are incompatible with return type(s) of operation 'tensor<2x3xf32>'}}
  // expected-error@+1 {{'sojourn.transpose' op failed to infer returned types}}
  %y = "sojourn.transpose"(%x) {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @transpose_without_perm(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.transpose' op requires attribute 'perm'}}
  %y = "sojourn.transpose"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @slice_rank(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{start has 1 entries, expected 2, the rank of x}}
  %y = sojourn.slice %x, start = [0], limit = [1, 1], stride = [1, 1] : tensor<2x3xf32>
  return
}

// -----

func.func @slice_start(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dim 1 of size 3 is sliced with start -1, limit 1, stride 1, expected 0 <= start <= limit <= size and stride >= 1}}
  %y = sojourn.slice %x, start = [0, -1], limit = [1, 1], stride = [1, 1] : tensor<2x3xf32>
  return
}

// -----

func.func @slice_limit(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dim 1 of size 3 is sliced with start 0, limit 4, stride 1, expected 0 <= start <= limit <= size and stride >= 1}}
  %y = sojourn.slice %x, start = [0, 0], limit = [1, 4], stride = [1, 1] : tensor<2x3xf32>
  return
}

// -----

func.func @slice_order(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dim 1 of size 3 is sliced with start 2, limit 1, stride 1, expected 0 <= start <= limit <= size and stride >= 1}}
  %y = sojourn.slice %x, start = [0, 2], limit = [1, 1], stride = [1, 1] : tensor<2x3xf32>
  return
}

// -----

func.func @slice_stride(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dim 1 of size 3 is sliced with start 0, limit 3, stride 0, expected 0 <= start <= limit <= size and stride >= 1}}
  %y = sojourn.slice %x, start = [0, 0], limit = [1, 3], stride = [1, 0] : tensor<2x3xf32>
  return
}

// -----

func.func @reverse_dims(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.reverse' op dims are [1, 1], expected strictly increasing dims in [0, 2)}}
  %y = sojourn.reverse %x, dims = [1, 1] : tensor<2x3xf32>
  return
}

// -----

func.func @reverse_range(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'sojourn.reverse' op dims are [2], expected strictly increasing dims in [0, 2)}}
  %y = sojourn.reverse %x, dims = [2] : tensor<2x3xf32>
  return
}

// -----

func.func @update_slice_type(%x: tensor<2x3xf32>, %u: tensor<3xf32>) {
  // expected-error@+1 {{'sojourn.update_slice' op u has type 'tensor<3xf32>', expected rank and element type of 'tensor<2x3xf32>'}}
  %y = sojourn.update_slice %x, %u, start = [0, 0], stride = [1, 1] : tensor<2x3xf32>, tensor<3xf32>
  return
}

// -----

func.func @update_slice_rank(%x: tensor<2x3xf32>, %u: tensor<1x3xf32>) {
  // expected-error@+1 {{'sojourn.update_slice' op start has 1 entries and stride 2, expected 2, the rank of x}}
  %y = sojourn.update_slice %x, %u, start = [0], stride = [1, 1] : tensor<2x3xf32>, tensor<1x3xf32>
  return
}

// -----

func.func @update_slice_outside(%x: tensor<2x3xf32>, %u: tensor<1x3xf32>) {
  // expected-error@+1 {{'sojourn.update_slice' op writes 3 elements from 1 with stride 1 in dim 1 of size 3, expected positions inside the dim}}
  %y = sojourn.update_slice %x, %u, start = [0, 1], stride = [1, 1] : tensor<2x3xf32>, tensor<1x3xf32>
  return
}

// -----

func.func @update_slice_overflow(%x: tensor<2x3xf32>, %u: tensor<1x3xf32>) {
  // expected-error@+1 {{'sojourn.update_slice' op writes 3 elements from 0 with stride 9223372036854775807 in dim 1 of size 3, expected positions inside the dim}}
  %y = sojourn.update_slice %x, %u, start = [0, 0], stride = [1, 9223372036854775807] : tensor<2x3xf32>, tensor<1x3xf32>
  return
}

// -----

func.func @update_slice_stride(%x: tensor<2x3xf32>, %u: tensor<1x3xf32>) {
  // expected-error@+1 {{'sojourn.update_slice' op writes 1 elements from 0 with stride 0 in dim 0 of size 2, expected positions inside the dim}}
  %y = sojourn.update_slice %x, %u, start = [0, 0], stride = [0, 1] : tensor<2x3xf32>, tensor<1x3xf32>
  return
}

// -----

func.func @dynamic_slice_starts(%x: tensor<2x3xf32>, %k: tensor<i64>) {
  // expected-error@+2 {{found 1 starts and 2 dims, expected one start per dim}}
  // expected-error@+1 {{'sojourn.dynamic_slice' op failed to infer returned types}}
  %y = "sojourn.dynamic_slice"(%x, %k) {dims = array<i64: 0, 1>, sizes = array<i64: 1, 1>} : (tensor<2x3xf32>, tensor<i64>) -> tensor<1x1xf32>
  return
}

// -----

func.func @dynamic_slice_dims(%x: tensor<2x3xf32>, %k: tensor<i64>) {
  // expected-error@+2 {{dims are [1, 1], expected strictly increasing dims in [0, 2)}}
  // expected-error@+1 {{'sojourn.dynamic_slice' op failed to infer returned types}}
  %y = "sojourn.dynamic_slice"(%x, %k, %k) {dims = array<i64: 1, 1>, sizes = array<i64: 1, 1>} : (tensor<2x3xf32>, tensor<i64>, tensor<i64>) -> tensor<2x1xf32>
  return
}

// -----

func.func @dynamic_slice_sizes(%x: tensor<2x3xf32>, %k: tensor<i64>) {
  // expected-error@+2 {{sizes has 2 entries, expected 1, one per dim of dims}}
  // expected-error@+1 {{'sojourn.dynamic_slice' op failed to infer returned types}}
  %y = "sojourn.dynamic_slice"(%x, %k) {dims = array<i64: 0>, sizes = array<i64: 1, 1>} : (tensor<2x3xf32>, tensor<i64>) -> tensor<1x3xf32>
  return
}

// -----

func.func @dynamic_slice_large(%x: tensor<2x3xf32>, %k: tensor<i64>) {
  // expected-error@+2 {{takes 4 elements along dim 1 of size 3, expected at most its size}}
  // expected-error@+1 {{'sojourn.dynamic_slice' op failed to infer returned types}}
  %y = "sojourn.dynamic_slice"(%x, %k) {dims = array<i64: 1>, sizes = array<i64: 4>} : (tensor<2x3xf32>, tensor<i64>) -> tensor<2x4xf32>
  return
}

// -----

func.func @dynamic_update_slice_type(%x: tensor<2x3xf32>, %u: tensor<3xf32>, %k: tensor<i64>) {
  // expected-error@+1 {{'sojourn.dynamic_update_slice' op u has type 'tensor<3xf32>', expected rank and element type of 'tensor<2x3xf32>'}}
  %y = sojourn.dynamic_update_slice %x, %u from [%k], dims = [0] : tensor<2x3xf32>, tensor<3xf32>, tensor<i64>
  return
}

// -----

func.func @dynamic_update_slice_size(%x: tensor<2x3xf32>, %u: tensor<1x2xf32>, %k: tensor<i64>) {
  // expected-error@+1 {{'sojourn.dynamic_update_slice' op u has type 'tensor<1x2xf32>', expected 3 elements along dim 1}}
  %y = sojourn.dynamic_update_slice %x, %u from [%k], dims = [0] : tensor<2x3xf32>, tensor<1x2xf32>, tensor<i64>
  return
}

// -----

func.func @dynamic_update_slice_large(%x: tensor<2x3xf32>, %u: tensor<3x3xf32>, %k: tensor<i64>) {
  // expected-error@+1 {{'sojourn.dynamic_update_slice' op u has type 'tensor<3x3xf32>', expected at most 2 elements along dim 0}}
  %y = sojourn.dynamic_update_slice %x, %u from [%k], dims = [0] : tensor<2x3xf32>, tensor<3x3xf32>, tensor<i64>
  return
}

// -----

func.func @concat_nothing() {
  // expected-error@+2 {{found no operands, expected at least one}}
  // expected-error@+1 {{'sojourn.concat' op failed to infer returned types}}
  %y = "sojourn.concat"() {dim = 0 : i64} : () -> tensor<2xf32>
  return
}

// -----

func.func @concat_dim(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{dim is 2, expected one in [0, 2)}}
  %y = sojourn.concat %x, %x dim = 2 : tensor<2x3xf32>, tensor<2x3xf32>
  return
}

// -----

func.func @concat_shapes(%x: tensor<2x3xf32>, %z: tensor<3x3xf32>) {
  // expected-error@+1 {{operand #1 has type 'tensor<3x3xf32>', expected 'tensor<2x3xf32>' except along dim 1}}
  %y = sojourn.concat %x, %z dim = 1 : tensor<2x3xf32>, tensor<3x3xf32>
  return
}

// -----

func.func @concat_element_types(%x: tensor<2x3xf32>, %z: tensor<2x3xf64>) {
  // expected-error@+1 {{operand #1 has type 'tensor<2x3xf64>', expected 'tensor<2x3xf32>' except along dim 1}}
  %y = sojourn.concat %x, %z dim = 1 : tensor<2x3xf32>, tensor<2x3xf64>
  return
}

// -----

func.func @pad_value(%x: tensor<2x3xf32>, %v: tensor<f64>) {
  // expected-error@+1 {{value has type 'tensor<f64>', expected rank 0 and element type 'f32'}}
  %y = sojourn.pad %x, %v, low = [0, 0], high = [0, 0], interior = [0, 0] : tensor<2x3xf32>, tensor<f64>
  return
}

// -----

func.func @pad_rank(%x: tensor<2x3xf32>, %v: tensor<f32>) {
  // expected-error@+1 {{low has 1 entries, expected 2, the rank of x}}
  %y = sojourn.pad %x, %v, low = [0], high = [0, 0], interior = [0, 0] : tensor<2x3xf32>, tensor<f32>
  return
}

// -----

func.func @pad_interior(%x: tensor<2x3xf32>, %v: tensor<f32>) {
  // expected-error@+1 {{dim 1 of size 3 is padded with low 0, high 0, interior -1, expected interior >= 0 and a result size in [0, 2^40]}}
  %y = sojourn.pad %x, %v, low = [0, 0], high = [0, 0], interior = [0, -1] : tensor<2x3xf32>, tensor<f32>
  return
}

// -----

func.func @pad_cuts_too_much(%x: tensor<2x3xf32>, %v: tensor<f32>) {
  // expected-error@+1 {{dim 1 of size 3 is padded with low -2, high -2, interior 0, expected interior >= 0 and a result size in [0, 2^40]}}
  %y = sojourn.pad %x, %v, low = [0, -2], high = [0, -2], interior = [0, 0] : tensor<2x3xf32>, tensor<f32>
  return
}

// -----

func.func @pad_overflow(%x: tensor<2x3xf32>, %v: tensor<f32>) {
  // expected-error@+1 {{dim 1 of size 3 is padded with low 9223372036854775807, high 9223372036854775807, interior 0, expected interior >= 0 and a result size in [0, 2^40]}}
  %y = sojourn.pad %x, %v, low = [0, 9223372036854775807], high = [0, 9223372036854775807], interior = [0, 0] : tensor<2x3xf32>, tensor<f32>
  return
}

// -----

func.func @pad_too_large(%x: tensor<2x3xf32>, %v: tensor<f32>) {
  // expected-error@+1 {{'sojourn.pad' op result #0 has type 'tensor<1000000002x1000000003xf32>', expected at most 2^32 elements}}
  %y = sojourn.pad %x, %v, low = [1000000000, 1000000000], high = [0, 0], interior = [0, 0] : tensor<2x3xf32>, tensor<f32>
  return
}
