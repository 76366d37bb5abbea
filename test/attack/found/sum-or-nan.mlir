// Found by tools/attack. released: all rows of a table become others, and the result differs where all that was noised is the same.
// attack 1
// step of client 0
//   tables people others
//   results 2
//   spending run 1 steps 4 noise 0 clip 100 share 0.10000000000000001 layers 1 sum 1
//   release bound 10 epsilon 0.01 delta 9.9999999999999995e-07 continues 0
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  func.func @step(%arg0: !sojourn.table<24, "a" : f64, "h" : f32, "n" : i64, "b" : i1, "m" : 2x48xf32, "v" : 64xf64, "w" : 96xf32> {sojourn.kind = "table"}, %arg1: !sojourn.table<16, "a" : f64, "h" : f32, "n" : i64, "b" : i1, "m" : 2x48xf32, "v" : 64xf64, "w" : 96xf32> {sojourn.kind = "table"}) -> (tensor<24xf32> {sojourn.result = "publish"}, tensor<f32> {sojourn.result = "keep", sojourn.trained}) {
    %0 = sojourn.iota dim = 0 : tensor<24xi64>
    %1 = sojourn.read_rows %arg0, %0, columns = ["v"] : !sojourn.table<24, "a" : f64, "h" : f32, "n" : i64, "b" : i1, "m" : 2x48xf32, "v" : 64xf64, "w" : 96xf32>, tensor<24xi64> -> tensor<24x64xf32>
    %2 = sojourn.constant 4.25352933E+37 : f32
    %3 = sojourn.mul %1, %2 : tensor<24x64xf32>, tensor<f32>
    %4 = sojourn.reduce_sum %3, dims = [1] : tensor<24x64xf32>
    %5 = sojourn.min %4, %2 : tensor<24xf32>, tensor<f32>
    %6 = sojourn.max %5, %2 : tensor<24xf32>, tensor<f32>
    return %6, %2 : tensor<24xf32>, tensor<f32>
  }
}

