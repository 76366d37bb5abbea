// Factors that wait for an exchange go behind the sums that they scale, where that saves an exchange.
// RUN: sojourn-opt %s -split-input-file --sojourn-defer-scales | FileCheck %s

// The gradient of a mean over rows that have labels: rows are masked after they are divided, so a sum of none is zero.
// CHECK-LABEL: @step
// CHECK: %[[COUNT:.*]] = sojourn.reduce_sum %{{.*}}, dims = [0]
// CHECK: %[[EIGHT:.*]] = sojourn.constant 8.000000e+00 : f32
// CHECK: %[[FACTOR:.*]] = sojourn.div %[[EIGHT]], %[[COUNT]]
// CHECK: %[[NONE:.*]] = sojourn.compare "eq" %[[COUNT]]
// CHECK: %[[SAFE:.*]] = sojourn.select %[[NONE]], %{{.*}}, %[[FACTOR]]
// CHECK: %[[POWER:.*]] = sojourn.constant 8.000000e+00 : f32
// CHECK: %[[ROWS:.*]] = sojourn.div %{{.*}}, %[[POWER]]
// CHECK: sojourn.select %{{.*}}, %[[ROWS]], %{{.*}}
// CHECK: %[[SUM:.*]] = sojourn.dot
// CHECK: %[[WHOLE:.*]] = sojourn.mul %[[SUM]], %[[SAFE]]
// CHECK: return %[[WHOLE]]
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<5x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 3], stride = 3>},
    %y: tensor<5xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 3], stride = 1>})
    -> (tensor<3xf32> {sojourn.result = "keep"}) {
  %zero = sojourn.constant 0.0 : f32
  %has = sojourn.compare "ne" %y, %zero : tensor<5xf32>, tensor<f32>
  %ones = sojourn.convert %has : tensor<5xi1> -> tensor<5xf32>
  %count = sojourn.reduce_sum %ones, dims = [0] : tensor<5xf32>
  %scaled = sojourn.div %ones, %count : tensor<5xf32>, tensor<f32>
  %masked = sojourn.select %has, %scaled, %zero : tensor<5xi1>, tensor<5xf32>, tensor<f32>
  %g = sojourn.dot %masked, %x, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : tensor<5xf32>, tensor<5x3xf32> -> tensor<3xf32>
  return %g : tensor<3xf32>
}
}

// -----

// A constant by a number that is repeated along rows; rows that are kept get their factor, too.
// CHECK-LABEL: @step
// CHECK: %[[COUNT:.*]] = sojourn.reduce_sum %{{.*}}, dims = [0, 1]
// CHECK: %[[POWER:.*]] = sojourn.constant 1.600000e+01 : f64
// CHECK: %[[FACTOR:.*]] = sojourn.div %[[POWER]], %[[COUNT]]
// CHECK: %[[REST:.*]] = sojourn.constant 1.875000e-01 : f64
// CHECK: %[[ALL:.*]] = sojourn.broadcast %[[REST]]
// CHECK: %[[ROWS:.*]] = sojourn.mul %arg0, %[[ALL]]
// CHECK: %[[SUM:.*]] = sojourn.reduce_sum %[[ROWS]], dims = [0]
// CHECK: %[[WHOLE:.*]] = sojourn.mul %[[SUM]], %[[FACTOR]]
// CHECK: %[[KEPT:.*]] = sojourn.mul %[[ROWS]], %[[FACTOR]]
// CHECK: return %[[WHOLE]], %[[KEPT]]
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<5x3xf64> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 3], stride = 3>})
    -> (tensor<3xf64> {sojourn.result = "keep"}, tensor<5x3xf64> {sojourn.result = "keep"}) {
  %zero = sojourn.constant 0.0 : f64
  %three = sojourn.constant 3.0 : f64
  %is = sojourn.compare "gt" %x, %zero : tensor<5x3xf64>, tensor<f64>
  %ones = sojourn.convert %is : tensor<5x3xi1> -> tensor<5x3xf64>
  %count = sojourn.reduce_sum %ones, dims = [0, 1] : tensor<5x3xf64>
  %quotient = sojourn.div %three, %count : tensor<f64>, tensor<f64>
  %all = sojourn.broadcast %quotient, dims = [] : tensor<f64> -> tensor<5x3xf64>
  %scaled = sojourn.mul %x, %all : tensor<5x3xf64>, tensor<5x3xf64>
  %sum = sojourn.reduce_sum %scaled, dims = [0] : tensor<5x3xf64>
  return %sum, %scaled : tensor<3xf64>, tensor<5x3xf64>
}
}

// -----

