// SPDX-License-Identifier: Apache-2.0
// Where elements lie, and how many of a row are not zero: what bounds a statistic that nobody clips.
// RUN: sojourn-opt %s -split-input-file --sojourn-rows="bounds=a=-1:3,k=0:4,big=0:100,age=18:100" --verify-diagnostics=only-expected

// Clamping makes a range where none was declared, as a scientist bounds a program; NaN passes through max and min, so a
// column without bounds stays without them.
func.func @step(%t: !sojourn.table<8, "a": f64, "other": f64>) {
  %low = sojourn.constant 0.0 : f64
  %high = sojourn.constant 2.0 : f64
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<8, "a": f64, "other": f64>, tensor<8xi64> -> tensor<8xf64>
  %y = sojourn.read_rows %t, %i, columns = ["other"] : !sojourn.table<8, "a": f64, "other": f64>, tensor<8xi64> -> tensor<8xf64>
  %xl = sojourn.max %x, %low : tensor<8xf64>, tensor<f64>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 1, in [0, 2]}}
  %xc = sojourn.min %xl, %high : tensor<8xf64>, tensor<f64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 2, in [0, 16]}}
  %s = sojourn.reduce_sum %xc, dims = [0] : tensor<8xf64>
  %yl = sojourn.max %y, %low : tensor<8xf64>, tensor<f64>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 1, in [0, 2] or NaN}}
  %yc = sojourn.min %yl, %high : tensor<8xf64>, tensor<f64>
  // expected-remark-re@below {{sum over rows: cuts 1{{$}}}}
  %u = sojourn.reduce_sum %yc, dims = [0] : tensor<8xf64>
  return
}

// -----

// A square is not negative, a product of two different values may be.
func.func @step(%t: !sojourn.table<8, "a": f64>) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<8, "a": f64>, tensor<8xi64> -> tensor<8xf64>
  %y = sojourn.neg %x : tensor<8xf64>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 1, in [0, 9]}}
  %square = sojourn.mul %x, %x : tensor<8xf64>, tensor<8xf64>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 1, in [-9, 3]}}
  %product = sojourn.mul %x, %y : tensor<8xf64>, tensor<8xf64>
  // A divisor that may be zero bounds nothing.
  // expected-remark-re@below {{per row: draw 0, 8 slots, stride 1{{$}}}}
  %ratio = sojourn.div %x, %x : tensor<8xf64>, tensor<8xf64>
  // expected-remark-re@below {{per row: draw 0, 8 slots, stride 1{{$}}}}
  %root = sojourn.sqrt %x : tensor<8xf64>
  return
}

// -----

// Integers that may wrap are anything their type holds: 100 * 100 does not fit 8 bits.
func.func @step(%t: !sojourn.table<8, "big": i8>) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 1, in [0, 100]}}
  %x = sojourn.read_rows %t, %i, columns = ["big"] : !sojourn.table<8, "big": i8>, tensor<8xi64> -> tensor<8xi8>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 1, in [-128, 128]}}
  %wraps = sojourn.mul %x, %x : tensor<8xi8>, tensor<8xi8>
  %wide = sojourn.convert %x : tensor<8xi8> -> tensor<8xi32>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 1, in [0, 10000]}}
  %fits = sojourn.mul %wide, %wide : tensor<8xi32>, tensor<8xi32>
  return
}

// -----

// One-hot rows by comparison: one of 5 is set, so a row moves a histogram by 1 and not by sqrt(5) = 2.23607, or 5 in all;
// two columns of products, a crosstab, by 1 too.
func.func @step(%t: !sojourn.table<8, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<8, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %ramp = sojourn.iota dim = 1 : tensor<8x5xi64>
  %wide = sojourn.broadcast %k, dims = [0] : tensor<8xi64> -> tensor<8x5xi64>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 5, at most 1 not zero, in [0, 1]}}
  %hot = sojourn.compare "eq" %wide, %ramp : tensor<8x5xi64>, tensor<8x5xi64>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 5, at most 1 not zero, in [0, 1]}}
  %one = sojourn.convert %hot : tensor<8x5xi1> -> tensor<8x5xf64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 1, in [0, 8]}}
  %histogram = sojourn.reduce_sum %one, dims = [0] : tensor<8x5xf64>
  // expected-remark@below {{sum over rows: cuts 1, one row moves it by 1, in [0, 8]}}
  %crosstab = sojourn.dot %one, %one, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0]
    : tensor<8x5xf64>, tensor<8x5xf64> -> tensor<5x5xf64>
  // Two of a kind in a row: not one-hot, all 5 may hold.
  %less = sojourn.compare "le" %wide, %ramp : tensor<8x5xi64>, tensor<8x5xi64>
  %some = sojourn.convert %less : tensor<8x5xi1> -> tensor<8x5xf64>
  // expected-remark@below {{sum over rows: cuts 2, one row moves it by 2.23607 (sum 5, largest 1), in [0, 8]}}
  %cumulative = sojourn.reduce_sum %some, dims = [0] : tensor<8x5xf64>
  return
}

