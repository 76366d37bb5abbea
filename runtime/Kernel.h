// SPDX-License-Identifier: Apache-2.0
// What an instruction is: code over slot pointers and a range of rows, with state prepared at planning.
#pragma once
#include "runtime/Plan.h"
#include <cstddef>
#include <memory>
#include <utility>

namespace sojourn::runtime {

/// Pointers of all slots during a run.
using SlotTable = void *const *;

/// Dense contents at a place.
struct Place {
  SlotId slot = kNoSlot;
  int64_t bytes = 0; ///< from the slot's start

  template <typename T = char>
  T *in(SlotTable slots) const {
    return reinterpret_cast<T *>(static_cast<char *>(slots[slot]) + bytes);
  }
};

/// An instruction's code and state. `rows` are independent work items, a number that depends on
/// shapes alone; `worker` < workers tells scratch memory apart. run allocates nothing of its own.
class Kernel {
public:
  virtual ~Kernel();
  virtual void run(SlotTable slots, int64_t lo, int64_t hi, unsigned worker) = 0;
  int64_t rows = 1;
};

template <typename Fn>
class LambdaKernel final : public Kernel {
public:
  explicit LambdaKernel(Fn fn) : fn_(std::move(fn)) {}
  void run(SlotTable slots, int64_t lo, int64_t hi, unsigned) override { fn_(slots, lo, hi); }

private:
  Fn fn_;
};

/// A kernel from a callable (SlotTable, int64_t lo, int64_t hi).
template <typename Fn>
std::unique_ptr<Kernel> makeKernel(Fn fn, int64_t rows = 1) {
  auto kernel = std::make_unique<LambdaKernel<Fn>>(std::move(fn));
  kernel->rows = rows;
  return kernel;
}

/// One step of an elementwise chain that is more than a loop: elements [lo, lo + n) of `out`.
class BlockStep {
public:
  virtual ~BlockStep();
  virtual void run(void *out, const void *a, const void *b, int64_t lo, int64_t n, unsigned worker) = 0;
};

/// Runs `body(lo, hi, worker)` over [0, rows) on torch's threads; in order and whole where there is one.
using RowsBody = void (*)(void *context, int64_t lo, int64_t hi, unsigned worker);

} // namespace sojourn::runtime
