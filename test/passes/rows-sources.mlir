// SPDX-License-Identifier: Apache-2.0
// Where rows come from: row numbers, draws, tables. Two reads are of one draw exactly if they share row numbers.
// The second run knows no number of rows that a type does not say: UNKNOWN is of the tables at the end.
// RUN: sojourn-opt %s -split-input-file --sojourn-rows="bounds=a=-1:3,b=0:10,c=20:30,k=0:4 rows=8" --verify-diagnostics=only-expected
// RUN: sojourn-opt %s -split-input-file --sojourn-rows="bounds=a=-1:3,b=0:10,c=20:30,k=0:4" 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// The same numbers twice: one draw. Rows of [N, F] go column by column, so an element's slot changes every F elements;
// ranges are the hull of the columns and of the zeros that an absent row reads.
func.func @step(%t: !sojourn.table<4, "a": f64, "b": f64, "k": i64>) {
  // expected-remark@below {{public, in [0, 3]}}
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 2, in [-1, 10]}}
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"]
    : !sojourn.table<4, "a": f64, "b": f64, "k": i64>, tensor<4xi64> -> tensor<4x2xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 1, in [0, 4]}}
  %y = sojourn.read_rows %t, %i, columns = ["k"]
    : !sojourn.table<4, "a": f64, "b": f64, "k": i64>, tensor<4xi64> -> tensor<4xi64>
  return
}

// -----

// A shaped entry: its numbers belong to one slot.
func.func @step(%t: !sojourn.table<4, "image": 2x3xui8>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 6}}
  %x = sojourn.read_rows %t, %i, columns = ["image"]
    : !sojourn.table<4, "image": 2x3xui8>, tensor<4xi64> -> tensor<4x2x3xui8>
  return
}

// -----

// Two tables read at the same numbers: still one draw (of both tables), so features and labels may meet.
func.func @step(%t: !sojourn.table<4, "a": f64>, %u: !sojourn.table<4, "b": f64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<4, "a": f64>, tensor<4xi64> -> tensor<4xf64>
  %y = sojourn.read_rows %u, %i, columns = ["b"] : !sojourn.table<4, "b": f64>, tensor<4xi64> -> tensor<4xf64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 1, in [-1}}
  %z = sojourn.add %x, %y : tensor<4xf64>, tensor<4xf64>
  return
}

// -----

// A column without declared bounds: nothing is known of its range, which is no reason to refuse.
func.func @step(%t: !sojourn.table<4, "a": f64, "other": f64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  // expected-remark-re@below {{per row: draw 0, 4 slots, stride 2{{$}}}}
  %x = sojourn.read_rows %t, %i, columns = ["a", "other"]
    : !sojourn.table<4, "a": f64, "other": f64>, tensor<4xi64> -> tensor<4x2xf64>
  return
}

// -----

// Bounds hold for what is stored; what the result's type makes of it comes after. 10 in f32 is exact, 3 as i1 is true.
func.func @step(%t: !sojourn.table<4, "b": f64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<4xi64>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 1, in [0, 10]}}
  %x = sojourn.read_rows %t, %i, columns = ["b"] : !sojourn.table<4, "b": f64, "k": i64>, tensor<4xi64> -> tensor<4xf32>
  // expected-remark@below {{per row: draw 0, 4 slots, stride 1, in [0, 1]}}
  %y = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<4, "b": f64, "k": i64>, tensor<4xi64> -> tensor<4xi1>
  return
}

// -----

// The owner's draw: row numbers are per row (which row stands in a slot is secret), -1 where a slot stays empty. What is
// computed from rows of it, and from sums of them, is secret of it, too.
func.func @step(%seed: tensor<i64>, %epoch: tensor<i64>, %t: !sojourn.table<100, "a": f64>) {
  %p = sojourn.iota dim = 0 : tensor<24xi64>
  // expected-remark@below {{per row: draw 0, 24 slots, stride 1, in [-1, 99], no row twice, secret of draws 0}}
  %i = sojourn.sample_rows %p, %seed, %epoch of %t, expected = 8
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64> -> tensor<24xi64>
  // expected-remark-re@below {{per row: draw 0, 24 slots, stride 1, in [-1, 3], secret of draws 0{{$}}}}
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<24xi64> -> tensor<24xf64>
  // expected-remark-re@below {{sum over rows: cuts 0, one row moves it by 3, in [-24, 72], secret of draws 0{{$}}}}
  %s = sojourn.reduce_sum %x, dims = [0] : tensor<24xf64>
  // expected-remark@below {{derived from sums over rows: cuts 0, in [3.77513e-11, 1.85867e+31], secret of draws 0}}
  %e = sojourn.exp %s : tensor<f64>
  return
}

