// SPDX-License-Identifier: Apache-2.0
// What the verifiers of binary ops, comparison and choice refuse; each function is named after the rule it breaks.
// RUN: sojourn-opt %s -split-input-file -verify-diagnostics

func.func @add_of_bool(%a: tensor<2xi1>) {
  // expected-error@+1 {{'sojourn.add' op operand #0 must be a tensor of numbers (not i1) and static shape, but got 'tensor<2xi1>'}}
  %y = "sojourn.add"(%a, %a) : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

func.func @sub_of_bool(%a: tensor<2xi1>) {
  // expected-error@+1 {{'sojourn.sub' op operand #0 must be a tensor of numbers (not i1) and static shape, but got 'tensor<2xi1>'}}
  %y = "sojourn.sub"(%a, %a) : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

func.func @mul_of_bool(%a: tensor<2xi1>) {
  // expected-error@+1 {{'sojourn.mul' op operand #0 must be a tensor of numbers (not i1) and static shape, but got 'tensor<2xi1>'}}
  %y = "sojourn.mul"(%a, %a) : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

func.func @div_of_bool(%a: tensor<2xi1>) {
  // expected-error@+1 {{'sojourn.div' op operand #0 must be a tensor of numbers (not i1) and static shape, but got 'tensor<2xi1>'}}
  %y = "sojourn.div"(%a, %a) : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

func.func @rem_of_bool(%a: tensor<2xi1>) {
  // expected-error@+1 {{'sojourn.rem' op operand #0 must be a tensor of integers or floats and static shape, but got 'tensor<2xi1>'}}
  %y = "sojourn.rem"(%a, %a) : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

func.func @pow_of_bool(%a: tensor<2xi1>) {
  // expected-error@+1 {{'sojourn.pow' op operand #0 must be a tensor of numbers (not i1) and static shape, but got 'tensor<2xi1>'}}
  %y = "sojourn.pow"(%a, %a) : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

func.func @atan2_of_integers(%a: tensor<2xi32>) {
  // expected-error@+1 {{'sojourn.atan2' op operand #0 must be a float tensor of static shape, but got 'tensor<2xi32>'}}
  %y = "sojourn.atan2"(%a, %a) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @max_of_complex(%a: tensor<2xcomplex<f32>>) {
  // expected-error@+1 {{'sojourn.max' op operand #0 must be a tensor of i1, integers or floats and static shape, but got 'tensor<2xcomplex<f32>>'}}
  %y = "sojourn.max"(%a, %a) : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  return
}

// -----

func.func @min_of_complex(%a: tensor<2xcomplex<f32>>) {
  // expected-error@+1 {{'sojourn.min' op operand #0 must be a tensor of i1, integers or floats and static shape, but got 'tensor<2xcomplex<f32>>'}}
  %y = "sojourn.min"(%a, %a) : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  return
}

// -----

func.func @and_of_floats(%a: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.and' op operand #0 must be an i1 or integer tensor of static shape, but got 'tensor<2xf32>'}}
  %y = "sojourn.and"(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @or_of_floats(%a: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.or' op operand #0 must be an i1 or integer tensor of static shape, but got 'tensor<2xf32>'}}
  %y = "sojourn.or"(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @xor_of_floats(%a: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.xor' op operand #0 must be an i1 or integer tensor of static shape, but got 'tensor<2xf32>'}}
  %y = "sojourn.xor"(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @shl_of_floats(%a: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.shl' op operand #0 must be an integer tensor of static shape, but got 'tensor<2xf32>'}}
  %y = "sojourn.shl"(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @shr_of_floats(%a: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.shr' op operand #0 must be an integer tensor of static shape, but got 'tensor<2xf32>'}}
  %y = "sojourn.shr"(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @add_element_types(%a: tensor<2xf32>, %b: tensor<2xf64>) {
  // expected-error@+1 {{operand #1 has type 'tensor<2xf64>', expected element type 'f32'}}
  %y = sojourn.add %a, %b : tensor<2xf32>, tensor<2xf64>
  return
}

// -----

func.func @add_shapes(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  // expected-error@+1 {{operand #1 has type 'tensor<3xf32>', expected the shape of 'tensor<2x3xf32>' or rank 0}}
  %y = sojourn.add %a, %b : tensor<2x3xf32>, tensor<3xf32>
  return
}

// -----

func.func @add_result(%a: tensor<2xf32>) {
  // expected-error@+2 {{'sojourn.add' op inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<3xf32>'}}
  // expected-error@+1 {{'sojourn.add' op failed to infer returned types}}
  %y = "sojourn.add"(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @compare_predicate(%a: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.compare' op predicate is "lte", expected eq, ne, lt, le, gt or ge}}
  %y = sojourn.compare "lte" %a, %a : tensor<2xf32>, tensor<2xf32>
  return
}

// -----

func.func @compare_order_of_complex(%a: tensor<2xcomplex<f32>>) {
  // expected-error@+1 {{'sojourn.compare' op predicate is "lt", expected eq or ne for complex elements}}
  %y = sojourn.compare "lt" %a, %a : tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>
  return
}

// -----

func.func @compare_without_predicate(%a: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.compare' op requires attribute 'predicate'}}
  %y = "sojourn.compare"(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  return
}

// -----

func.func @compare_result(%a: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.compare' op result #0 must be an i1 tensor of static shape, but got 'tensor<2xf32>'}}
  %y = "sojourn.compare"(%a, %a) {predicate = "eq"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @select_predicate(%p: tensor<2xi8>, %a: tensor<2xf32>) {
  // expected-error@+1 {{'sojourn.select' op operand #0 must be an i1 tensor of static shape, but got 'tensor<2xi8>'}}
  %y = "sojourn.select"(%p, %a, %a) : (tensor<2xi8>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @select_element_types(%p: tensor<2xi1>, %a: tensor<2xf32>, %b: tensor<i32>) {
  // expected-error@+1 {{operand #2 has type 'tensor<i32>', expected element type 'f32'}}
  %y = sojourn.select %p, %a, %b : tensor<2xi1>, tensor<2xf32>, tensor<i32>
  return
}
