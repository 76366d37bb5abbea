// SPDX-License-Identifier: Apache-2.0
// Columns that are sliced out of a private read are read alone where their range is smaller than that of all.
// RUN: sojourn-opt %s -split-input-file --sojourn-make-private="bounds=a=-1:3,b=-1:3,c=10:30,d=0:1 stop-after=rewrite" | FileCheck %s
// RUN: sojourn-opt %s -split-input-file --sojourn-make-private="bounds=a=-1:3,b=-1:3,c=10:30,d=0:1" -o /dev/null --verify-diagnostics=only-expected

!t = !sojourn.table<8, "a": f64, "b": f64, "c": f64, "d": f64>

// One column of three: a row moves the sum by 1 / 2 and not by 15. Two slices of it are one read, and nothing reads all.
// CHECK-LABEL: func.func @step
// CHECK:         sojourn.read_rows %{{.*}}, columns = ["d"] {{.*}} -> tensor<8x1xf64>
// CHECK-NOT:     sojourn.read_rows
// CHECK-NOT:     sojourn.slice
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !t {sojourn.kind = "table"})
    -> (tensor<f64> {sojourn.result = "publish"}, tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "c", "d"] : !t, tensor<8xi64> -> tensor<8x3xf64>
  %y = sojourn.slice %x, start = [0, 2], limit = [8, 3], stride = [1, 1] : tensor<8x3xf64>
  // expected-remark-re@below {{published result 0: bound 0.50000000, 1 numbers{{.*}}}}
  %s = sojourn.reduce_sum %y, dims = [0, 1] : tensor<8x1xf64>
  %z = sojourn.slice %x, start = [0, 2], limit = [8, 3], stride = [1, 1] : tensor<8x3xf64>
  %square = sojourn.mul %z, %z : tensor<8x1xf64>, tensor<8x1xf64>
  // expected-remark-re@below {{published result 1: bound 0.50000000, 1 numbers{{.*}}}}
  %u = sojourn.reduce_sum %square, dims = [0, 1] : tensor<8x1xf64>
  return %s, %u : tensor<f64>, tensor<f64>
}
}

// -----

!t = !sojourn.table<8, "a": f64, "b": f64, "c": f64, "d": f64>

// Casts go along, strides choose columns, and a part of the rows is still sliced.
// CHECK-LABEL: func.func @step
// CHECK:         %[[X:.*]] = sojourn.read_rows %{{.*}}, columns = ["d", "a"] {{.*}} -> tensor<8x2xf32>
// CHECK:         %[[WIDE:.*]] = sojourn.convert %[[X]] : tensor<8x2xf32> -> tensor<8x2xf64>
// CHECK:         sojourn.slice %[[WIDE]], start = [2, 0], limit = [6, 2], stride = [1, 1] : tensor<8x2xf64>
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !t {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["d", "c", "a", "c"] : !t, tensor<8xi64> -> tensor<8x4xf32>
  %wide = sojourn.convert %x : tensor<8x4xf32> -> tensor<8x4xf64>
  %y = sojourn.slice %wide, start = [2, 0], limit = [6, 3], stride = [1, 2] : tensor<8x4xf64>
  %square = sojourn.mul %y, %y : tensor<4x2xf64>, tensor<4x2xf64>
  // Each row holds two squares in [0, 9], which are summed around 4.5.
  // expected-remark-re@below {{published result 0: bound 9.00000{{.*}}, 1 numbers{{.*}}}}
  %s = sojourn.reduce_sum %square, dims = [0, 1] : tensor<4x2xf64>
  return %s : tensor<f64>
}
}

// -----

!t = !sojourn.table<8, "a": f64, "b": f64, "c": f64, "d": f64>

// Columns of the same bounds stay one read, and so does a slice that may hold as much as all.
// CHECK-LABEL: func.func @step
// CHECK:         sojourn.read_rows %{{.*}}, columns = ["a", "b"]
// CHECK:         sojourn.read_rows %{{.*}}, columns = ["d", "c", "d"]
// CHECK-NOT:     sojourn.read_rows
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
func.func @step(%t: !t {sojourn.kind = "table"})
    -> (tensor<f64> {sojourn.result = "publish"}, tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["a", "b"] : !t, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.slice %x, start = [0, 1], limit = [8, 2], stride = [1, 1] : tensor<8x2xf64>
  // expected-remark-re@below {{published result 0: bound 2.00000000, 1 numbers{{.*}}}}
  %s = sojourn.reduce_sum %y, dims = [0, 1] : tensor<8x1xf64>
  %z = sojourn.read_rows %t, %i, columns = ["d", "c", "d"] : !t, tensor<8xi64> -> tensor<8x3xf64>
  %two = sojourn.slice %z, start = [0, 0], limit = [8, 2], stride = [1, 1] : tensor<8x3xf64>
  %square = sojourn.mul %two, %two : tensor<8x2xf64>, tensor<8x2xf64>
  // expected-remark-re@below {{published result 1: bound 900.000{{.*}}, 1 numbers{{.*}}}}
  %u = sojourn.reduce_sum %square, dims = [0, 1] : tensor<8x2xf64>
  return %s, %u : tensor<f64>, tensor<f64>
}
}

// -----

!t = !sojourn.table<8, "a": f64, "b": f64, "c": f64, "d": f64>

// What the default clamps: an uploaded tensor has no range, whatever the bounds of the columns are.
// CHECK-LABEL: func.func @step
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{is clamped to 10.00, the default: its range depends on numbers of the script that the proof does not know, and publish() got no bound=}}
func.func @step(%f: tensor<8x2xf64> {sojourn.kind = "upload"}, %t: !t {sojourn.kind = "table"}) -> (tensor<2xf64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %x = sojourn.read_rows %t, %i, columns = ["c", "d"] : !t, tensor<8xi64> -> tensor<8x2xf64>
  %y = sojourn.mul %x, %f : tensor<8x2xf64>, tensor<8x2xf64>
  // expected-remark-re@below {{published result 0: bound 10.00000000, 2 numbers{{.*}}}}
  %s = sojourn.reduce_sum %y, dims = [0] : tensor<8x2xf64>
  return %s : tensor<2xf64>
}
}

// -----

!t = !sojourn.table<8, "a": f64, "b": f64, "c": f64, "d": f64>

// And what no bounds of columns tell: the logarithm of a number that may be 0.
// CHECK-LABEL: func.func @step
module attributes {sojourn.phase = "core", sojourn.promotion = "torch"} {
// expected-remark@below {{is clamped to 10.00, the default: the bounds of the columns give it no range, and publish() got no bound=}}
func.func @step(%m: tensor<8xi1> {sojourn.kind = "upload"}, %t: !t {sojourn.kind = "table"}) -> (tensor<f64> {sojourn.result = "publish"}) {
  %i = sojourn.iota dim = 0 : tensor<8xi64>
  %zero = sojourn.constant 0.0 : f64
  %x = sojourn.read_rows %t, %i, columns = ["d"] : !t, tensor<8xi64> -> tensor<8xf64>
  %y = sojourn.log %x : tensor<8xf64>
  %z = sojourn.select %m, %y, %zero : tensor<8xi1>, tensor<8xf64>, tensor<f64>
  // expected-remark-re@below {{published result 0: bound 10.00000000, 1 numbers{{.*}}}}
  %s = sojourn.reduce_sum %z, dims = [0] : tensor<8xf64>
  return %s : tensor<f64>
}
}