// -----

// What the comparison is with must not change along the classes: here every class may hold.
func.func @step(%t: !sojourn.table<8, "ks": 5xi64>) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %k = sojourn.read_rows %t, %i, columns = ["ks"] : !sojourn.table<8, "ks": 5xi64>, tensor<8xi64> -> tensor<8x5xi64>
  %ramp = sojourn.iota dim = 1 : tensor<8x5xi64>
  %hot = sojourn.compare "eq" %k, %ramp : tensor<8x5xi64>, tensor<8x5xi64>
  %one = sojourn.convert %hot : tensor<8x5xi1> -> tensor<8x5xf64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 2.23607 (sum 5, largest 1), in [0, 8]}}
  %histogram = sojourn.reduce_sum %one, dims = [0] : tensor<8x5xf64>
  return
}

// -----

// A ramp of 8 bits repeats itself after 256 classes, so more than one of them holds.
func.func @step(%t: !sojourn.table<8, "k": i8>) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<8, "k": i8>, tensor<8xi64> -> tensor<8xi8>
  %ramp = sojourn.iota dim = 1 : tensor<8x400xi8>
  %wide = sojourn.broadcast %k, dims = [0] : tensor<8xi8> -> tensor<8x400xi8>
  %hot = sojourn.compare "eq" %wide, %ramp : tensor<8x400xi8>, tensor<8x400xi8>
  %one = sojourn.convert %hot : tensor<8x400xi1> -> tensor<8x400xf64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 20 (sum 400, largest 1), in [0, 8]}}
  %histogram = sojourn.reduce_sum %one, dims = [0] : tensor<8x400xf64>
  return
}

// -----

// A mean per class: the value counts once, where its class is. An infinite factor would make 0 times infinity of zeros.
func.func @step(%w: tensor<8xf64>, %t: !sojourn.table<8, "k": i64, "a": f64>) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<8, "k": i64, "a": f64>, tensor<8xi64> -> tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<8, "k": i64, "a": f64>, tensor<8xi64> -> tensor<8xf64>
  %ramp = sojourn.iota dim = 0 : tensor<5xi64>
  %classes = sojourn.broadcast %ramp, dims = [1] : tensor<5xi64> -> tensor<8x5xi64>
  %wide = sojourn.broadcast %k, dims = [0] : tensor<8xi64> -> tensor<8x5xi64>
  %hot = sojourn.compare "eq" %wide, %classes : tensor<8x5xi64>, tensor<8x5xi64>
  %one = sojourn.convert %hot : tensor<8x5xi1> -> tensor<8x5xf64>
  %values = sojourn.broadcast %x, dims = [0] : tensor<8xf64> -> tensor<8x5xf64>
  %placed = sojourn.mul %one, %values : tensor<8x5xf64>, tensor<8x5xf64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 3, in}}
  %totals = sojourn.reduce_sum %placed, dims = [0] : tensor<8x5xf64>
  %zero = sojourn.constant 0.0 : f64
  %chosen = sojourn.select %hot, %values, %zero : tensor<8x5xi1>, tensor<8x5xf64>, tensor<f64>
  // expected-remark@below {{sum over rows: cuts 1, one row moves it by 3, in}}
  %same = sojourn.reduce_sum %chosen, dims = [0] : tensor<8x5xf64>
  %weights = sojourn.broadcast %w, dims = [0] : tensor<8xf64> -> tensor<8x5xf64>
  %weighted = sojourn.mul %one, %weights : tensor<8x5xf64>, tensor<8x5xf64>
  // expected-remark-re@below {{sum over rows: cuts 2{{$}}}}
  %unknown = sojourn.reduce_sum %weighted, dims = [0] : tensor<8x5xf64>
  // What is not 0 counts, NaN too.
  %flags = sojourn.convert %weighted : tensor<8x5xf64> -> tensor<8x5xi1>
  %counts = sojourn.convert %flags : tensor<8x5xi1> -> tensor<8x5xf64>
  // expected-remark@below {{sum over rows: cuts 3, one row moves it by 2.23607 (sum 5, largest 1), in [0, 8]}}
  %all = sojourn.reduce_sum %counts, dims = [0] : tensor<8x5xf64>
  return
}

