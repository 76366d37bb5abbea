// Found by tools/attack. sensitivity: row 15 of 'people' becomes another one: the sum of gradient of 1 tensors moves by 26200631.63 units of its grid, and 2.00 times 1638500.64 are charged
// attack 4003542
// step of client 0
//   tables people
//   seeds 530
//   results 2
//   spending run 0 steps 0 noise 0 clip 100 share -1 layers 1 sum 0
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  func.func @step(%arg0: tensor<i64> {sojourn.kind = "seed"}, %arg1: !sojourn.table<24, "a" : f64, "h" : f32, "n" : i64, "b" : i1, "m" : 2x48xf32, "v" : 64xf64, "w" : 96xf32> {sojourn.kind = "table"}) -> (tensor<35x35xf32> {sojourn.result = "keep", sojourn.trained}) {
    %0 = sojourn.iota dim = 0 : tensor<16xi64>
    %1 = sojourn.sample_rows %0, %arg0, %arg0 of %arg1, part = [first 3.333333e-01] : tensor<16xi64>, tensor<i64>, tensor<i64>, !sojourn.table<24, "a" : f64, "h" : f32, "n" : i64, "b" : i1, "m" : 2x48xf32, "v" : 64xf64, "w" : 96xf32> -> tensor<16xi64>
    %2 = sojourn.constant 16 : i64
    %3 = sojourn.add %1, %2 : tensor<16xi64>, tensor<i64>
    %4 = sojourn.read_rows %arg1, %3, columns = ["w"] : !sojourn.table<24, "a" : f64, "h" : f32, "n" : i64, "b" : i1, "m" : 2x48xf32, "v" : 64xf64, "w" : 96xf32>, tensor<16xi64> -> tensor<16x96xf32>
    %values, %indices = sojourn.topk %4, dim = 1, k = 35, largest = true : tensor<16x96xf32>
    %5 = sojourn.convert %indices : tensor<16x35xi64> -> tensor<16x35xf32>
    %6 = sojourn.dot %values, %5, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : tensor<16x35xf32>, tensor<16x35xf32> -> tensor<35x35xf32>
    return %6 : tensor<35x35xf32>
  }
}

