module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  func.func @step(%arg0: tensor<3x4xf32> {sojourn.kind = "state"}, %arg1: tensor<f64> {sojourn.kind = "slot"}, %arg2: tensor<i64> {sojourn.kind = "slot"}, %arg3: tensor<i64> {sojourn.kind = "slot"}, %arg4: tensor<i64> {sojourn.kind = "slot"}, %arg5: tensor<i64> {sojourn.kind = "slot"}, %arg6: tensor<i64> {sojourn.kind = "seed"}, %arg7: !sojourn.table<?, "image" : 3x4xui8, "age" : f64, "word" : 5xi64> {sojourn.kind = "table"}, %arg8: !sojourn.table<4294967296, "y" : i1> {sojourn.kind = "table"}) -> (tensor<3x4xf32> {sojourn.result = "commit", sojourn.target = 0 : i64}, tensor<f32> {sojourn.result = "publish"}, tensor<7x5xi64> {sojourn.result = "keep"}, tensor<7xi64> {sojourn.result = "keep"}) {
    %0 = sojourn.iota dim = 0 : tensor<7xi64>
    %1 = sojourn.add %0, %arg2 : tensor<7xi64>, tensor<i64>
    %2 = sojourn.sample_rows %1, %arg3, %arg4 of %arg7, part = [other 6.480000e-01, first 5.000000e-01] : tensor<7xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "image" : 3x4xui8, "age" : f64, "word" : 5xi64> -> tensor<7xi64>
    %3 = sojourn.sample_rows %2, %arg5, %arg4 of %arg7, split = [other 6.480000e-01, first 5.000000e-01] : tensor<7xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "image" : 3x4xui8, "age" : f64, "word" : 5xi64> -> tensor<7xi64>
    %4 = sojourn.sample_rows %3, %arg5, %arg4 of %arg7, split = [other 6.480000e-01] : tensor<7xi64>, tensor<i64>, tensor<i64>, !sojourn.table<?, "image" : 3x4xui8, "age" : f64, "word" : 5xi64> -> tensor<7xi64>
    %5 = sojourn.constant 0 : i64
    %6 = sojourn.constant 369 : i64
    %7 = sojourn.compare "lt" %4, %5 : tensor<7xi64>, tensor<i64>
    %8 = sojourn.add %4, %6 : tensor<7xi64>, tensor<i64>
    %9 = sojourn.select %7, %4, %8 : tensor<7xi1>, tensor<7xi64>, tensor<7xi64>
    %10 = sojourn.read_rows %arg7, %4, columns = ["image"] : !sojourn.table<?, "image" : 3x4xui8, "age" : f64, "word" : 5xi64>, tensor<7xi64> -> tensor<7x3x4xf32>
    %11 = sojourn.read_rows %arg7, %4, columns = ["word"] : !sojourn.table<?, "image" : 3x4xui8, "age" : f64, "word" : 5xi64>, tensor<7xi64> -> tensor<7x5xi64>
    %12 = sojourn.read_rows %arg7, %4, columns = ["age"] : !sojourn.table<?, "image" : 3x4xui8, "age" : f64, "word" : 5xi64>, tensor<7xi64> -> tensor<7xf32>
    %13 = sojourn.read_rows %arg8, %9, columns = ["y"] : !sojourn.table<4294967296, "y" : i1>, tensor<7xi64> -> tensor<7x1xi64>
    %14 = sojourn.reshape %13 : tensor<7x1xi64> -> tensor<7xi64>
    %15 = sojourn.rng_uniform %arg6, stream = 1 : tensor<7xf32>
    %16 = sojourn.mul %12, %15 : tensor<7xf32>, tensor<7xf32>
    %17 = sojourn.broadcast %16, dims = [0] : tensor<7xf32> -> tensor<7x3x4xf32>
    %18 = sojourn.mul %10, %17 : tensor<7x3x4xf32>, tensor<7x3x4xf32>
    %19 = sojourn.reduce_sum %18, dims = [0] : tensor<7x3x4xf32>
    %20 = sojourn.convert %arg1 : tensor<f64> -> tensor<f32>
    %21 = sojourn.mul %19, %20 : tensor<3x4xf32>, tensor<f32>
    %22 = sojourn.sub %arg0, %21 : tensor<3x4xf32>, tensor<3x4xf32>
    %23 = sojourn.reduce_sum %22, dims = [0, 1] : tensor<3x4xf32>
    return %22, %23, %11, %14 : tensor<3x4xf32>, tensor<f32>, tensor<7x5xi64>, tensor<7xi64>
  }
}

