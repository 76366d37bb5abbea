// SPDX-License-Identifier: Apache-2.0
// Statistics of centred values are computed from sums of what each row holds: noise is added to these alone.
// RUN: sojourn-opt %s -split-input-file --sojourn-make-private="bounds=a=-1:3,b=-1:3,c=10:30 stop-after=rewrite" | FileCheck %s
// RUN: sojourn-opt %s -split-input-file --sojourn-make-private="bounds=a=-1:3,b=-1:3,c=10:30" | FileCheck %s --check-prefix=CORE

// The variance of numbers in [-1, 3]: released are the sum of u = x - 1, in [-2, 2], and that of u * u - 2, in [-2, 2], each
// with noise for what a row adds to it; the sum of u is that of the mean, released once. The sum of squares is never
// negative.
// CHECK-LABEL: func.func @step
// CHECK:         %[[X:.*]] = sojourn.read_rows
// CHECK:         %[[MIDDLE:.*]] = sojourn.constant -1.0
// CHECK:         %[[MEAN:.*]] = sojourn.add %[[X]], %[[MIDDLE]]
// CHECK:         %[[U:.*]] = sojourn.add %[[X]], %
// CHECK:         %[[UU:.*]] = sojourn.mul %[[U]], %[[U]]
// CHECK:         %[[SQUARE:.*]] = sojourn.add %[[UU]], %
// CHECK:         %[[SUM:.*]] = sojourn.clipped_sum "none" rows %{{.*}}, bounds = [2.0{{.*}}], norm = 2(%[[MEAN]])
// CHECK:         sojourn.noise "gaussian"(%[[SUM]])
// CHECK:         %[[SQUARES:.*]] = sojourn.clipped_sum "none" rows %{{.*}}, bounds = [2.0{{.*}}], norm = 2(%[[SQUARE]])
// CHECK:         sojourn.noise "gaussian"(%[[SQUARES]])
// CHECK-NOT:     sojourn.reduce_sum
// CHECK:         sojourn.max
// CORE-LABEL: func.func @step
// CORE-SAME:    %{{.*}}: tensor<i64> {sojourn.kind = "coin"}, %{{.*}}: tensor<i64> {sojourn.kind = "coin"}
// CORE-NOT:     sojourn.clipped_sum
// CORE-NOT:     sojourn.noise
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<8, "a": f64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %n = sojourn.constant 8.0 : f64
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<8, "a": f64>, tensor<8xi64> -> tensor<8xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>
  %mean = sojourn.div %s, %n : tensor<f64>, tensor<f64>
  %c = sojourn.sub %x, %mean : tensor<8xf64>, tensor<f64>
  %square = sojourn.mul %c, %c : tensor<8xf64>, tensor<8xf64>
  %total = sojourn.reduce_sum %square, dims = [0] : tensor<8xf64>
  %variance = sojourn.div %total, %n : tensor<f64>, tensor<f64>
  return %variance : tensor<f64>
}
}

// -----

// A covariance of matrices in f32: the product of the matrices in f64 and the sum of x, nothing else of the rows. A row of
// two numbers in [-2, 2] moves their sums by 2 sqrt(2), and their products by 8.
// CHECK-LABEL: func.func @step
// CHECK:         %[[X:.*]] = sojourn.read_rows
// CHECK:         %[[WIDE:.*]] = sojourn.convert %[[X]] : tensor<8x2xf32> -> tensor<8x2xf64>
// CHECK:         sojourn.add %[[WIDE]], %
// CHECK:         sojourn.convert %[[X]] : tensor<8x2xf32> -> tensor<8x2xf64>
// CHECK:         %[[U:.*]] = sojourn.add %
// CHECK:         sojourn.clipped_sum "none" rows %{{.*}}, bounds = [2.8284{{.*}}], norm = 2
// CHECK:           sojourn.reduce_sum
// CHECK:         sojourn.noise
// CHECK:         sojourn.clipped_sum "none" rows %{{.*}}, bounds = [8.0{{.*}}], norm = 2(%[[U]])
// CHECK:           sojourn.dot
// CHECK:         sojourn.noise
// CHECK-NOT:     sojourn.dot
// CORE-LABEL: func.func @step
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<8, "a": f64, "b": f64> {sojourn.kind = "table"}) -> (tensor<2x2xf32> {sojourn.result = "publish"}) {
  %n = sojourn.constant 8.0 : f32
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !sojourn.table<8, "a": f64, "b": f64>, tensor<8xi64> -> tensor<8x2xf32>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<8x2xf32>
  %row = sojourn.reshape %s : tensor<2xf32> -> tensor<1x2xf32>
  %mean = sojourn.div %row, %n : tensor<1x2xf32>, tensor<f32>
  %wide = sojourn.broadcast %mean, dims = [0, 1] : tensor<1x2xf32> -> tensor<8x2xf32>
  %c = sojourn.sub %x, %wide : tensor<8x2xf32>, tensor<8x2xf32>
  %total = sojourn.dot %c, %c, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0]
    : tensor<8x2xf32>, tensor<8x2xf32> -> tensor<2x2xf32>
  return %total : tensor<2x2xf32>
}
}