// -----

// Values without elements, and with none along the rows' dim: public, and no cut is counted for them.
func.func @step(%t: !sojourn.table<8, "a": f64>) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<8, "a": f64>, tensor<8xi64> -> tensor<8x1xf64>
  // expected-remark@below {{public}}
  %none = sojourn.slice %x, start = [0, 0], limit = [8, 0], stride = [1, 1] : tensor<8x1xf64>
  // expected-remark@below {{public}}
  %sum = sojourn.reduce_sum %none, dims = [0] : tensor<8x0xf64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 3}}
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<8x1xf64>
  return
}

// -----

// A square of integers that wraps may be negative (12 * 12 is -112 in 8 bits), so its sign is no public matter.
func.func @step(%t: !sojourn.table<8, "big": i8>) {
  %zero = sojourn.constant 0 : i8
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["big"] : !sojourn.table<8, "big": i8>, tensor<8xi64> -> tensor<8xi8>
  %square = sojourn.mul %x, %x : tensor<8xi8>, tensor<8xi8>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 1, in [0, 1]}}
  %negative = sojourn.compare "lt" %square, %zero : tensor<8xi8>, tensor<i8>
  return
}

// -----

// One-hot rows by writing ones onto zeros, as torch makes them: one place per index. Onto other numbers, all may count.
func.func @step(%w: tensor<8x5xf64>, %t: !sojourn.table<8, "k": i64>) {
  %zero = sojourn.constant 0.0 : f64
  %one = sojourn.constant 1.0 : f64
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<8, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %places = sojourn.reshape %k : tensor<8xi64> -> tensor<8x1xi64>
  %zeros = sojourn.broadcast %zero, dims = [] : tensor<f64> -> tensor<8x5xf64>
  %ones = sojourn.broadcast %one, dims = [] : tensor<f64> -> tensor<8x1xf64>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 5, at most 1 not zero, in [0, 1]}}
  %hot = sojourn.put_along "set" %zeros, %places, %ones, dim = 1 : tensor<8x5xf64>, tensor<8x1xi64>, tensor<8x1xf64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 1, in [0, 8]}}
  %histogram = sojourn.reduce_sum %hot, dims = [0] : tensor<8x5xf64>
  %half = sojourn.constant 0.5 : f64
  %all = sojourn.broadcast %half, dims = [] : tensor<f64> -> tensor<8x5xf64>
  %cold = sojourn.put_along "set" %all, %places, %ones, dim = 1 : tensor<8x5xf64>, tensor<8x1xi64>, tensor<8x1xf64>
  // expected-remark@below {{sum over rows: cuts 1, one row moves it by 2.23607 (sum 5, largest 1), in [4, 8]}}
  %others = sojourn.reduce_sum %cold, dims = [0] : tensor<8x5xf64>
  return
}

// -----

// The least difference is that of the least and the greatest number.
func.func @step(%t: !sojourn.table<8, "a": f64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<8, "a": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<8, "a": f64, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %f = sojourn.convert %k : tensor<8xi64> -> tensor<8xf64>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 1, in [-5, 3]}}
  %difference = sojourn.sub %x, %f : tensor<8xf64>, tensor<8xf64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 5, in [-40, 24]}}
  %sum = sojourn.reduce_sum %difference, dims = [0] : tensor<8xf64>
  return
}

// -----

