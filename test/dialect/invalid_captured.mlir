// SPDX-License-Identifier: Apache-2.0
// What the verifiers of captured form and its types refuse; each function is named after the rule it breaks.
// RUN: sojourn-opt %s -split-input-file -verify-diagnostics

func.func @aten_name(%x: !sojourn.ref<2x3xf32>) {
  // expected-error@+1 {{'sojourn.aten' op names "add.Tensor", expected "aten.<op>" or "aten.<op>.<overload>"}}
  %y = sojourn.aten "add.Tensor"(%x) {args = [#sojourn.operand<0>], names = ["self"]} : (!sojourn.ref<2x3xf32>) -> !sojourn.ref<2x3xf32>
  return
}

// -----

func.func @aten_names(%x: !sojourn.ref<2x3xf32>) {
  // expected-error@+1 {{'sojourn.aten' op has 1 args and 0 names, expected one name per argument}}
  %y = sojourn.aten "aten.relu"(%x) {args = [#sojourn.operand<0>], names = []} : (!sojourn.ref<2x3xf32>) -> !sojourn.ref<2x3xf32>
  return
}

// -----

func.func @aten_operand_range(%x: !sojourn.ref<2x3xf32>) {
  // expected-error@+1 {{'sojourn.aten' op argument #0 refers to operand 1, found 1 operands}}
  %y = sojourn.aten "aten.relu"(%x) {args = [#sojourn.operand<1>], names = ["self"]} : (!sojourn.ref<2x3xf32>) -> !sojourn.ref<2x3xf32>
  return
}

// -----

func.func @aten_operand_in_list(%x: !sojourn.ref<2x3xf32>) {
  // expected-error@+1 {{'sojourn.aten' op argument #0 refers to operand 9, found 1 operands}}
  %y = sojourn.aten "aten.cat"(%x) {args = [[#sojourn.operand<0>, #sojourn.operand<9>]], names = ["self"]} : (!sojourn.ref<2x3xf32>) -> !sojourn.ref<2x3xf32>
  return
}

// -----

func.func @aten_operand_negative(%x: !sojourn.ref<2x3xf32>) {
  // expected-error@+1 {{operand reference is -1, expected 0 or more}}
  %y = sojourn.aten "aten.relu"(%x) {args = [#sojourn.operand<-1>], names = ["self"]} : (!sojourn.ref<2x3xf32>) -> !sojourn.ref<2x3xf32>
  return
}

// -----

func.func @aten_unused_operand(%x: !sojourn.ref<2x3xf32>) {
  // expected-error@+1 {{'sojourn.aten' op operand #0 is not referred to by any argument}}
  %y = sojourn.aten "aten.relu"(%x) {args = [unit], names = ["self"]} : (!sojourn.ref<2x3xf32>) -> !sojourn.ref<2x3xf32>
  return
}

// -----

func.func @aten_nested_lists(%x: !sojourn.ref<2x3xf32>) {
  // expected-error@+1 {{'sojourn.aten' op argument #1 is [1], expected an operand reference, a literal, a list of those, or unit}}
  %y = sojourn.aten "aten.relu"(%x) {args = [#sojourn.operand<0>, [[1]]], names = ["self", "a"]} : (!sojourn.ref<2x3xf32>) -> !sojourn.ref<2x3xf32>
  return
}

// -----

func.func @aten_dictionary(%x: !sojourn.ref<2x3xf32>) {
  // expected-error@+1 {{'sojourn.aten' op argument #1 is {a = 1 : i64}, expected an operand reference, a literal, a list of those, or unit}}
  %y = sojourn.aten "aten.relu"(%x) {args = [#sojourn.operand<0>, {a = 1}], names = ["self", "a"]} : (!sojourn.ref<2x3xf32>) -> !sojourn.ref<2x3xf32>
  return
}

// -----

func.func @aten_mutates_range(%x: !sojourn.ref<2x3xf32>) {
  // expected-error@+1 {{'sojourn.aten' op mutates operand 1, found 1 operands}}
  sojourn.aten "aten.relu_"(%x) {args = [#sojourn.operand<0>], mutates = array<i64: 1>, names = ["self"]} : (!sojourn.ref<2x3xf32>) -> ()
  return
}

// -----

func.func @aten_mutates_twice(%x: !sojourn.ref<2x3xf32>) {
  // expected-error@+1 {{'sojourn.aten' op mutates operand 0 twice}}
  sojourn.aten "aten.relu_"(%x) {args = [#sojourn.operand<0>], mutates = array<i64: 0, 0>, names = ["self"]} : (!sojourn.ref<2x3xf32>) -> ()
  return
}

// -----

func.func @aten_mutates_value(%x: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.aten' op mutates operand 0 of type 'tensor<2xf32>', expected a !sojourn.ref}}
  sojourn.aten "aten.relu_"(%x) {args = [#sojourn.operand<0>], mutates = array<i64: 0>, names = ["self"]} : (tensor<2xf32>) -> ()
  return
}

// -----

func.func @view_outside(%x: !sojourn.ref<2x3xf32>) {
  // expected-error@+1 {{'sojourn.view' op result '!sojourn.ref<2x3xf32, strides = [3, 1], offset = 1>' reaches element 6 of a storage of 6 elements}}
  %y = sojourn.view %x : !sojourn.ref<2x3xf32> -> !sojourn.ref<2x3xf32, strides = [3, 1], offset = 1>
  return
}

// -----

func.func @view_of_view_outside(%x: !sojourn.ref<2x3xf32>) {
  %y = sojourn.view %x : !sojourn.ref<2x3xf32> -> !sojourn.ref<2x2xf32, strides = [3, 1], offset = 0>
  // expected-error@+1 {{'sojourn.view' op result '!sojourn.ref<7xf32>' reaches element 6 of a storage of 6 elements}}
  %z = sojourn.view %y : !sojourn.ref<2x2xf32, strides = [3, 1], offset = 0> -> !sojourn.ref<7xf32>
  return
}

// -----

func.func @moved_view_shape(%x: !sojourn.ref<2x3xf32>, %k: !sojourn.scalar<i64>) {
  // expected-error@+1 {{'sojourn.moved_view' op views '!sojourn.ref<2x3xf32>' as [2, 4], expected a root with as many elements}}
  %y = sojourn.moved_view %x at [%k], shape = [2, 4], dims = [0] : !sojourn.ref<2x3xf32>, !sojourn.scalar<i64> -> !sojourn.ref<3xf32>
  return
}

// -----

func.func @moved_view_crossing(%x: !sojourn.ref<2x3xf32>, %k: !sojourn.scalar<i64>) {
  // expected-error@+1 {{'sojourn.moved_view' op result '!sojourn.ref<4xf32>' is not a window whose dims follow those of [2, 3]}}
  %y = sojourn.moved_view %x at [%k], shape = [2, 3], dims = [0] : !sojourn.ref<2x3xf32>, !sojourn.scalar<i64> -> !sojourn.ref<4xf32>
  return
}

// -----

func.func @moved_view_begins(%x: !sojourn.ref<2x3xf32>, %k: !sojourn.scalar<i64>) {
  // expected-error@+1 {{'sojourn.moved_view' op dims are [0], expected strictly increasing dims of [2, 3] in which the result begins at 0}}
  %y = sojourn.moved_view %x at [%k], shape = [2, 3], dims = [0] : !sojourn.ref<2x3xf32>, !sojourn.scalar<i64> -> !sojourn.ref<3xf32, strides = [1], offset = 3>
  return
}

// -----

func.func @moved_view_places(%x: !sojourn.ref<2x3xf32>, %k: !sojourn.scalar<i64>) {
  // expected-error@+1 {{'sojourn.moved_view' op has 2 places and 1 dims, expected one each}}
  %y = sojourn.moved_view %x at [%k, %k], shape = [2, 3], dims = [0] : !sojourn.ref<2x3xf32>, !sojourn.scalar<i64>, !sojourn.scalar<i64> -> !sojourn.ref<3xf32>
  return
}

// -----

func.func @moved_view_element(%x: !sojourn.ref<2x3xf32>, %k: !sojourn.scalar<i64>) {
  // expected-error@+1 {{'sojourn.moved_view' op result has type '!sojourn.ref<3xi32>', expected the element type of '!sojourn.ref<2x3xf32>'}}
  %y = sojourn.moved_view %x at [%k], shape = [2, 3], dims = [0] : !sojourn.ref<2x3xf32>, !sojourn.scalar<i64> -> !sojourn.ref<3xi32>
  return
}

// -----

func.func @view_element(%x: !sojourn.ref<2x3xf32>) {
  // expected-error@+1 {{'sojourn.view' op result '!sojourn.ref<2x3xi64>' reaches element 5 of a storage of 3 elements}}
  %y = sojourn.view %x : !sojourn.ref<2x3xf32> -> !sojourn.ref<2x3xi64>
  return
}

// -----

func.func @alloc_type(%x: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.alloc' op found '!sojourn.ref<3xf32>' and 'tensor<2xf32>', expected one shape and element type}}
  %y = sojourn.alloc %x : tensor<2xf32> -> !sojourn.ref<3xf32>
  return
}

// -----

func.func @alloc_with_gaps(%x: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.alloc' op result has type '!sojourn.ref<2xf32, strides = [2], offset = 0>', expected a dense layout at offset 0}}
  %y = sojourn.alloc %x : tensor<2xf32> -> !sojourn.ref<2xf32, strides = [2], offset = 0>
  return
}

// -----

func.func @load_type(%x: !sojourn.ref<2x3xf32>) {
  // expected-error@+1 {{'sojourn.load' op found '!sojourn.ref<2x3xf32>' and 'tensor<3x2xf32>', expected one shape and element type}}
  %y = sojourn.load %x : !sojourn.ref<2x3xf32> -> tensor<3x2xf32>
  return
}

// -----

// expected-error@+1 {{!sojourn.ref has 1 strides, expected 2}}
func.func @ref_strides(%x: !sojourn.ref<2x3xf32, strides = [1]>) {
  return
}

// -----

// expected-error@+1 {{!sojourn.ref has a stride outside [0, 2^40]}}
func.func @ref_negative_stride(%x: !sojourn.ref<2xf32, strides = [-1]>) {
  return
}

// -----

// expected-error@+1 {{!sojourn.ref has offset -1, expected one in [0, 2^40]}}
func.func @ref_offset(%x: !sojourn.ref<2xf32, offset = -1>) {
  return
}

// -----

// expected-error@+1 {{!sojourn.ref of 'index', expected an element type of core form}}
func.func @ref_element(%x: !sojourn.ref<2xindex>) {
  return
}

// -----

// expected-error@+1 {{!sojourn.ref with a negative size or more than 2^40 elements}}
func.func @ref_too_large(%x: !sojourn.ref<1048576x1048577xf32>) {
  return
}

// -----

// expected-error@+1 {{expected static shape}}
func.func @ref_dynamic(%x: !sojourn.ref<?xf32>) {
  return
}

// -----

// expected-error@+1 {{!sojourn.scalar of 'f32', expected f64, i64 or i1}}
func.func @scalar_element(%x: !sojourn.scalar<f32>) {
  return
}

// -----

// expected-error@+1 {{!sojourn.table names column "a" twice}}
func.func @table_twice(%x: !sojourn.table<5, "a" : f64, "a" : f32>) {
  return
}

// -----

// expected-error@+1 {{!sojourn.table of -5 rows, expected a number in [0, 2^32]}}
func.func @table_rows(%x: !sojourn.table<-5, "a" : f64>) {
  return
}

// -----

// expected-error@+1 {{!sojourn.table of 4294967297 rows, expected a number in [0, 2^32]}}
func.func @table_of_too_many_rows(%x: !sojourn.table<4294967296, "a" : f64>, %y: !sojourn.table<4294967297, "a" : f64>) {
  return
}

// -----

// expected-error@+1 {{!sojourn.table column "a" has type 'tensor<3x0xf32>', expected an entry of 1 to 8 sizes of at least 1}}
func.func @table_empty_entry(%x: !sojourn.table<5, "a" : 3x0xf32>) {
  return
}

// -----

// expected-error@+1 {{!sojourn.table column "a" has type 'tensor<1x1x1x1x1x1x1x1x2xi1>', expected an entry of 1 to 8 sizes of at least 1}}
func.func @table_entry_rank(%x: !sojourn.table<5, "a" : 1x1x1x1x1x1x1x1x2xi1>) {
  return
}

// -----

// expected-error@+1 {{!sojourn.table column "a" has type 'tensor<4097x4096xui8>', expected an entry of at most 16777216 elements}}
func.func @table_entry_elements(%x: !sojourn.table<5, "a" : 4097x4096xui8>) {
  return
}

// -----

// expected-error@+1 {{!sojourn.table column "a" has type 'tensor<3xcomplex<f32>>', expected a real element}}
func.func @table_complex_entry(%x: !sojourn.table<5, "a" : 3xcomplex<f32>>) {
  return
}

// -----

// expected-error@+1 {{!sojourn.table column "a" has entries of 'index', expected a real element}}
func.func @table_entry_element(%x: !sojourn.table<5, "a" : 3xindex>) {
  return
}

// -----

// expected-error@+1 {{!sojourn.table column "a" has type 'tensor<f32>', expected an entry of 1 to 8 sizes of at least 1}}
func.func @table_rank_zero_entry(%x: !sojourn.table<5, "a" : tensor<f32>>) {
  return
}

// -----

// expected-error@+1 {{!sojourn.table column "a" has type 'complex<f32>', expected a real element}}
func.func @table_complex(%x: !sojourn.table<5, "a" : complex<f32>>) {
  return
}