// -----

// A batch of a part: positions within the part are drawn, and then find rows in the order of the split. Numbers stay
// distinct, and the draw stays the first one.
func.func @step(%seed: tensor<i64>, %epoch: tensor<i64>, %t: !sojourn.table<100, "a": f64>) {
  %p = sojourn.iota dim = 0 : tensor<24xi64>
  // expected-remark@below {{per row: draw 0, 24 slots, stride 1, in [-1, 79]}}
  %within = sojourn.sample_rows %p, %seed, %epoch of %t, part = [other 0.2], expected = 8
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64> -> tensor<24xi64>
  // expected-remark@below {{per row: draw 0, 24 slots, stride 1, in [-1, 99]}}
  %i = sojourn.sample_rows %within, %seed, %epoch of %t, split = [other 0.2]
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64> -> tensor<24xi64>
  // expected-remark@below {{per row: draw 0, 24 slots, stride 1, in [-1, 3]}}
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<24xi64> -> tensor<24xf64>
  return
}

// -----

// A split of a split: 80 of 100 rows, and 20 of the 80, found in the 80 and then in the 100.
func.func @step(%seed: tensor<i64>, %epoch: tensor<i64>, %t: !sojourn.table<100, "a": f64>) {
  %p = sojourn.iota dim = 0 : tensor<24xi64>
  // expected-remark@below {{per row: draw 0, 24 slots, stride 1, in [-1, 19]}}
  %within = sojourn.sample_rows %p, %seed, %epoch of %t, part = [other 0.2, first 0.25], expected = 8
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64> -> tensor<24xi64>
  // expected-remark@below {{per row: draw 0, 24 slots, stride 1, in [-1, 79]}}
  %above = sojourn.sample_rows %within, %seed, %epoch of %t, split = [other 0.2, first 0.25]
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64> -> tensor<24xi64>
  // expected-remark@below {{per row: draw 0, 24 slots, stride 1, in [-1, 99]}}
  %i = sojourn.sample_rows %above, %seed, %epoch of %t, split = [other 0.2]
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64> -> tensor<24xi64>
  // expected-remark@below {{per row: draw 0, 24 slots, stride 1, in [-1, 3]}}
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<24xi64> -> tensor<24xf64>
  return
}

// -----

// Half of the positions lie outside of the side, which has 4 of 8 rows: as many are absent, so numbers are not distinct.
func.func @step(%seed: tensor<i64>, %epoch: tensor<i64>, %t: !sojourn.table<8, "a": f64>) {
  %p = sojourn.iota dim = 0 : tensor<8xi64>
  // expected-remark@below {{public, in [-1, 7], no row twice}}
  %i = sojourn.sample_rows %p, %seed, %epoch of %t, split = [first 0.5]
    : tensor<8xi64>, tensor<i64>, tensor<i64>, !sojourn.table<8, "a": f64> -> tensor<8xi64>
  return
}

// -----

// The batch, moved by the part's start and not by the split (absent ones stay absent): distinct numbers all the same.
func.func @step(%seed: tensor<i64>, %epoch: tensor<i64>, %t: !sojourn.table<100, "a": f64>) {
  %zero = sojourn.constant 0 : i64
  %offset = sojourn.constant 20 : i64
  %p = sojourn.iota dim = 0 : tensor<24xi64>
  %inner = sojourn.sample_rows %p, %seed, %epoch of %t, part = [other 0.2], expected = 8
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64> -> tensor<24xi64>
  %absent = sojourn.compare "lt" %inner, %zero : tensor<24xi64>, tensor<i64>
  %moved = sojourn.add %inner, %offset : tensor<24xi64>, tensor<i64>
  %within = sojourn.select %absent, %inner, %moved : tensor<24xi1>, tensor<24xi64>, tensor<24xi64>
  %i = sojourn.sample_rows %within, %seed, %epoch of %t
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64> -> tensor<24xi64>
  // expected-remark@below {{per row: draw 0, 24 slots, stride 1, in [-1, 3]}}
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<24xi64> -> tensor<24xf64>
  return
}

// -----