// A slot without a row reads 0, which lies below the bounds; sums that are released leave it out, so how far a row moves
// them follows from where the rows are: log(age) is at most 4.6, and 1 / age at most 1 / 18.
func.func @step(%t: !sojourn.table<8, "age": f64, "big": f64>) {
  %fifty = sojourn.constant 50.0 : f64
  %zero = sojourn.constant 0.0 : f64
  %one = sojourn.constant 1.0 : f64
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 1, rows in [18, 100], in [0, 100]}}
  %x = sojourn.read_rows %t, %i, columns = ["age"] : !sojourn.table<8, "age": f64, "big": f64>, tensor<8xi64> -> tensor<8xf64>
  // expected-remark-re@below {{per row: draw 0, 8 slots, stride 1, rows in [2.89037, 4.60517]{{$}}}}
  %log = sojourn.log %x : tensor<8xf64>
  // expected-remark-re@below {{sum over rows: cuts 0, one row moves it by 4.60517{{$}}}}
  %s = sojourn.reduce_sum %log, dims = [0] : tensor<8xf64>
  // expected-remark-re@below {{per row: draw 0, 8 slots, stride 1, rows in [0.01, 0.0555556]{{$}}}}
  %ratio = sojourn.div %one, %x : tensor<f64>, tensor<8xf64>
  // expected-remark-re@below {{sum over rows: cuts 1, one row moves it by 0.0555556{{$}}}}
  %u = sojourn.reduce_sum %ratio, dims = [0] : tensor<8xf64>
  // Bounds that hold 0: the logarithm of a row may be infinite. A mask that it is multiplied by does not take it away, since
  // 0 times infinity is NaN; one that selects does not help either while nothing is known of what it leaves.
  %y = sojourn.read_rows %t, %i, columns = ["big"] : !sojourn.table<8, "age": f64, "big": f64>, tensor<8xi64> -> tensor<8xf64>
  // expected-remark-re@below {{per row: draw 0, 8 slots, stride 1{{$}}}}
  %wild = sojourn.log %y : tensor<8xf64>
  %pred = sojourn.compare "gt" %y, %fifty : tensor<8xf64>, tensor<f64>
  %mask = sojourn.convert %pred : tensor<8xi1> -> tensor<8xf64>
  // expected-remark-re@below {{per row: draw 0, 8 slots, stride 1{{$}}}}
  %masked = sojourn.mul %wild, %mask : tensor<8xf64>, tensor<8xf64>
  // expected-remark-re@below {{sum over rows: cuts 2{{$}}}}
  %v = sojourn.reduce_sum %masked, dims = [0] : tensor<8xf64>
  // expected-remark-re@below {{per row: draw 0, 8 slots, stride 1{{$}}}}
  %chosen = sojourn.select %pred, %wild, %zero : tensor<8xi1>, tensor<8xf64>, tensor<f64>
  // expected-remark-re@below {{per row: draw 0, 8 slots, stride 1, rows in [0, 4.60517]{{$}}}}
  %part = sojourn.select %pred, %log, %zero : tensor<8xi1>, tensor<8xf64>, tensor<f64>
  return
}

// -----

// A number past the end is no row, and its slot counts: zeros are summed, and what is made of zeros.
func.func @step(%t: !sojourn.table<8, "age": f64, "big": f64>) {
  %i = sojourn.iota dim = 0 : tensor<9xi64>
  // expected-remark-re@below {{per row: draw 0, 9 slots, stride 1, in [0, 100]{{$}}}}
  %x = sojourn.read_rows %t, %i, columns = ["age"] : !sojourn.table<8, "age": f64, "big": f64>, tensor<9xi64> -> tensor<9xf64>
  // expected-remark-re@below {{per row: draw 0, 9 slots, stride 1{{$}}}}
  %log = sojourn.log %x : tensor<9xf64>
  return
}

// -----