// Numbers of unknown size: sums might leave the range that masks or floats have. So do products with a number of rows.
// CHECK-LABEL: @step
// CHECK: %[[TOTAL:.*]] = sojourn.reduce_sum %arg0, dims = [0, 1]
// CHECK: sojourn.div %arg0, %[[TOTAL]]
// CHECK: %[[COUNT:.*]] = sojourn.reduce_sum %{{.*}}, dims = [0, 1]
// CHECK: sojourn.mul %arg0, %[[COUNT]]
// CHECK: %[[QUOTIENT:.*]] = sojourn.div %[[TOTAL]], %[[COUNT]]
// CHECK: sojourn.mul %arg0, %[[QUOTIENT]]
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<5x3xf64> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 3], stride = 3>})
    -> (tensor<3xf64> {sojourn.result = "keep"}, tensor<3xf64> {sojourn.result = "keep"}, tensor<3xf64> {sojourn.result = "keep"}) {
  %zero = sojourn.constant 0.0 : f64
  %total = sojourn.reduce_sum %x, dims = [0, 1] : tensor<5x3xf64>
  %scaled = sojourn.div %x, %total : tensor<5x3xf64>, tensor<f64>
  %a = sojourn.reduce_sum %scaled, dims = [0] : tensor<5x3xf64>
  %is = sojourn.compare "gt" %x, %zero : tensor<5x3xf64>, tensor<f64>
  %ones = sojourn.convert %is : tensor<5x3xi1> -> tensor<5x3xf64>
  %count = sojourn.reduce_sum %ones, dims = [0, 1] : tensor<5x3xf64>
  %more = sojourn.mul %x, %count : tensor<5x3xf64>, tensor<f64>
  %b = sojourn.reduce_sum %more, dims = [0] : tensor<5x3xf64>
  %quotient = sojourn.div %total, %count : tensor<f64>, tensor<f64>
  %both = sojourn.mul %x, %quotient : tensor<5x3xf64>, tensor<f64>
  %c = sojourn.reduce_sum %both, dims = [0] : tensor<5x3xf64>
  return %a, %b, %c : tensor<3xf64>, tensor<3xf64>, tensor<3xf64>
}
}

// -----

// What is not linear in the factor, half-width floats, and a sum that waits for something else stay as they are.
// CHECK-LABEL: @step
// CHECK: %[[COUNT:.*]] = sojourn.reduce_sum %{{.*}}, dims = [0, 1]
// CHECK: %[[SCALED:.*]] = sojourn.div %arg0, %[[COUNT]]
// CHECK: sojourn.exp %[[SCALED]]
// CHECK: %[[HALF:.*]] = sojourn.reduce_sum %{{.*}}, dims = [0, 1]
// CHECK: sojourn.div %arg1, %[[HALF]]
// CHECK: %[[CENTRED:.*]] = sojourn.sub %arg0, %[[COUNT]]
// CHECK: sojourn.div %[[CENTRED]], %[[COUNT]]
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<5x3xf64> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 3], stride = 3>},
    %h: tensor<5x3xf16> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 3], stride = 3>})
    -> (tensor<3xf64> {sojourn.result = "keep"}, tensor<3xf16> {sojourn.result = "keep"}, tensor<3xf64> {sojourn.result = "keep"}) {
  %zero = sojourn.constant 0.0 : f64
  %is = sojourn.compare "gt" %x, %zero : tensor<5x3xf64>, tensor<f64>
  %ones = sojourn.convert %is : tensor<5x3xi1> -> tensor<5x3xf64>
  %total = sojourn.reduce_sum %ones, dims = [0, 1] : tensor<5x3xf64>
  %scaled = sojourn.div %x, %total : tensor<5x3xf64>, tensor<f64>
  %e = sojourn.exp %scaled : tensor<5x3xf64>
  %sum = sojourn.reduce_sum %e, dims = [0] : tensor<5x3xf64>
  %hzero = sojourn.constant 0.0 : f16
  %hs = sojourn.compare "gt" %h, %hzero : tensor<5x3xf16>, tensor<f16>
  %hones = sojourn.convert %hs : tensor<5x3xi1> -> tensor<5x3xf16>
  %half = sojourn.reduce_sum %hones, dims = [0, 1] : tensor<5x3xf16>
  %halves = sojourn.div %h, %half : tensor<5x3xf16>, tensor<f16>
  %halfsum = sojourn.reduce_sum %halves, dims = [0] : tensor<5x3xf16>
  %centred = sojourn.sub %x, %total : tensor<5x3xf64>, tensor<f64>
  %late = sojourn.div %centred, %total : tensor<5x3xf64>, tensor<f64>
  %latesum = sojourn.reduce_sum %late, dims = [0] : tensor<5x3xf64>
  return %sum, %halfsum, %latesum : tensor<3xf64>, tensor<3xf16>, tensor<3xf64>
}
}

