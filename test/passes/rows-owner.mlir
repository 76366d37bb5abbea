// SPDX-License-Identifier: Apache-2.0
// The proof of what an owner put into a program: what a clipped sum and its noise have to be, to make a value public.
// RUN: sojourn-opt %s -split-input-file --sojourn-rows="bounds=a=-1:3,k=0:4" --verify-diagnostics=only-expected

// A clipped sum is a sum without cuts of its own, for its definition is the proof; noise makes it public.
func.func @step(%t: !sojourn.table<100, "a": f64, "k": i64>, %c: tensor<i64> {sojourn.kind = "coin"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  // expected-remark@below {{sum over rows: cuts }}
  %s = sojourn.clipped_sum "flat" rows %i, bounds = [1.0], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    sojourn.yield %a : tensor<f64>
  }
  // expected-remark@below {{public}}
  %n = sojourn.noise "gaussian" (%s) coins (%c), exponent = -20, scale = 1048577 : (tensor<f64>), (tensor<i64>) -> (tensor<f64>)
  return
}

// -----

// What is clipped may be anything per row: no range is known of it.
func.func @step(%t: !sojourn.table<100, "a": f64, "k": i64>, %c: tensor<i64> {sojourn.kind = "coin"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %e = sojourn.exp %x : tensor<8xf64>
  // expected-remark@below {{sum over rows: cuts }}
  %s = sojourn.clipped_sum "flat" rows %i, bounds = [1.0], norm = 2 (%e) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    sojourn.yield %a : tensor<f64>
  }
  // expected-remark@below {{public}}
  %n = sojourn.noise "gaussian" (%s) coins (%c), exponent = -20, scale = 1048577 : (tensor<f64>), (tensor<i64>) -> (tensor<f64>)
  return
}

// -----

// Not clipped, the bound has to follow from ranges: a little more than 3 does (bounds are rounded up), 2.9 does not.
func.func @step(%t: !sojourn.table<100, "a": f64, "k": i64>, %c: tensor<i64> {sojourn.kind = "coin"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  // expected-remark@below {{sum over rows: cuts }}
  %s = sojourn.clipped_sum "none" rows %i, bounds = [3.001], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    sojourn.yield %a : tensor<f64>
  }
  // expected-remark@below {{public}}
  %n = sojourn.noise "gaussian" (%s) coins (%c), exponent = -20, scale = 1048577 : (tensor<f64>), (tensor<i64>) -> (tensor<f64>)
  // expected-remark@below {{mixed: is not clipped, and a row's norm is only proved to be at most 3}}
  %u = sojourn.clipped_sum "none" rows %i, bounds = [2.9], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    sojourn.yield %a : tensor<f64>
  }
  return
}

// -----

// Gaussian noise goes with the Euclidean norm; Laplace noise with the sum of magnitudes, or the most that it can be.
func.func @step(%t: !sojourn.table<100, "a": f64, "k": i64>, %c: tensor<i64> {sojourn.kind = "coin"}, %d: tensor<i64> {sojourn.kind = "coin"}, %e: tensor<i64> {sojourn.kind = "coin"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %s = sojourn.clipped_sum "none" rows %i, bounds = [3.001], norm = 1 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    sojourn.yield %a : tensor<f64>
  }
  // expected-remark@below {{public}}
  %n = sojourn.noise "laplace" (%s) coins (%c), exponent = -20, scale = 1048577 : (tensor<f64>), (tensor<i64>) -> (tensor<f64>)
  %u = sojourn.clipped_sum "none" rows %i, bounds = [3.001], norm = 1 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    sojourn.yield %a : tensor<f64>
  }
  // expected-remark@below {{mixed: its distribution does not match the bounded norm}}
  %m = sojourn.noise "gaussian" (%u) coins (%d), exponent = -20, scale = 1048577 : (tensor<f64>), (tensor<i64>) -> (tensor<f64>)
  %v = sojourn.clipped_sum "flat" rows %i, bounds = [1.0], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    sojourn.yield %a : tensor<f64>
  }
  // expected-remark@below {{public}}
  %o = sojourn.noise "laplace" (%v) coins (%e), exponent = -20, scale = 1048577 : (tensor<f64>), (tensor<i64>) -> (tensor<f64>)
  return
}

// -----