// A public order, and a part of it: a list of distinct rows that everyone knows.
func.func @step(%seed: tensor<i64>, %epoch: tensor<i64>, %t: !sojourn.table<100, "a": f64>) {
  %p = sojourn.iota dim = 0 : tensor<24xi64>
  %offset = sojourn.constant 48 : i64
  %positions = sojourn.add %p, %offset : tensor<24xi64>, tensor<i64>
  %i = sojourn.sample_rows %positions, %seed, %epoch of %t
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64> -> tensor<24xi64>
  // expected-remark@below {{per row: draw 0, 24 slots, stride 1, in [-1, 3]}}
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<24xi64> -> tensor<24xf64>
  %some = sojourn.slice %i, start = [4], limit = [24], stride = [2] : tensor<24xi64>
  // Another list of row numbers: another draw.
  // expected-remark@below {{per row: draw 1, 10 slots, stride 1, in [-1, 3]}}
  %y = sojourn.read_rows %t, %some, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<10xi64> -> tensor<10xf64>
  return
}

// -----

// More rows on average than there are, in the table and in a part of it.
func.func @step(%seed: tensor<i64>, %epoch: tensor<i64>, %t: !sojourn.table<8, "a": f64>) {
  %p = sojourn.iota dim = 0 : tensor<24xi64>
  // expected-remark@below {{mixed: expects a batch of 10 rows, but there are only 8}}
  %i = sojourn.sample_rows %p, %seed, %epoch of %t, expected = 10
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<8, "a": f64> -> tensor<24xi64>
  // expected-remark@below {{mixed: expects a batch of 8 rows, but there are only 4}}
  %j = sojourn.sample_rows %p, %seed, %epoch of %t, part = [other 0.5], expected = 8
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<8, "a": f64> -> tensor<24xi64>
  // expected-remark@below {{per row: draw 0, 24 slots, stride 1, in [-1, 7]}}
  %k = sojourn.sample_rows %p, %seed, %epoch of %t, expected = 8
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<8, "a": f64> -> tensor<24xi64>
  return
}

// -----

// Two draws of the owner in one step, of the same rows by the same positions, are two draws: coins differ.
func.func @step(%seed: tensor<i64>, %epoch: tensor<i64>, %t: !sojourn.table<100, "a": f64>) {
  %one = sojourn.constant 1 : i64
  %p = sojourn.iota dim = 0 : tensor<24xi64>
  %next = sojourn.add %epoch, %one : tensor<i64>, tensor<i64>
  %i = sojourn.sample_rows %p, %seed, %epoch of %t, expected = 8
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64> -> tensor<24xi64>
  %j = sojourn.sample_rows %p, %seed, %next of %t, expected = 8
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64> -> tensor<24xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<24xi64> -> tensor<24xf64>
  // expected-remark@below {{per row: draw 1, 24 slots}}
  %y = sojourn.read_rows %t, %j, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<24xi64> -> tensor<24xf64>
  // expected-remark@below {{mixed: operands hold different draws of rows}}
  %z = sojourn.add %x, %y : tensor<24xf64>, tensor<24xf64>
  return
}

// -----

// Row numbers that a client chose may name a row twice.
func.func @step(%i: tensor<4xi64>, %t: !sojourn.table<9, "a": f64>) {
  // expected-remark@below {{mixed: reads row numbers that were not drawn at the owner: a row may be read more than once}}
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<9, "a": f64>, tensor<4xi64> -> tensor<4xf64>
  return
}

// -----

// So may numbers that were computed: 0, 0, 1, 1, a repetition, and sums of two lists.
func.func @step(%t: !sojourn.table<9, "a": f64>) {
  %two = sojourn.constant 2 : i64
  %p = sojourn.iota dim = 0 : tensor<4xi64>
  %half = sojourn.div %p, %two : tensor<4xi64>, tensor<i64>
  %zeros = sojourn.sub %p, %p : tensor<4xi64>, tensor<4xi64>
  %back = sojourn.reverse %p, dims = [0] : tensor<4xi64>
  %sum = sojourn.add %p, %back : tensor<4xi64>, tensor<4xi64>
  %wide = sojourn.iota dim = 0 : tensor<4x2xi64>
  %twice = sojourn.reshape %wide : tensor<4x2xi64> -> tensor<8xi64>
  %narrow = sojourn.iota dim = 0 : tensor<4xi32>
  %cast = sojourn.convert %narrow : tensor<4xi32> -> tensor<4xi64>
  // expected-remark@below {{mixed: reads row numbers that were not drawn at the owner}}
  %a = sojourn.read_rows %t, %half, columns = ["a"] : !sojourn.table<9, "a": f64>, tensor<4xi64> -> tensor<4xf64>
  // expected-remark@below {{mixed: reads row numbers that were not drawn at the owner}}
  %b = sojourn.read_rows %t, %zeros, columns = ["a"] : !sojourn.table<9, "a": f64>, tensor<4xi64> -> tensor<4xf64>
  // expected-remark@below {{mixed: reads row numbers that were not drawn at the owner}}
  %c = sojourn.read_rows %t, %sum, columns = ["a"] : !sojourn.table<9, "a": f64>, tensor<4xi64> -> tensor<4xf64>
  // expected-remark@below {{mixed: reads row numbers that were not drawn at the owner}}
  %d = sojourn.read_rows %t, %twice, columns = ["a"] : !sojourn.table<9, "a": f64>, tensor<8xi64> -> tensor<8xf64>
  // Numbers of 32 bits would wrap for long lists.
  // expected-remark@below {{mixed: reads row numbers that were not drawn at the owner}}
  %e = sojourn.read_rows %t, %cast, columns = ["a"] : !sojourn.table<9, "a": f64>, tensor<4xi64> -> tensor<4xf64>
  return
}

