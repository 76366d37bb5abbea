module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
  func.func @step(%arg0: tensor<64xf32> {sojourn.kind = "state"}, %arg1: tensor<64x30xf32> {sojourn.kind = "state"}, %arg2: tensor<64x30xf32> {sojourn.kind = "state"}, %arg3: tensor<2xf32> {sojourn.kind = "state"}, %arg4: tensor<2x64xf32> {sojourn.kind = "state"}, %arg5: tensor<64xi64> {sojourn.kind = "state"}, %arg6: tensor<64x30xf32> {sojourn.kind = "state"}, %arg7: tensor<64xf32> {sojourn.kind = "state"}, %arg8: tensor<2x64xf32> {sojourn.kind = "state"}, %arg9: tensor<2xf32> {sojourn.kind = "state"}, %arg10: tensor<64x30xf32> {sojourn.kind = "state"}, %arg11: tensor<64xf32> {sojourn.kind = "state"}, %arg12: tensor<2x64xf32> {sojourn.kind = "state"}, %arg13: tensor<2xf32> {sojourn.kind = "state"}, %arg14: tensor<f64> {sojourn.kind = "slot"}, %arg15: tensor<f64> {sojourn.kind = "slot"}, %arg16: tensor<f64> {sojourn.kind = "slot"}, %arg17: tensor<f64> {sojourn.kind = "slot"}, %arg18: tensor<f64> {sojourn.kind = "slot"}, %arg19: tensor<f64> {sojourn.kind = "slot"}, %arg20: tensor<f64> {sojourn.kind = "slot"}, %arg21: tensor<f64> {sojourn.kind = "slot"}, %arg22: tensor<f64> {sojourn.kind = "slot"}, %arg23: tensor<f64> {sojourn.kind = "slot"}, %arg24: tensor<f64> {sojourn.kind = "slot"}, %arg25: tensor<f64> {sojourn.kind = "slot"}) -> (tensor<2x64xf32> {sojourn.result = "keep"}, tensor<1x2xf32> {sojourn.result = "keep"}, tensor<64x30xf32> {sojourn.result = "keep"}, tensor<1x64xf32> {sojourn.result = "keep"}, tensor<f32> {sojourn.result = "publish"}, tensor<64xf32> {sojourn.result = "commit", sojourn.target = 0 : i64}, tensor<64x30xf32> {sojourn.result = "commit", sojourn.target = 2 : i64}, tensor<2xf32> {sojourn.result = "commit", sojourn.target = 3 : i64}, tensor<2x64xf32> {sojourn.result = "commit", sojourn.target = 4 : i64}, tensor<64x30xf32> {sojourn.result = "commit", sojourn.target = 6 : i64}, tensor<64xf32> {sojourn.result = "commit", sojourn.target = 7 : i64}, tensor<2x64xf32> {sojourn.result = "commit", sojourn.target = 8 : i64}, tensor<2xf32> {sojourn.result = "commit", sojourn.target = 9 : i64}, tensor<64x30xf32> {sojourn.result = "commit", sojourn.target = 10 : i64}, tensor<64xf32> {sojourn.result = "commit", sojourn.target = 11 : i64}, tensor<2x64xf32> {sojourn.result = "commit", sojourn.target = 12 : i64}, tensor<2xf32> {sojourn.result = "commit", sojourn.target = 13 : i64}) {
    %0 = sojourn.constant 5.000000e-01 : f32
    %1 = sojourn.constant 1.000000e+00 : f32
    %2 = sojourn.constant 0 : i64
    %3 = sojourn.constant -100 : i64
    %4 = sojourn.constant 0.000000e+00 : f32
    %5 = sojourn.convert %arg25 : tensor<f64> -> tensor<f32>
    %6 = sojourn.convert %arg24 : tensor<f64> -> tensor<f32>
    %7 = sojourn.convert %arg23 : tensor<f64> -> tensor<f32>
    %8 = sojourn.convert %arg22 : tensor<f64> -> tensor<f32>
    %9 = sojourn.convert %arg21 : tensor<f64> -> tensor<f32>
    %10 = sojourn.convert %arg20 : tensor<f64> -> tensor<f32>
    %11 = sojourn.convert %arg19 : tensor<f64> -> tensor<f32>
    %12 = sojourn.convert %arg18 : tensor<f64> -> tensor<f32>
    %13 = sojourn.convert %arg17 : tensor<f64> -> tensor<f32>
    %14 = sojourn.convert %arg16 : tensor<f64> -> tensor<f32>
    %15 = sojourn.convert %arg15 : tensor<f64> -> tensor<f32>
    %16 = sojourn.convert %arg14 : tensor<f64> -> tensor<f32>
    %17 = sojourn.dot %arg1, %arg2, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1] : tensor<64x30xf32>, tensor<64x30xf32> -> tensor<64x64xf32>
    %18 = sojourn.broadcast %arg0, dims = [1] : tensor<64xf32> -> tensor<64x64xf32>
    %19 = sojourn.add %18, %17 : tensor<64x64xf32>, tensor<64x64xf32>
    %20 = sojourn.max %19, %4 : tensor<64x64xf32>, tensor<f32>
    %21 = sojourn.dot %20, %arg4, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1] : tensor<64x64xf32>, tensor<2x64xf32> -> tensor<64x2xf32>
    %22 = sojourn.broadcast %arg3, dims = [1] : tensor<2xf32> -> tensor<64x2xf32>
    %23 = sojourn.add %22, %21 : tensor<64x2xf32>, tensor<64x2xf32>
    %24 = sojourn.reduce_max %23, dims = [1] : tensor<64x2xf32>
    %25 = sojourn.broadcast %24, dims = [0] : tensor<64xf32> -> tensor<64x2xf32>
    %26 = sojourn.sub %23, %25 : tensor<64x2xf32>, tensor<64x2xf32>
    %27 = sojourn.exp %26 : tensor<64x2xf32>
    %28 = sojourn.reduce_sum %27, dims = [1] : tensor<64x2xf32>
    %29 = sojourn.reshape %28 : tensor<64xf32> -> tensor<64x1xf32>
    %30 = sojourn.log %29 : tensor<64x1xf32>
    %31 = sojourn.broadcast %30, dims = [0, 1] : tensor<64x1xf32> -> tensor<64x2xf32>
    %32 = sojourn.sub %26, %31 : tensor<64x2xf32>, tensor<64x2xf32>
    %33 = sojourn.compare "ne" %arg5, %3 : tensor<64xi64>, tensor<i64>
    %34 = sojourn.select %33, %arg5, %2 : tensor<64xi1>, tensor<64xi64>, tensor<i64>
    %35 = sojourn.convert %33 : tensor<64xi1> -> tensor<64xf32>
    %36 = sojourn.reshape %34 : tensor<64xi64> -> tensor<64x1xi64>
    %37 = sojourn.take_along %32, %36, dim = 1 : tensor<64x2xf32>, tensor<64x1xi64>
    %38 = sojourn.reshape %37 : tensor<64x1xf32> -> tensor<64xf32>
    %39 = sojourn.neg %38 : tensor<64xf32>
    %40 = sojourn.mul %39, %35 : tensor<64xf32>, tensor<64xf32>
    %41 = sojourn.select %33, %40, %4 : tensor<64xi1>, tensor<64xf32>, tensor<f32>
    %42 = sojourn.reduce_sum %35, dims = [0] : tensor<64xf32>
    %43 = sojourn.reduce_sum %41, dims = [0] : tensor<64xf32>
    %44 = sojourn.div %43, %42 : tensor<f32>, tensor<f32>
    %45 = sojourn.div %1, %42 : tensor<f32>, tensor<f32>
    %46 = sojourn.mul %35, %45 : tensor<64xf32>, tensor<f32>
    %47 = sojourn.neg %46 : tensor<64xf32>
    %48 = sojourn.select %33, %47, %4 : tensor<64xi1>, tensor<64xf32>, tensor<f32>
    %49 = sojourn.broadcast %4, dims = [] : tensor<f32> -> tensor<64x2xf32>
    %50 = sojourn.reshape %48 : tensor<64xf32> -> tensor<64x1xf32>
    %51 = sojourn.put_along "set" %49, %36, %50, dim = 1 : tensor<64x2xf32>, tensor<64x1xi64>, tensor<64x1xf32>
    %52 = sojourn.reduce_sum %51, dims = [1] : tensor<64x2xf32>
    %53 = sojourn.exp %32 : tensor<64x2xf32>
    %54 = sojourn.broadcast %52, dims = [0] : tensor<64xf32> -> tensor<64x2xf32>
    %55 = sojourn.mul %53, %54 : tensor<64x2xf32>, tensor<64x2xf32>
    %56 = sojourn.sub %51, %55 : tensor<64x2xf32>, tensor<64x2xf32>
    %57 = sojourn.dot %56, %arg4, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0] : tensor<64x2xf32>, tensor<2x64xf32> -> tensor<64x64xf32>
    %58 = sojourn.dot %56, %20, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : tensor<64x2xf32>, tensor<64x64xf32> -> tensor<2x64xf32>
    %59 = sojourn.reduce_sum %56, dims = [0] : tensor<64x2xf32>
    %60 = sojourn.reshape %59 : tensor<2xf32> -> tensor<1x2xf32>
    %61 = sojourn.compare "le" %20, %4 : tensor<64x64xf32>, tensor<f32>
    %62 = sojourn.select %61, %4, %57 : tensor<64x64xi1>, tensor<f32>, tensor<64x64xf32>
    %63 = sojourn.dot %62, %arg1, lhs_batch = [], rhs_batch = [], lhs_contract = [0], rhs_contract = [0] : tensor<64x64xf32>, tensor<64x30xf32> -> tensor<64x30xf32>
    %64 = sojourn.reduce_sum %62, dims = [0] : tensor<64x64xf32>
    %65 = sojourn.reshape %64 : tensor<64xf32> -> tensor<1x64xf32>
    %66 = sojourn.abs %16 : tensor<f32>
    %67 = sojourn.compare "lt" %66, %0 : tensor<f32>, tensor<f32>
    %68 = sojourn.sub %16, %1 : tensor<f32>, tensor<f32>
    %69 = sojourn.select %67, %16, %68 : tensor<i1>, tensor<f32>, tensor<f32>
    %70 = sojourn.sub %63, %arg6 : tensor<64x30xf32>, tensor<64x30xf32>
    %71 = sojourn.mul %69, %70 : tensor<f32>, tensor<64x30xf32>
    %72 = sojourn.select %67, %arg6, %63 : tensor<i1>, tensor<64x30xf32>, tensor<64x30xf32>
    %73 = sojourn.add %72, %71 : tensor<64x30xf32>, tensor<64x30xf32>
    %74 = sojourn.sub %64, %arg7 : tensor<64xf32>, tensor<64xf32>
    %75 = sojourn.mul %69, %74 : tensor<f32>, tensor<64xf32>
    %76 = sojourn.select %67, %arg7, %64 : tensor<i1>, tensor<64xf32>, tensor<64xf32>
    %77 = sojourn.add %76, %75 : tensor<64xf32>, tensor<64xf32>
    %78 = sojourn.sub %58, %arg8 : tensor<2x64xf32>, tensor<2x64xf32>
    %79 = sojourn.mul %69, %78 : tensor<f32>, tensor<2x64xf32>
    %80 = sojourn.select %67, %arg8, %58 : tensor<i1>, tensor<2x64xf32>, tensor<2x64xf32>
    %81 = sojourn.add %80, %79 : tensor<2x64xf32>, tensor<2x64xf32>
    %82 = sojourn.sub %59, %arg9 : tensor<2xf32>, tensor<2xf32>
    %83 = sojourn.mul %69, %82 : tensor<f32>, tensor<2xf32>
    %84 = sojourn.select %67, %arg9, %59 : tensor<i1>, tensor<2xf32>, tensor<2xf32>
    %85 = sojourn.add %84, %83 : tensor<2xf32>, tensor<2xf32>
    %86 = sojourn.mul %arg10, %15 : tensor<64x30xf32>, tensor<f32>
    %87 = sojourn.mul %arg11, %15 : tensor<64xf32>, tensor<f32>
    %88 = sojourn.mul %arg12, %15 : tensor<2x64xf32>, tensor<f32>
    %89 = sojourn.mul %arg13, %15 : tensor<2xf32>, tensor<f32>
    %90 = sojourn.mul %63, %14 : tensor<64x30xf32>, tensor<f32>
    %91 = sojourn.mul %90, %63 : tensor<64x30xf32>, tensor<64x30xf32>
    %92 = sojourn.add %86, %91 : tensor<64x30xf32>, tensor<64x30xf32>
    %93 = sojourn.mul %64, %14 : tensor<64xf32>, tensor<f32>
    %94 = sojourn.mul %93, %64 : tensor<64xf32>, tensor<64xf32>
    %95 = sojourn.add %87, %94 : tensor<64xf32>, tensor<64xf32>
    %96 = sojourn.mul %58, %14 : tensor<2x64xf32>, tensor<f32>
    %97 = sojourn.mul %96, %58 : tensor<2x64xf32>, tensor<2x64xf32>
    %98 = sojourn.add %88, %97 : tensor<2x64xf32>, tensor<2x64xf32>
    %99 = sojourn.mul %59, %14 : tensor<2xf32>, tensor<f32>
    %100 = sojourn.mul %99, %59 : tensor<2xf32>, tensor<2xf32>
    %101 = sojourn.add %89, %100 : tensor<2xf32>, tensor<2xf32>
    %102 = sojourn.sqrt %92 : tensor<64x30xf32>
    %103 = sojourn.sqrt %95 : tensor<64xf32>
    %104 = sojourn.sqrt %98 : tensor<2x64xf32>
    %105 = sojourn.sqrt %101 : tensor<2xf32>
    %106 = sojourn.div %102, %13 : tensor<64x30xf32>, tensor<f32>
    %107 = sojourn.div %103, %12 : tensor<64xf32>, tensor<f32>
    %108 = sojourn.div %104, %11 : tensor<2x64xf32>, tensor<f32>
    %109 = sojourn.div %105, %10 : tensor<2xf32>, tensor<f32>
    %110 = sojourn.add %106, %9 : tensor<64x30xf32>, tensor<f32>
    %111 = sojourn.add %107, %9 : tensor<64xf32>, tensor<f32>
    %112 = sojourn.add %108, %9 : tensor<2x64xf32>, tensor<f32>
    %113 = sojourn.add %109, %9 : tensor<2xf32>, tensor<f32>
    %114 = sojourn.mul %73, %8 : tensor<64x30xf32>, tensor<f32>
    %115 = sojourn.div %114, %110 : tensor<64x30xf32>, tensor<64x30xf32>
    %116 = sojourn.add %arg2, %115 : tensor<64x30xf32>, tensor<64x30xf32>
    %117 = sojourn.mul %77, %7 : tensor<64xf32>, tensor<f32>
    %118 = sojourn.div %117, %111 : tensor<64xf32>, tensor<64xf32>
    %119 = sojourn.add %arg0, %118 : tensor<64xf32>, tensor<64xf32>
    %120 = sojourn.mul %81, %6 : tensor<2x64xf32>, tensor<f32>
    %121 = sojourn.div %120, %112 : tensor<2x64xf32>, tensor<2x64xf32>
    %122 = sojourn.add %arg4, %121 : tensor<2x64xf32>, tensor<2x64xf32>
    %123 = sojourn.mul %85, %5 : tensor<2xf32>, tensor<f32>
    %124 = sojourn.div %123, %113 : tensor<2xf32>, tensor<2xf32>
    %125 = sojourn.add %arg3, %124 : tensor<2xf32>, tensor<2xf32>
    return %58, %60, %63, %65, %44, %119, %116, %125, %122, %73, %77, %81, %85, %92, %95, %98, %101 : tensor<2x64xf32>, tensor<1x2xf32>, tensor<64x30xf32>, tensor<1x64xf32>, tensor<f32>, tensor<64xf32>, tensor<64x30xf32>, tensor<2xf32>, tensor<2x64xf32>, tensor<64x30xf32>, tensor<64xf32>, tensor<2x64xf32>, tensor<2xf32>, tensor<64x30xf32>, tensor<64xf32>, tensor<2x64xf32>, tensor<2xf32>
  }
}

