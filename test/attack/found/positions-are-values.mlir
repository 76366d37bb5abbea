// Found by tools/attack. unpaid: row 0 of 'people' becomes another one: the sum of published result 0 moves, and that table is not charged for it
// attack 4000285
// step of client 0
//   tables people
//   seeds 216
//   spending run 0 steps 0 noise 4 clip 1 share -1 layers 0 sum 0
//   release bound 0 epsilon 8 delta 0 continues 0
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  func.func @step(%arg0: tensor<i64> {sojourn.kind = "seed"}, %arg1: !sojourn.table<24, "a" : f64, "h" : f32, "n" : i64, "b" : i1, "m" : 2x48xf32, "v" : 64xf64, "w" : 96xf32> {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
    %0 = sojourn.iota dim = 0 : tensor<24xi64>
    %1 = sojourn.read_rows %arg1, %0, columns = ["m"] : !sojourn.table<24, "a" : f64, "h" : f32, "n" : i64, "b" : i1, "m" : 2x48xf32, "v" : 64xf64, "w" : 96xf32>, tensor<24xi64> -> tensor<24x2x48xi64>
    %2 = sojourn.concat %1, %1 dim = 1 : tensor<24x2x48xi64>, tensor<24x2x48xi64>
    %3 = sojourn.reduce_min %2, dims = [1, 2] : tensor<24x4x48xi64>
    %4 = sojourn.sample_rows %3, %arg0, %arg0 of %arg1, part = [first 6.666667e-01], expected = 2 : tensor<24xi64>, tensor<i64>, tensor<i64>, !sojourn.table<24, "a" : f64, "h" : f32, "n" : i64, "b" : i1, "m" : 2x48xf32, "v" : 64xf64, "w" : 96xf32> -> tensor<24xi64>
    %5 = sojourn.convert %4 : tensor<24xi64> -> tensor<24xf64>
    %6 = sojourn.reduce_sum %5, dims = [0] : tensor<24xf64>
    return %6 : tensor<f64>
  }
}