// Row numbers of an epoch: of positions that all are rows each is one; of others some are missing. Those of a draw of
// a part are found in the table, or missing; those of the part itself are found in all of it.
func.func @step(%e: tensor<i64> {sojourn.kind = "seed"}, %t: !sojourn.table<8, "age": f64>) {
  %i = sojourn.iota dim = 0 : tensor<6xi64>
  // expected-remark@below {{public, in [0, 7]}}
  %all = sojourn.sample_rows %i, %e, %e of %t : tensor<6xi64>, tensor<i64>, tensor<i64>, !sojourn.table<8, "age": f64> -> tensor<6xi64>
  // expected-remark@below {{public, in [-1, 4]}}
  %some = sojourn.sample_rows %i, %e, %e of %t, part = [first 0.6] : tensor<6xi64>, tensor<i64>, tensor<i64>, !sojourn.table<8, "age": f64> -> tensor<6xi64>
  // expected-remark@below {{per row: draw 0, 6 slots, stride 1, in [-1, 4]}}
  %drawn = sojourn.sample_rows %i, %e, %e of %t, part = [first 0.6], expected = 2 : tensor<6xi64>, tensor<i64>, tensor<i64>, !sojourn.table<8, "age": f64> -> tensor<6xi64>
  // expected-remark@below {{per row: draw 0, 6 slots, stride 1, in [-1, 7]}}
  %found = sojourn.sample_rows %drawn, %e, %e of %t, split = [first 0.6] : tensor<6xi64>, tensor<i64>, tensor<i64>, !sojourn.table<8, "age": f64> -> tensor<6xi64>
  %j = sojourn.iota dim = 0 : tensor<5xi64>
  // expected-remark@below {{public, in [0, 7]}}
  %inside = sojourn.sample_rows %j, %e, %e of %t, split = [first 0.6] : tensor<5xi64>, tensor<i64>, tensor<i64>, !sojourn.table<8, "age": f64> -> tensor<5xi64>
  // expected-remark@below {{public, in [-1, 7]}}
  %beyond = sojourn.sample_rows %j, %e, %e of %t, split = [other 0.6] : tensor<5xi64>, tensor<i64>, tensor<i64>, !sojourn.table<8, "age": f64> -> tensor<5xi64>
  // expected-remark@below {{public, in [-1, -1]}}
  %none = sojourn.sample_rows %j, %e, %e of %t, part = [first 0.05] : tensor<5xi64>, tensor<i64>, tensor<i64>, !sojourn.table<8, "age": f64> -> tensor<5xi64>
  // expected-remark@below {{per row: draw 0, 6 slots, stride 1, rows in [18, 100], in [0, 100]}}
  %x = sojourn.read_rows %t, %found, columns = ["age"] : !sojourn.table<8, "age": f64>, tensor<6xi64> -> tensor<6xf64>
  return
}

// -----

// One sum that is added to each of several: a row moves every one of them by what it adds to it. 4 numbers of at most 3:
// 3 * 2 = 6, 12 in all; 100 added to each is 100 * 2 more, 400 in all.
func.func @step(%t: !sojourn.table<8, "a": f64, "big": f64>) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "a", "a", "a"] : !sojourn.table<8, "a": f64, "big": f64>, tensor<8xi64> -> tensor<8x4xf64>
  %y = sojourn.read_rows %t, %i, columns = ["big"] : !sojourn.table<8, "a": f64, "big": f64>, tensor<8xi64> -> tensor<8xf64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 6 (sum 12, largest 3), in [-8, 24]}}
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<8x4xf64>
  // expected-remark@below {{sum over rows: cuts 1, one row moves it by 100, in [0, 800]}}
  %u = sojourn.reduce_sum %y, dims = [0] : tensor<8xf64>
  // expected-remark@below {{sum over rows: cuts 0, 1, one row moves it by 206 (sum 412, largest 103), in [-8, 824]}}
  %v = sojourn.add %s, %u : tensor<4xf64>, tensor<f64>
  // expected-remark@below {{sum over rows: cuts 0, 1, one row moves it by 206 (sum 412, largest 103), in [-24, 808]}}
  %w = sojourn.sub %u, %s : tensor<f64>, tensor<4xf64>
  return
}

// -----

// An infinite end stays one: the magnitude of something that may overflow is not bounded by what it is compared with. A
// zero by its range alone is no zero to count from: here it is NaN.
func.func @step(%t: !sojourn.table<8, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<8, "k": i64>, tensor<8xi64> -> tensor<8xi64>
  %index = sojourn.reshape %k : tensor<8xi64> -> tensor<8x1xi64>
  %thousand = sojourn.constant 1.0e3 : f64
  %one = sojourn.constant 1.0 : f64
  %zero = sojourn.constant 0.0 : f64
  %r = sojourn.iota dim = 0 : tensor<2xf64>
  %x = sojourn.mul %r, %thousand : tensor<2xf64>, tensor<f64>
  %e = sojourn.exp %x : tensor<2xf64>
  // expected-remark-re@below {{public, in [1, inf]{{$}}}}
  %a = sojourn.abs %e : tensor<2xf64>
  // expected-remark-re@below {{public, in [-inf, -1]{{$}}}}
  %n = sojourn.neg %e : tensor<2xf64>
  // expected-remark-re@below {{public, in [1, inf]{{$}}}}
  %m = sojourn.max %one, %a : tensor<f64>, tensor<2xf64>
  // expected-remark-re@below {{public{{$}}}}
  %z = sojourn.mul %m, %zero : tensor<2xf64>, tensor<f64>
  %least = sojourn.min %r, %zero : tensor<2xf64>, tensor<f64>
  %none = sojourn.slice %least, start = [0], limit = [1], stride = [1] : tensor<2xf64>
  %flat = sojourn.reshape %none : tensor<1xf64> -> tensor<f64>
  %base = sojourn.broadcast %flat, dims = [] : tensor<f64> -> tensor<8x50xf64>
  %ones = sojourn.broadcast %one, dims = [] : tensor<f64> -> tensor<8x1xf64>
  %hot = sojourn.put_along "set" %base, %index, %ones, dim = 1 : tensor<8x50xf64>, tensor<8x1xi64>, tensor<8x1xf64>
  // The base lies in [0, 0] and yet counts as anything: 50 places of a row.
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 7.07107 (sum 50, largest 1), in [0, 8]}}
  %s = sojourn.reduce_sum %hot, dims = [0] : tensor<8x50xf64>
  %true = sojourn.broadcast %zero, dims = [] : tensor<f64> -> tensor<8x50xf64>
  %hot1 = sojourn.put_along "set" %true, %index, %ones, dim = 1 : tensor<8x50xf64>, tensor<8x1xi64>, tensor<8x1xf64>
  // expected-remark@below {{sum over rows: cuts 1, one row moves it by 1,}}
  %s1 = sojourn.reduce_sum %hot1, dims = [0] : tensor<8x50xf64>
  return
}