// -----

// Skewness of standardised values: the deviation is made of sums too, and is taken out of the sum of cubes. Sums of x, of
// its squares and of its cubes are released.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-3: sojourn.noise "gaussian"
// CHECK-NOT:     sojourn.noise
// CORE-LABEL: func.func @step
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<8, "a": f64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %n = sojourn.constant 8.0 : f64
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<8, "a": f64>, tensor<8xi64> -> tensor<8xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>
  %mean = sojourn.div %s, %n : tensor<f64>, tensor<f64>
  %c = sojourn.sub %x, %mean : tensor<8xf64>, tensor<f64>
  %square = sojourn.mul %c, %c : tensor<8xf64>, tensor<8xf64>
  %total = sojourn.reduce_sum %square, dims = [0] : tensor<8xf64>
  %deviation = sojourn.sqrt %total : tensor<f64>
  %z = sojourn.div %c, %deviation : tensor<8xf64>, tensor<f64>
  %z2 = sojourn.mul %z, %z : tensor<8xf64>, tensor<8xf64>
  %z3 = sojourn.mul %z2, %z : tensor<8xf64>, tensor<8xf64>
  %skew = sojourn.reduce_sum %z3, dims = [0] : tensor<8xf64>
  return %skew : tensor<f64>
}
}

// -----

// The variance of a batch that the owner draws, 2 rows expected in 8 slots: n is 2, and what is divided by the slots is
// made good by 8 / 2, once in the mean and once in the variance.
// CHECK-LABEL: func.func @step
// CHECK:         %[[FIRST:.*]] = sojourn.constant 4.000000e+00 : f64
// CHECK:         %[[TWO:.*]] = sojourn.constant 2.000000e+00 : f64
// CHECK:         %[[SECOND:.*]] = sojourn.constant 4.000000e+00 : f64
// CHECK:         %[[N:.*]] = sojourn.noise "gaussian"
// CHECK:         %[[RAW:.*]] = sojourn.div %[[N]], %{{.*}} : tensor<f64>, tensor<f64>
// CHECK:         sojourn.mul %[[RAW]], %[[FIRST]]
// CHECK:         sojourn.mul %[[TWO]], %
// CHECK:         %[[LARGE:.*]] = sojourn.div %
// CHECK:         %[[VARIANCE:.*]] = sojourn.mul %[[LARGE]], %[[SECOND]]
// CHECK:         return %[[VARIANCE]]
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%e: tensor<i64> {sojourn.kind = "seed"}, %t: !sojourn.table<100, "a" : f64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %n = sojourn.constant 8.0 : f64
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %j = sojourn.sample_rows %i, %e, %e of %t, expected = 2 : tensor<8xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a" : f64> -> tensor<8xi64>
  %x = sojourn.read_rows %t, %j, columns = ["a"] : !sojourn.table<100, "a" : f64>, tensor<8xi64> -> tensor<8xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>
  %mean = sojourn.div %s, %n : tensor<f64>, tensor<f64>
  %c = sojourn.sub %x, %mean : tensor<8xf64>, tensor<f64>
  %square = sojourn.mul %c, %c : tensor<8xf64>, tensor<8xf64>
  %total = sojourn.reduce_sum %square, dims = [0] : tensor<8xf64>
  %variance = sojourn.div %total, %n : tensor<f64>, tensor<f64>
  return %variance : tensor<f64>
}
}

// -----