// -----

// A shift that makes an absent row present: p + 1 of -1 is row 0, for every absent slot.
func.func @step(%seed: tensor<i64>, %epoch: tensor<i64>, %t: !sojourn.table<100, "a": f64>) {
  %one = sojourn.constant 1 : i64
  %p = sojourn.iota dim = 0 : tensor<24xi64>
  %i = sojourn.sample_rows %p, %seed, %epoch of %t, part = [first 0.99], expected = 8
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64> -> tensor<24xi64>
  %j = sojourn.add %i, %one : tensor<24xi64>, tensor<i64>
  // expected-remark@below {{mixed: reads row numbers that were not drawn at the owner}}
  %x = sojourn.read_rows %t, %j, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<24xi64> -> tensor<24xf64>
  return
}

// -----

// The same shift, guarded the wrong way round.
func.func @step(%seed: tensor<i64>, %epoch: tensor<i64>, %t: !sojourn.table<100, "a": f64>) {
  %zero = sojourn.constant 0 : i64
  %offset = sojourn.constant 20 : i64
  %p = sojourn.iota dim = 0 : tensor<24xi64>
  %i = sojourn.sample_rows %p, %seed, %epoch of %t, part = [other 0.2], expected = 8
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64> -> tensor<24xi64>
  %absent = sojourn.compare "ge" %i, %zero : tensor<24xi64>, tensor<i64>
  %moved = sojourn.add %i, %offset : tensor<24xi64>, tensor<i64>
  %j = sojourn.select %absent, %i, %moved : tensor<24xi1>, tensor<24xi64>, tensor<24xi64>
  // expected-remark@below {{mixed: reads row numbers that were not drawn at the owner}}
  %x = sojourn.read_rows %t, %j, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<24xi64> -> tensor<24xf64>
  return
}

// -----

// One row alone cannot hide in its batch; nor can a draw into one slot.
func.func @step(%seed: tensor<i64>, %epoch: tensor<i64>, %t: !sojourn.table<9, "a": f64>) {
  %one = sojourn.iota dim = 0 : tensor<1xi64>
  %none = sojourn.iota dim = 0 : tensor<0xi64>
  // expected-remark@below {{mixed: reads fewer than 2 rows: a row cannot be distinguished from its batch}}
  %x = sojourn.read_rows %t, %one, columns = ["a"] : !sojourn.table<9, "a": f64>, tensor<1xi64> -> tensor<1xf64>
  // expected-remark@below {{mixed: draws into fewer than 2 slots}}
  %i = sojourn.sample_rows %one, %seed, %epoch of %t, expected = 1
    : tensor<1xi64>, tensor<i64>, tensor<i64>, !sojourn.table<9, "a": f64> -> tensor<1xi64>
  // What has no element says nothing.
  // expected-remark@below {{public}}
  %y = sojourn.read_rows %t, %none, columns = ["a"] : !sojourn.table<9, "a": f64>, tensor<0xi64> -> tensor<0xf64>
  return
}

// -----

// Rows chosen by what was computed from rows: by a sum of them, by one of them.
func.func @step(%seed: tensor<i64>, %epoch: tensor<i64>, %t: !sojourn.table<9, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<9xi64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<9, "k": i64>, tensor<9xi64> -> tensor<9xi64>
  %sum = sojourn.reduce_sum %k, dims = [0] : tensor<9xi64>
  %j = sojourn.add %i, %sum : tensor<9xi64>, tensor<i64>
  // expected-remark@below {{mixed: chooses rows by a value that was computed from rows}}
  %x = sojourn.read_rows %t, %j, columns = ["k"] : !sojourn.table<9, "k": i64>, tensor<9xi64> -> tensor<9xi64>
  // expected-remark@below {{mixed: reads row numbers that were not drawn at the owner}}
  %y = sojourn.read_rows %t, %k, columns = ["k"] : !sojourn.table<9, "k": i64>, tensor<9xi64> -> tensor<9xi64>
  // expected-remark@below {{mixed: draws an order of rows with a seed or epoch that depends on rows}}
  %z = sojourn.sample_rows %i, %sum, %epoch of %t : tensor<9xi64>, tensor<i64>, tensor<i64>, !sojourn.table<9, "k": i64> -> tensor<9xi64>
  return
}