// -----

// Infinity times 0 bounds nothing, whatever is laid beside it.
func.func @step(%t: !sojourn.table<8, "far": f64>) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %far = sojourn.read_rows %t, %i, columns = ["far"] : !sojourn.table<8, "far": f64>, tensor<8xi64> -> tensor<8xf64>
  %zero = sojourn.constant 0.0 : f64
  %s = sojourn.reduce_sum %far, dims = [0] : tensor<8xf64>
  %z = sojourn.mul %s, %zero : tensor<f64>, tensor<f64>
  %one = sojourn.reshape %z : tensor<f64> -> tensor<1xf64>
  // expected-remark-re@below {{sum over rows: cuts 0{{$}}}}
  %both = sojourn.concat %one, %one dim = 0 : tensor<1xf64>, tensor<1xf64>
  return
}

// -----

// log1p of an amount from 0 to 100 is at most log(101), and expm1 of [-1, 3] lies between 1/e - 1 and e^3 - 1. At -1, log1p
// is infinite.
func.func @step(%t: !sojourn.table<8, "a": f64, "big": f64>) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["big"] : !sojourn.table<8, "a": f64, "big": f64>, tensor<8xi64> -> tensor<8xf64>
  %y = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<8, "a": f64, "big": f64>, tensor<8xi64> -> tensor<8xf64>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 1, in [0, 4.61512]}}
  %log = sojourn.log1p %x : tensor<8xf64>
  // expected-remark@below {{sum over rows: cuts 0, one row moves it by 4.61512, in [0, 36.921]}}
  %s = sojourn.reduce_sum %log, dims = [0] : tensor<8xf64>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 1, in [-0.632121, 19.0855]}}
  %exp = sojourn.expm1 %y : tensor<8xf64>
  // expected-remark-re@below {{per row: draw 0, 8 slots, stride 1{{$}}}}
  %wild = sojourn.log1p %y : tensor<8xf64>
  return
}

// -----

// Operands between 0 and the smallest normal number count as 0: runs on private rows flush them. So nothing is known of
// the logarithm of such a number, nor of a quotient by one.
func.func @step(%t: !sojourn.table<8, "a": f64>) {
  %least = sojourn.constant 1.0e-310 : f64
  %normal = sojourn.constant 1.0e-300 : f64
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<8, "a": f64>, tensor<8xi64> -> tensor<8xf64>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 1, in [0, 3]}}
  %denormal = sojourn.max %x, %least : tensor<8xf64>, tensor<f64>
  // expected-remark-re@below {{per row: draw 0, 8 slots, stride 1{{$}}}}
  %log = sojourn.log %denormal : tensor<8xf64>
  // expected-remark-re@below {{per row: draw 0, 8 slots, stride 1{{$}}}}
  %ratio = sojourn.div %normal, %denormal : tensor<f64>, tensor<8xf64>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 1, in [1e-300, 3]}}
  %positive = sojourn.max %x, %normal : tensor<8xf64>, tensor<f64>
  // expected-remark@below {{per row: draw 0, 8 slots, stride 1, in [-690.776, 1.09861]}}
  %bounded = sojourn.log %positive : tensor<8xf64>
  return
}