// -----

// A constant whose product with a number of rows might overflow.
// CHECK-LABEL: @step
// CHECK: %[[COUNT:.*]] = sojourn.reduce_sum %{{.*}}, dims = [0, 1]
// CHECK: %[[QUOTIENT:.*]] = sojourn.div %{{.*}}, %[[COUNT]]
// CHECK: sojourn.mul %arg0, %[[QUOTIENT]]
module attributes {sojourn.parties = 2 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<5x3xf32> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1], rows = [2, 3], stride = 3>})
    -> (tensor<3xf32> {sojourn.result = "keep"}) {
  %zero = sojourn.constant 0.0 : f32
  %large = sojourn.constant 1.0e30 : f32
  %is = sojourn.compare "gt" %x, %zero : tensor<5x3xf32>, tensor<f32>
  %ones = sojourn.convert %is : tensor<5x3xi1> -> tensor<5x3xf32>
  %count = sojourn.reduce_sum %ones, dims = [0, 1] : tensor<5x3xf32>
  %quotient = sojourn.div %large, %count : tensor<f32>, tensor<f32>
  %scaled = sojourn.mul %x, %quotient : tensor<5x3xf32>, tensor<f32>
  %sum = sojourn.reduce_sum %scaled, dims = [0] : tensor<5x3xf32>
  return %sum : tensor<3xf32>
}
}

// -----

// A sum of values of two roles that goes on with a third one's stays whole, and so does what it waits for.
// CHECK-LABEL: @step
// CHECK: %[[TOTAL:.*]] = sojourn.reduce_sum %{{.*}}, dims = [0, 1]
// CHECK: sojourn.div %arg0, %[[TOTAL]]
// CHECK: %[[TWO:.*]] = sojourn.add
// CHECK: sojourn.add %[[TWO]]
module attributes {sojourn.parties = 3 : i64, sojourn.promotion = "torch"} {
func.func @step(%x: tensor<3x2xf64> {sojourn.kind = "state", sojourn.parts = #sojourn.parts<roles = [0, 1, 2], rows = [1, 1, 1], stride = 2>})
    -> (tensor<2xf64> {sojourn.result = "keep"}, tensor<1x2xf64> {sojourn.result = "keep"}) {
  %zero = sojourn.constant 0.0 : f64
  %is = sojourn.compare "gt" %x, %zero : tensor<3x2xf64>, tensor<f64>
  %ones = sojourn.convert %is : tensor<3x2xi1> -> tensor<3x2xf64>
  %total = sojourn.reduce_sum %ones, dims = [0, 1] : tensor<3x2xf64>
  %scaled = sojourn.div %x, %total : tensor<3x2xf64>, tensor<f64>
  %sum = sojourn.reduce_sum %scaled, dims = [0] : tensor<3x2xf64>
  %a = sojourn.slice %scaled, start = [0, 0], limit = [1, 2], stride = [1, 1] : tensor<3x2xf64>
  %b = sojourn.slice %scaled, start = [1, 0], limit = [2, 2], stride = [1, 1] : tensor<3x2xf64>
  %c = sojourn.slice %scaled, start = [2, 0], limit = [3, 2], stride = [1, 1] : tensor<3x2xf64>
  %two = sojourn.add %a, %b : tensor<1x2xf64>, tensor<1x2xf64>
  %three = sojourn.add %two, %c : tensor<1x2xf64>, tensor<1x2xf64>
  return %sum, %three : tensor<2xf64>, tensor<1x2xf64>
}
}

// -----

// A step of one owner.
// CHECK-LABEL: @step
// CHECK: %[[TOTAL:.*]] = sojourn.reduce_sum %{{.*}}, dims = [0, 1]
// CHECK: sojourn.div %arg0, %[[TOTAL]]
module attributes {sojourn.promotion = "torch"} {
func.func @step(%x: tensor<5x3xf64> {sojourn.kind = "state"}) -> (tensor<3xf64> {sojourn.result = "keep"}) {
  %zero = sojourn.constant 0.0 : f64
  %is = sojourn.compare "gt" %x, %zero : tensor<5x3xf64>, tensor<f64>
  %ones = sojourn.convert %is : tensor<5x3xi1> -> tensor<5x3xf64>
  %total = sojourn.reduce_sum %ones, dims = [0, 1] : tensor<5x3xf64>
  %scaled = sojourn.div %x, %total : tensor<5x3xf64>, tensor<f64>
  %sum = sojourn.reduce_sum %scaled, dims = [0] : tensor<5x3xf64>
  return %sum : tensor<3xf64>
}
}