// Coins are the owner's: an upload is none, and a coin serves once.
func.func @step(%upload: tensor<i64>, %t: !sojourn.table<100, "a": f64, "k": i64>, %c: tensor<i64> {sojourn.kind = "coin"}, %d: tensor<i64> {sojourn.kind = "coin"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %s = sojourn.clipped_sum "flat" rows %i, bounds = [1.0], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    sojourn.yield %a : tensor<f64>
  }
  // expected-remark@below {{mixed: takes its noise from values other than fresh coins}}
  %n = sojourn.noise "gaussian" (%s) coins (%upload), exponent = -20, scale = 1048577 : (tensor<f64>), (tensor<i64>) -> (tensor<f64>)
  %u = sojourn.clipped_sum "flat" rows %i, bounds = [1.0], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    sojourn.yield %a : tensor<f64>
  }
  // expected-remark@below {{mixed: takes its noise from values other than fresh coins}}
  %m = sojourn.noise "gaussian" (%u) coins (%c), exponent = -20, scale = 1048577 : (tensor<f64>), (tensor<i64>) -> (tensor<f64>)
  %v = sojourn.clipped_sum "flat" rows %i, bounds = [1.0], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    sojourn.yield %a : tensor<f64>
  }
  // expected-remark@below {{mixed: takes its noise from values other than fresh coins}}
  %o = sojourn.noise "gaussian" (%v) coins (%c), exponent = -20, scale = 1048577 : (tensor<f64>), (tensor<i64>) -> (tensor<f64>)
  %two = sojourn.add %d, %d : tensor<i64>, tensor<i64>
  %w = sojourn.clipped_sum "flat" rows %i, bounds = [1.0], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    sojourn.yield %a : tensor<f64>
  }
  // expected-remark@below {{mixed: takes its noise from values other than fresh coins}}
  %p = sojourn.noise "gaussian" (%w) coins (%two), exponent = -20, scale = 1048577 : (tensor<f64>), (tensor<i64>) -> (tensor<f64>)
  return
}

// -----

// A sum that is used without noise, too; that is noised twice; noise on what is no clipped sum.
func.func @step(%t: !sojourn.table<100, "a": f64, "k": i64>, %c: tensor<i64> {sojourn.kind = "coin"}, %d: tensor<i64> {sojourn.kind = "coin"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %s = sojourn.clipped_sum "flat" rows %i, bounds = [1.0], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    sojourn.yield %a : tensor<f64>
  }
  // expected-remark@below {{mixed: adds noise to a sum that is used without noise, too}}
  %n = sojourn.noise "gaussian" (%s) coins (%c), exponent = -20, scale = 1048577 : (tensor<f64>), (tensor<i64>) -> (tensor<f64>)
  %copy = sojourn.neg %s : tensor<f64>
  %plain = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>
  // expected-remark@below {{mixed: adds noise to a value that is not a clipped sum}}
  %m = sojourn.noise "gaussian" (%plain) coins (%d), exponent = -20, scale = 1048577 : (tensor<f64>), (tensor<i64>) -> (tensor<f64>)
  return
}

// -----