// Columns of bounds of their own stand each around its own middle: [-1, 3] around 1 and [10, 30] around 20. One noise
// serves both, so the narrow one is brought to the width of the other for it, and back.
// CHECK-LABEL: func.func @step
// CHECK:         sojourn.read_rows %{{.*}} columns = ["a"]
// CHECK:         sojourn.read_rows %{{.*}} columns = ["c"]
// CHECK:         %[[U:.*]] = sojourn.concat
// CHECK:         %[[MIDDLES:.*]] = sojourn.concat
// CHECK:         %[[SCALES:.*]] = sojourn.concat
// CHECK:         %[[TERM:.*]] = sojourn.mul %[[MIDDLES]], %
// CHECK:         sojourn.clipped_sum "none" rows %{{.*}}, bounds = [1.41421{{.*}}], norm = 2(%[[U]])
// CHECK:         %[[NOISED:.*]] = sojourn.noise
// CHECK:         %[[OWN:.*]] = sojourn.mul %[[NOISED]], %[[SCALES]]
// CHECK:         %[[SUM:.*]] = sojourn.add %[[OWN]], %[[TERM]]
// CHECK:         return %[[SUM]]
// CORE-LABEL: func.func @step
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<8, "a": f64, "c": f64> {sojourn.kind = "table"}) -> (tensor<2xf64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "c"] : !sojourn.table<8, "a": f64, "c": f64>, tensor<8xi64> -> tensor<8x2xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<8x2xf64>
  return %s : tensor<2xf64>
}
}

// -----

// Two sums that are added are one number still: their middles leave together.
// CHECK-LABEL: func.func @step
// CHECK:         sojourn.clipped_sum "none" rows %{{.*}}, bounds = [1.200000e+01], norm = 2
// CHECK:         sojourn.noise
// CHECK-NOT:     sojourn.noise
// CORE-LABEL: func.func @step
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<8, "a": f64, "c": f64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<8, "a": f64, "c": f64>, tensor<8xi64> -> tensor<8xf64>
  %y = sojourn.read_rows %t, %i, columns = ["c"] : !sojourn.table<8, "a": f64, "c": f64>, tensor<8xi64> -> tensor<8xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>
  %u = sojourn.reduce_sum %y, dims = [0] : tensor<8xf64>
  %both = sojourn.add %s, %u : tensor<f64>, tensor<f64>
  return %both : tensor<f64>
}
}

// -----

// Where one more sum would have to be released, values stay where they are: the shares c_i / sum(c) of a weighted mean need
// sums of c and of c * a, and none of a.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-2: sojourn.noise "gaussian"
// CHECK-NOT:     sojourn.noise
// CORE-LABEL: func.func @step
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !sojourn.table<8, "a": f64, "c": f64> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<8, "a": f64, "c": f64>, tensor<8xi64> -> tensor<8xf64>
  %y = sojourn.read_rows %t, %i, columns = ["c"] : !sojourn.table<8, "a": f64, "c": f64>, tensor<8xi64> -> tensor<8xf64>
  %s = sojourn.reduce_sum %y, dims = [0] : tensor<8xf64>
  %share = sojourn.div %y, %s : tensor<8xf64>, tensor<f64>
  %part = sojourn.mul %share, %x : tensor<8xf64>, tensor<8xf64>
  %mean = sojourn.reduce_sum %part, dims = [0] : tensor<8xf64>
  return %mean : tensor<f64>
}
}

// -----

// How many rows a draw holds is secret: its sums stay around 0. A list in which a row may be missing is no whole number of
// rows either.
// CHECK-LABEL: func.func @step
// CHECK:         sojourn.clipped_sum "none" rows %{{.*}}, bounds = [3.000000e+01], norm = 2
// CHECK:         sojourn.clipped_sum "none" rows %{{.*}}, bounds = [3.000000e+01], norm = 2
// CORE-LABEL: func.func @step
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%e: tensor<i64> {sojourn.kind = "seed"}, %t: !sojourn.table<8, "c": f64> {sojourn.kind = "table"})
    -> (tensor<f64> {sojourn.result = "publish"}, tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<6xi64>
  %j = sojourn.sample_rows %i, %e, %e of %t, expected = 2 : tensor<6xi64>, tensor<i64>, tensor<i64>, !sojourn.table<8, "c": f64> -> tensor<6xi64>
  %k = sojourn.sample_rows %i, %e, %e of %t, part = [first 0.6] : tensor<6xi64>, tensor<i64>, tensor<i64>, !sojourn.table<8, "c": f64> -> tensor<6xi64>
  %x = sojourn.read_rows %t, %j, columns = ["c"] : !sojourn.table<8, "c": f64>, tensor<6xi64> -> tensor<6xf64>
  %y = sojourn.read_rows %t, %k, columns = ["c"] : !sojourn.table<8, "c": f64>, tensor<6xi64> -> tensor<6xf64>
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<6xf64>
  %u = sojourn.reduce_sum %y, dims = [0] : tensor<6xf64>
  return %s, %u : tensor<f64>, tensor<f64>
}
}