// -----

// Programs' own random numbers are public: the client may know their seed. A seed made from rows is derived.
func.func @step(%seed: tensor<i64>, %t: !sojourn.table<9, "k": i64>) {
  // expected-remark@below {{public, in [0, 4.29497e+09]}}
  %bits = sojourn.rng_bits %seed, stream = 0 : tensor<9xi64>
  // expected-remark@below {{public, in [0, 1]}}
  %u = sojourn.rng_uniform %seed, stream = 1 : tensor<9xf32>
  // expected-remark-re@below {{public{{$}}}}
  %z = sojourn.rng_normal %seed, stream = 2 : tensor<9xf32>
  // expected-remark@below {{public, in [2.5, 2.5]}}
  %c = sojourn.constant 2.5 : f32
  %i = sojourn.iota dim = 0 : tensor<9xi64>
  %k = sojourn.read_rows %t, %i, columns = ["k"] : !sojourn.table<9, "k": i64>, tensor<9xi64> -> tensor<9xi64>
  %sum = sojourn.reduce_sum %k, dims = [0] : tensor<9xi64>
  // expected-remark@below {{derived from sums over rows: cuts 0}}
  %v = sojourn.rng_uniform %sum, stream = 1 : tensor<9xf32>
  return
}

// -----

// The owner draws which rows stand in the slots; a client may put them into another order, but then there are two rows
// per slot and two slots per row. One list of numbers per draw is read.
func.func @step(%seed: tensor<i64>, %epoch: tensor<i64>, %t: !sojourn.table<100, "a": f64>) {
  %p = sojourn.iota dim = 0 : tensor<24xi64>
  %i = sojourn.sample_rows %p, %seed, %epoch of %t, expected = 8
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64> -> tensor<24xi64>
  %j = sojourn.sample_rows %i, %seed, %epoch of %t
    : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64> -> tensor<24xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<24xi64> -> tensor<24xf64>
  // expected-remark@below {{mixed: reads other rows into the slots of a draw: a row would be in several slots}}
  %y = sojourn.read_rows %t, %j, columns = ["a"] : !sojourn.table<100, "a": f64>, tensor<24xi64> -> tensor<24xf64>
  return
}

// -----

// A table whose number of rows is in no type: a draw has its population from whoever binds the table, or is refused. A
// public order needs none, and what it says of rows that are there then stays open.
// UNKNOWN: remark: mixed: draws rows of a table with an unknown number of rows
// UNKNOWN: remark: mixed: draws rows of a table with an unknown number of rows
// UNKNOWN: remark: public, in [-1,
// UNKNOWN: remark: per row: draw 0, 6 slots, stride 1, in [-1, 3]
// UNKNOWN: remark: per row: draw 1, 6 slots, stride 1, in [0, 30]
func.func @step(%seed: tensor<i64>, %t: !sojourn.table<?, "a": f64, "c": f64>) {
  %p = sojourn.iota dim = 0 : tensor<6xi64>
  // expected-remark@below {{per row: draw 0, 6 slots, stride 1, in [-1, 7]}}
  %i = sojourn.sample_rows %p, %seed, %seed of %t, expected = 2
    : tensor<6xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "a": f64, "c": f64> -> tensor<6xi64>
  // expected-remark@below {{per row: draw 1, 6 slots, stride 1, in [-1, 4]}}
  %j = sojourn.sample_rows %p, %seed, %seed of %t, part = [first 0.6], expected = 2
    : tensor<6xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "a": f64, "c": f64> -> tensor<6xi64>
  // expected-remark@below {{public, in [0, 7]}}
  %k = sojourn.sample_rows %p, %seed, %seed of %t
    : tensor<6xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "a": f64, "c": f64> -> tensor<6xi64>
  // expected-remark@below {{per row: draw 2, 6 slots, stride 1, in [-1, 3]}}
  %x = sojourn.read_rows %t, %k, columns = ["a"] : !sojourn.table<?, "a": f64, "c": f64>, tensor<6xi64> -> tensor<6xf64>
  // expected-remark@below {{per row: draw 3, 6 slots, stride 1, rows in [20, 30], in [0, 30]}}
  %y = sojourn.read_rows %t, %p, columns = ["c"] : !sojourn.table<?, "a": f64, "c": f64>, tensor<6xi64> -> tensor<6xf64>
  return
}
