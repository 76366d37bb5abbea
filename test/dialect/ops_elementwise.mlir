// SPDX-License-Identifier: Apache-2.0
// The example of every elementwise op, word for word from its documentation, through text and through bytecode.
// RUN: sojourn-opt %s --verify-roundtrip | FileCheck %s
// RUN: sojourn-opt %s --emit-bytecode | sojourn-opt | FileCheck %s

// CHECK-LABEL: func @convert(
// CHECK: sojourn.convert{{[ "]}}
func.func @convert(%x: tensor<2x3xf32>) {
  %y = sojourn.convert %x : tensor<2x3xf32> -> tensor<2x3xi32>
  return
}

// CHECK-LABEL: func @bitcast(
// CHECK: sojourn.bitcast{{[ "]}}
func.func @bitcast(%x: tensor<2x3xf32>) {
  %y = sojourn.bitcast %x : tensor<2x3xf32> -> tensor<2x3xi32>
  return
}

// CHECK-LABEL: func @neg(
// CHECK: sojourn.neg{{[ "]}}
func.func @neg(%x: tensor<2x3xf32>) {
  %y = sojourn.neg %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @abs(
// CHECK: sojourn.abs{{[ "]}}
func.func @abs(%x: tensor<2x3xf32>) {
  %y = sojourn.abs %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @sign(
// CHECK: sojourn.sign{{[ "]}}
func.func @sign(%x: tensor<2x3xf32>) {
  %y = sojourn.sign %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @floor(
// CHECK: sojourn.floor{{[ "]}}
func.func @floor(%x: tensor<2x3xf32>) {
  %y = sojourn.floor %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @ceil(
// CHECK: sojourn.ceil{{[ "]}}
func.func @ceil(%x: tensor<2x3xf32>) {
  %y = sojourn.ceil %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @round(
// CHECK: sojourn.round{{[ "]}}
func.func @round(%x: tensor<2x3xf32>) {
  %y = sojourn.round %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @not(
// CHECK: sojourn.not{{[ "]}}
func.func @not(%x: tensor<2x3xi1>) {
  %y = sojourn.not %x : tensor<2x3xi1>
  return
}

// CHECK-LABEL: func @exp(
// CHECK: sojourn.exp{{[ "]}}
func.func @exp(%x: tensor<2x3xf32>) {
  %y = sojourn.exp %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @expm1(
// CHECK: sojourn.expm1{{[ "]}}
func.func @expm1(%x: tensor<2x3xf32>) {
  %y = sojourn.expm1 %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @log(
// CHECK: sojourn.log{{[ "]}}
func.func @log(%x: tensor<2x3xf32>) {
  %y = sojourn.log %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @log1p(
// CHECK: sojourn.log1p{{[ "]}}
func.func @log1p(%x: tensor<2x3xf32>) {
  %y = sojourn.log1p %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @sqrt(
// CHECK: sojourn.sqrt{{[ "]}}
func.func @sqrt(%x: tensor<2x3xf32>) {
  %y = sojourn.sqrt %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @sin(
// CHECK: sojourn.sin{{[ "]}}
func.func @sin(%x: tensor<2x3xf32>) {
  %y = sojourn.sin %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @cos(
// CHECK: sojourn.cos{{[ "]}}
func.func @cos(%x: tensor<2x3xf32>) {
  %y = sojourn.cos %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @tanh(
// CHECK: sojourn.tanh{{[ "]}}
func.func @tanh(%x: tensor<2x3xf32>) {
  %y = sojourn.tanh %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @logistic(
// CHECK: sojourn.logistic{{[ "]}}
func.func @logistic(%x: tensor<2x3xf32>) {
  %y = sojourn.logistic %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @erf(
// CHECK: sojourn.erf{{[ "]}}
func.func @erf(%x: tensor<2x3xf32>) {
  %y = sojourn.erf %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @erfc(
// CHECK: sojourn.erfc{{[ "]}}
func.func @erfc(%x: tensor<2x3xf32>) {
  %y = sojourn.erfc %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @erfinv(
// CHECK: sojourn.erfinv{{[ "]}}
func.func @erfinv(%x: tensor<2x3xf32>) {
  %y = sojourn.erfinv %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @lgamma(
// CHECK: sojourn.lgamma{{[ "]}}
func.func @lgamma(%x: tensor<2x3xf32>) {
  %y = sojourn.lgamma %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @digamma(
// CHECK: sojourn.digamma{{[ "]}}
func.func @digamma(%x: tensor<2x3xf32>) {
  %y = sojourn.digamma %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @special(
// CHECK: sojourn.special "bessel_j0"
func.func @special(%x: tensor<2x3xf32>) {
  %y = sojourn.special "bessel_j0" %x : tensor<2x3xf32>
  return
}

// CHECK-LABEL: func @special_binary(
// CHECK: sojourn.special_binary "zeta"
func.func @special_binary(%a: tensor<2x3xf32>, %b: tensor<f32>) {
  %y = sojourn.special_binary "zeta" %a, %b : tensor<2x3xf32>, tensor<f32>
  return
}

// CHECK-LABEL: func @add(
// CHECK: sojourn.add{{[ "]}}
func.func @add(%a: tensor<2x3xf32>, %b: tensor<f32>) {
  %y = sojourn.add %a, %b : tensor<2x3xf32>, tensor<f32>
  return
}

// CHECK-LABEL: func @sub(
// CHECK: sojourn.sub{{[ "]}}
func.func @sub(%a: tensor<2x3xf32>, %b: tensor<f32>) {
  %y = sojourn.sub %a, %b : tensor<2x3xf32>, tensor<f32>
  return
}

// CHECK-LABEL: func @mul(
// CHECK: sojourn.mul{{[ "]}}
func.func @mul(%a: tensor<2x3xf32>, %b: tensor<f32>) {
  %y = sojourn.mul %a, %b : tensor<2x3xf32>, tensor<f32>
  return
}

// CHECK-LABEL: func @div(
// CHECK: sojourn.div{{[ "]}}
func.func @div(%a: tensor<2x3xf32>, %b: tensor<f32>) {
  %y = sojourn.div %a, %b : tensor<2x3xf32>, tensor<f32>
  return
}

// CHECK-LABEL: func @rem(
// CHECK: sojourn.rem{{[ "]}}
func.func @rem(%a: tensor<2x3xf32>, %b: tensor<f32>) {
  %y = sojourn.rem %a, %b : tensor<2x3xf32>, tensor<f32>
  return
}

// CHECK-LABEL: func @pow(
// CHECK: sojourn.pow{{[ "]}}
func.func @pow(%a: tensor<2x3xf32>, %b: tensor<f32>) {
  %y = sojourn.pow %a, %b : tensor<2x3xf32>, tensor<f32>
  return
}

// CHECK-LABEL: func @atan2(
// CHECK: sojourn.atan2{{[ "]}}
func.func @atan2(%a: tensor<2x3xf32>, %b: tensor<f32>) {
  %y = sojourn.atan2 %a, %b : tensor<2x3xf32>, tensor<f32>
  return
}

// CHECK-LABEL: func @max(
// CHECK: sojourn.max{{[ "]}}
func.func @max(%a: tensor<2x3xf32>, %b: tensor<f32>) {
  %y = sojourn.max %a, %b : tensor<2x3xf32>, tensor<f32>
  return
}

// CHECK-LABEL: func @min(
// CHECK: sojourn.min{{[ "]}}
func.func @min(%a: tensor<2x3xf32>, %b: tensor<f32>) {
  %y = sojourn.min %a, %b : tensor<2x3xf32>, tensor<f32>
  return
}

// CHECK-LABEL: func @and(
// CHECK: sojourn.and{{[ "]}}
func.func @and(%a: tensor<2x3xi1>, %b: tensor<i1>) {
  %y = sojourn.and %a, %b : tensor<2x3xi1>, tensor<i1>
  return
}

// CHECK-LABEL: func @or(
// CHECK: sojourn.or{{[ "]}}
func.func @or(%a: tensor<2x3xi1>, %b: tensor<i1>) {
  %y = sojourn.or %a, %b : tensor<2x3xi1>, tensor<i1>
  return
}

// CHECK-LABEL: func @xor(
// CHECK: sojourn.xor{{[ "]}}
func.func @xor(%a: tensor<2x3xi1>, %b: tensor<i1>) {
  %y = sojourn.xor %a, %b : tensor<2x3xi1>, tensor<i1>
  return
}

// CHECK-LABEL: func @shl(
// CHECK: sojourn.shl{{[ "]}}
func.func @shl(%a: tensor<2x3xi32>, %b: tensor<i32>) {
  %y = sojourn.shl %a, %b : tensor<2x3xi32>, tensor<i32>
  return
}

// CHECK-LABEL: func @shr(
// CHECK: sojourn.shr{{[ "]}}
func.func @shr(%a: tensor<2x3xi32>, %b: tensor<i32>) {
  %y = sojourn.shr %a, %b : tensor<2x3xi32>, tensor<i32>
  return
}

// CHECK-LABEL: func @compare(
// CHECK: sojourn.compare{{[ "]}}
func.func @compare(%a: tensor<2x3xf32>, %b: tensor<f32>) {
  %p = sojourn.compare "lt" %a, %b : tensor<2x3xf32>, tensor<f32>
  return
}

// CHECK-LABEL: func @select(
// CHECK: sojourn.select{{[ "]}}
func.func @select(%pred: tensor<2x3xi1>, %a: tensor<2x3xf32>, %b: tensor<f32>) {
  %y = sojourn.select %pred, %a, %b : tensor<2x3xi1>, tensor<2x3xf32>, tensor<f32>
  return
}