// All results of a clipped sum are one release: not a part of them, not in another order.
func.func @step(%t: !sojourn.table<100, "a": f64, "k": i64>, %c: tensor<i64> {sojourn.kind = "coin"}, %d: tensor<i64> {sojourn.kind = "coin"}, %e: tensor<i64> {sojourn.kind = "coin"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %s:2 = sojourn.clipped_sum "flat" rows %i, bounds = [1.0], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> (tensor<f64>, tensor<f64>) {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    %q = sojourn.mul %x0, %x0 : tensor<8xf64>, tensor<8xf64>
    %b = sojourn.reduce_sum %q, dims = [0] : tensor<8xf64>
    sojourn.yield %a, %b : tensor<f64>, tensor<f64>
  }
  // expected-remark@below {{mixed: adds noise to a part of a clipped sum}}
  %n = sojourn.noise "gaussian" (%s#0) coins (%c), exponent = -20, scale = 1048577 : (tensor<f64>), (tensor<i64>) -> (tensor<f64>)
  %u:2 = sojourn.clipped_sum "flat" rows %i, bounds = [1.0], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> (tensor<f64>, tensor<f64>) {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    %q = sojourn.mul %x0, %x0 : tensor<8xf64>, tensor<8xf64>
    %b = sojourn.reduce_sum %q, dims = [0] : tensor<8xf64>
    sojourn.yield %a, %b : tensor<f64>, tensor<f64>
  }
  // expected-remark@below {{mixed: adds noise to a sum that is used without noise, too}}
  %m:2 = sojourn.noise "gaussian" (%u#1, %u#0) coins (%d, %e), exponent = -20, scale = 1048577 : (tensor<f64>, tensor<f64>), (tensor<i64>, tensor<i64>) -> (tensor<f64>, tensor<f64>)
  return
}

// -----

// The region yields linear functions of sums: neither the square of one, nor values per row, nor what mixes rows.
func.func @step(%t: !sojourn.table<100, "a": f64, "k": i64>, %c: tensor<i64> {sojourn.kind = "coin"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  // expected-remark@below {{mixed: yields a value that is not linear in sums over rows}}
  %s = sojourn.clipped_sum "flat" rows %i, bounds = [1.0], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    %b = sojourn.mul %a, %a : tensor<f64>, tensor<f64>
    sojourn.yield %b : tensor<f64>
  }
  // expected-remark@below {{mixed: yields a value that is not linear in sums over rows}}
  %u = sojourn.clipped_sum "flat" rows %i, bounds = [1.0], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<8xf64> {
  ^bb0(%x0: tensor<8xf64>):
    sojourn.yield %x0 : tensor<8xf64>
  }
  // expected-remark@below {{mixed: is taken over rows}}
  %v = sojourn.clipped_sum "flat" rows %i, bounds = [1.0], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_max %x0, dims = [0] : tensor<8xf64>
    sojourn.yield %a : tensor<f64>
  }
  return
}

// -----

// Slots have to be the draw that is summed: not another list, not uploaded numbers, not a part of it.
func.func @step(%upload: tensor<8xi64>, %t: !sojourn.table<100, "a": f64, "k": i64>, %c: tensor<i64> {sojourn.kind = "coin"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %all = sojourn.iota dim = 0 : tensor<16xi64>
  %j = sojourn.slice %all, start = [8], limit = [16], stride = [1] : tensor<16xi64>
  // expected-remark@below {{mixed: sums over another draw of rows}}
  %s = sojourn.clipped_sum "flat" rows %j, bounds = [1.0], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    sojourn.yield %a : tensor<f64>
  }
  // expected-remark@below {{mixed: its slots are not a draw of rows}}
  %u = sojourn.clipped_sum "flat" rows %upload, bounds = [1.0], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    sojourn.yield %a : tensor<f64>
  }
  return
}

// -----

// Of a part of a table: rows are read at numbers that follow from those of the draw. A row that is gone is missing in what
// was read, so these are the slots, and not the draw's own numbers.
func.func @step(%e: tensor<i64> {sojourn.kind = "seed"}, %t: !sojourn.table<100, "a": f64, "k": i64>) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %j = sojourn.sample_rows %i, %e, %e of %t, part = [first 0.8], expected = 2 : tensor<8xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64, "k": i64> -> tensor<8xi64>
  %k = sojourn.sample_rows %j, %e, %e of %t, split = [first 0.8] : tensor<8xi64>, tensor<i64>, tensor<i64>, !sojourn.table<100, "a": f64, "k": i64> -> tensor<8xi64>
  %x = sojourn.read_rows %t, %k, columns = ["a"] : !sojourn.table<100, "a": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  // expected-remark@below {{sum over rows: cuts }}
  %s = sojourn.clipped_sum "flat" rows %k, bounds = [1.0], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    sojourn.yield %a : tensor<f64>
  }
  // expected-remark@below {{mixed: its slots differ from the numbers at which its rows were read}}
  %u = sojourn.clipped_sum "flat" rows %j, bounds = [1.0], norm = 2 (%x) : tensor<8xi64>, (tensor<8xf64>) -> tensor<f64> {
  ^bb0(%x0: tensor<8xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8xf64>
    sojourn.yield %a : tensor<f64>
  }
  return
}

// -----

// A value that was summed already does not go in: its rows would not be seen.
func.func @step(%t: !sojourn.table<100, "a": f64, "k": i64>, %c: tensor<i64> {sojourn.kind = "coin"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a"] : !sojourn.table<100, "a": f64, "k": i64>, tensor<8xi64> -> tensor<8xf64>
  %sum = sojourn.reduce_sum %x, dims = [0] : tensor<8xf64>
  // expected-remark@below {{mixed: takes a value that was summed over rows}}
  %s = sojourn.clipped_sum "flat" rows %i, bounds = [1.0], norm = 2 (%sum) : tensor<8xi64>, (tensor<f64>) -> tensor<f64> {
  ^bb0(%x0: tensor<f64>):
    sojourn.yield %x0 : tensor<f64>
  }
  return
}

// -----

// A row of two numbers of magnitude 3 has a Euclidean norm of 4.24, and a sum of magnitudes of 6: Laplace noise needs the
// latter.
func.func @step(%t: !sojourn.table<100, "a": f64, "k": i64>, %c: tensor<2xi64> {sojourn.kind = "coin"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "a"] : !sojourn.table<100, "a": f64, "k": i64>, tensor<8xi64> -> tensor<8x2xf64>
  // expected-remark@below {{mixed: is not clipped, and a row's norm is only proved to be at most 6}}
  %s = sojourn.clipped_sum "none" rows %i, bounds = [4.5], norm = 1 (%x) : tensor<8xi64>, (tensor<8x2xf64>) -> tensor<2xf64> {
  ^bb0(%x0: tensor<8x2xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x2xf64>
    sojourn.yield %a : tensor<2xf64>
  }
  // expected-remark@below {{sum over rows: cuts }}
  %u = sojourn.clipped_sum "none" rows %i, bounds = [4.5], norm = 2 (%x) : tensor<8xi64>, (tensor<8x2xf64>) -> tensor<2xf64> {
  ^bb0(%x0: tensor<8x2xf64>):
    %a = sojourn.reduce_sum %x0, dims = [0] : tensor<8x2xf64>
    sojourn.yield %a : tensor<2xf64>
  }
  return
}
