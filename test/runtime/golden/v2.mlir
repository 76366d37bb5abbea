module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  func.func @step(%arg0: tensor<3x4xf32> {sojourn.kind = "state"}, %arg1: tensor<f64> {sojourn.kind = "slot"}, %arg2: tensor<i64> {sojourn.kind = "slot"}, %arg3: tensor<i64> {sojourn.kind = "slot"}, %arg4: tensor<i64> {sojourn.kind = "slot"}, %arg5: tensor<i64> {sojourn.kind = "slot"}, %arg6: tensor<i64> {sojourn.kind = "seed"}, %arg7: !sojourn.table<569, "image" : 3x4xui8, "age" : f64, "word" : 5xi64> {sojourn.kind = "table"}, %arg8: !sojourn.table<4294967296, "y" : i1> {sojourn.kind = "table"}) -> (tensor<3x4xf32> {sojourn.result = "commit", sojourn.target = 0 : i64}, tensor<f32> {sojourn.result = "publish"}, tensor<7x5xi64> {sojourn.result = "keep"}, tensor<7xi64> {sojourn.result = "keep"}) {
    %0 = sojourn.iota dim = 0 : tensor<7xi64>
    %1 = sojourn.add %0, %arg2 : tensor<7xi64>, tensor<i64>
    %2 = sojourn.sample_rows %1, %arg3, %arg4, rows = 200 : (tensor<7xi64>, tensor<i64>, tensor<i64>) -> tensor<7xi64>
    %3 = sojourn.constant 0 : i64
    %4 = sojourn.constant 369 : i64
    %5 = sojourn.compare "lt" %2, %3 : tensor<7xi64>, tensor<i64>
    %6 = sojourn.add %2, %4 : tensor<7xi64>, tensor<i64>
    %7 = sojourn.select %5, %2, %6 : tensor<7xi1>, tensor<7xi64>, tensor<7xi64>
    %8 = sojourn.sample_rows %7, %arg5, %arg4, rows = 569 : (tensor<7xi64>, tensor<i64>, tensor<i64>) -> tensor<7xi64>
    %9 = sojourn.read_rows %arg7, %8, columns = ["image"] : !sojourn.table<569, "image" : 3x4xui8, "age" : f64, "word" : 5xi64>, tensor<7xi64> -> tensor<7x3x4xf32>
    %10 = sojourn.read_rows %arg7, %8, columns = ["word"] : !sojourn.table<569, "image" : 3x4xui8, "age" : f64, "word" : 5xi64>, tensor<7xi64> -> tensor<7x5xi64>
    %11 = sojourn.read_rows %arg7, %8, columns = ["age"] : !sojourn.table<569, "image" : 3x4xui8, "age" : f64, "word" : 5xi64>, tensor<7xi64> -> tensor<7xf32>
    %12 = sojourn.read_rows %arg8, %8, columns = ["y"] : !sojourn.table<4294967296, "y" : i1>, tensor<7xi64> -> tensor<7x1xi64>
    %13 = sojourn.reshape %12 : tensor<7x1xi64> -> tensor<7xi64>
    %14 = sojourn.rng_uniform %arg6, stream = 1 : tensor<7xf32>
    %15 = sojourn.mul %11, %14 : tensor<7xf32>, tensor<7xf32>
    %16 = sojourn.broadcast %15, dims = [0] : tensor<7xf32> -> tensor<7x3x4xf32>
    %17 = sojourn.mul %9, %16 : tensor<7x3x4xf32>, tensor<7x3x4xf32>
    %18 = sojourn.reduce_sum %17, dims = [0] : tensor<7x3x4xf32>
    %19 = sojourn.convert %arg1 : tensor<f64> -> tensor<f32>
    %20 = sojourn.mul %18, %19 : tensor<3x4xf32>, tensor<f32>
    %21 = sojourn.sub %arg0, %20 : tensor<3x4xf32>, tensor<3x4xf32>
    %22 = sojourn.reduce_sum %21, dims = [0, 1] : tensor<3x4xf32>
    return %21, %22, %10, %13 : tensor<3x4xf32>, tensor<f32>, tensor<7x5xi64>, tensor<7xi64>
  }
}

