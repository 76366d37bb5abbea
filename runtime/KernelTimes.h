// SPDX-License-Identifier: Apache-2.0
// What the time of each kernel depends on: the declarations of KernelTimes.def, by the name of the op.
//
// What `oblivious` assumes of code that is not ours, and of the processor:
// - Products, sums, extremes, convolutions, Fourier transforms and arithmetic of vectors in the library (ATen, oneDNN,
//   MKL) do not branch on values. What looks like libm is covered instead.
// - Additions and multiplications take the same time for all values once denormals are flushed (Denormals.h), and so do
//   divisions and square roots of floats.
// - The compiler makes no branch of a conditional expression. Loops choose by bits where it is known to make one.
//
// Declarations are of booleans, integers and real numbers. Complex ones are covered in `div`, `sqrt`, `reduce_prod`
// and `cumprod`, which look at infinities and NaN.
#ifndef SOJOURN_RUNTIME_KERNELTIMES_H
#define SOJOURN_RUNTIME_KERNELTIMES_H
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>

namespace sojourn::runtime {

enum class KernelTime : uint8_t {
  oblivious, ///< by construction neither an exit nor a speed depends on values: no branch, no address does
  covered,   ///< may depend on values: only the quantum at whose end a reply leaves hides it
};

struct DeclaredTime {
  llvm::StringLiteral op;
  KernelTime time;
  llvm::StringLiteral reason; ///< empty where oblivious
};

inline constexpr DeclaredTime kKernelTimes[] = {
#define SOJOURN_KERNEL_TIME(op, time, reason) {#op, KernelTime::time, reason},
#include "runtime/KernelTimes.def"
};

/// Of a core op, without the dialect's prefix; nothing for a name without a kernel.
inline std::optional<KernelTime> timeOf(llvm::StringRef op) {
  for (const DeclaredTime &declared : kKernelTimes) {
    if (declared.op == op) {
      return declared.time;
    }
  }
  return std::nullopt;
}

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_KERNELTIMES_H
