// Found by tools/attack. draws: the reply to step 1 differs where other rows are drawn: published values or notes
// attack 5000190
// step of client 0
//   tables people
//   seeds 752
//   results 1
//   spending run 1 steps 100 noise 0 clip 1 share -1 layers 0 sum 0
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  func.func @step(%arg0: tensor<i64> {sojourn.kind = "seed"}, %arg1: !sojourn.table<24, "a" : f64, "h" : f32, "n" : i64, "b" : i1, "m" : 2x48xf32, "v" : 64xf64, "w" : 96xf32> {sojourn.kind = "table"}) -> (tensor<i64> {sojourn.result = "publish"}, tensor<24xi64> {sojourn.result = "keep"}) {
    %0 = sojourn.iota dim = 0 : tensor<24xi64>
    %1 = sojourn.sample_rows %0, %arg0, %arg0 of %arg1, part = [first 6.666667e-01], expected = 8 : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<24, "a" : f64, "h" : f32, "n" : i64, "b" : i1, "m" : 2x48xf32, "v" : 64xf64, "w" : 96xf32> -> tensor<24xi64>
    %2 = sojourn.read_rows %arg1, %1, columns = ["a", "h", "n"] : !sojourn.table<24, "a" : f64, "h" : f32, "n" : i64, "b" : i1, "m" : 2x48xf32, "v" : 64xf64, "w" : 96xf32>, tensor<24xi64> -> tensor<24x3xi64>
    %3 = sojourn.reduce_sum %2, dims = [0, 1] : tensor<24x3xi64>
    return %3, %1 : tensor<i64>, tensor<24xi64>
  }
}

// step of client 0
//   states 1
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  func.func @step(%arg0: tensor<24xi64> {sojourn.kind = "state"}) -> (tensor<24xi64> {sojourn.result = "publish"}) {
    return %arg0 : tensor<24xi64>
  }
}

