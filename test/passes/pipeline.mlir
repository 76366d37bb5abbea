// SPDX-License-Identifier: Apache-2.0
// Goal: phases can be stopped after and resumed from in a new process, and end where the whole way ends.
// RUN: sojourn-opt %s --sojourn-to-core --mlir-print-debuginfo -o %t.whole
// RUN: FileCheck %s < %t.whole
// RUN: sojourn-opt %s --sojourn-to-core=to=functional --mlir-print-debuginfo -o %t.functional
// RUN: FileCheck %s --check-prefix=FUNCTIONAL < %t.functional
// RUN: sojourn-opt %t.functional --sojourn-to-core="from=functional to=promoted" --mlir-print-debuginfo -o %t.promoted
// RUN: FileCheck %s --check-prefix=PROMOTED < %t.promoted
// RUN: sojourn-opt %t.promoted --sojourn-to-core="from=promoted to=decomposed" --mlir-print-debuginfo -o %t.decomposed
// RUN: FileCheck %s --check-prefix=DECOMPOSED < %t.decomposed
// RUN: sojourn-opt %t.decomposed --sojourn-to-core=from=decomposed --mlir-print-debuginfo -o %t.core
// RUN: diff %t.whole %t.core
// RUN: not sojourn-opt %s --sojourn-to-core="from=core to=captured" 2>&1 | FileCheck %s --check-prefix=ORDER

// ORDER: no path from phase core to phase captured
// FUNCTIONAL: sojourn.phase = "functional"
// FUNCTIONAL: sojourn.aten "aten.mul"
// PROMOTED: sojourn.phase = "promoted"
// PROMOTED: sojourn.convert %{{.*}} : tensor<f64> -> tensor<f32>
// DECOMPOSED: sojourn.phase = "decomposed"
// DECOMPOSED-NOT: sojourn.aten

// CHECK: sojourn.phase = "core"
// CHECK: %[[S:.*]] = sojourn.convert %arg1 : tensor<f64> -> tensor<f32>
// CHECK: %[[R:.*]] = sojourn.mul %arg0, %[[S]] : tensor<2x3xf32>, tensor<f32> loc(#[[LINE:.*]])
// CHECK: return %[[R]]
// The scientist's line survives to the end.
// CHECK: #[[LINE]] = loc("train.py":12:0)
module attributes {sojourn.phase = "captured", sojourn.promotion = "torch"} {
  func.func @step(%p: !sojourn.ref<2x3xf32> {sojourn.kind = "state"}, %lr: !sojourn.scalar<f64> {sojourn.kind = "slot"}) {
    sojourn.aten "aten._foreach_mul_.Scalar"(%p, %lr) {args = [[#sojourn.operand<0>], #sojourn.operand<1>],
      mutates = array<i64: 0>, names = ["self", "scalar"]} : (!sojourn.ref<2x3xf32>, !sojourn.scalar<f64>) -> () loc("train.py":12:0)
    return
  }
}
