// SPDX-License-Identifier: Apache-2.0
// What an instruction is: code over slot pointers and a range of rows. Kernels belong to the plan and
// are never written after planning, so that several runs may be in one at once.
#ifndef SOJOURN_RUNTIME_KERNEL_H
#define SOJOURN_RUNTIME_KERNEL_H
#include "runtime/Plan.h"
#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace sojourn::runtime {

/// What a kernel sees of a run: pointers of all slots, and scratch memory of each worker.
class SlotTable {
public:
  SlotTable(void *const *pointers, char *scratch, size_t scratchBytes)
      : pointers_(pointers), scratch_(scratch), scratchBytes_(scratchBytes) {}
  void *operator[](SlotId slot) const { return pointers_[slot]; }
  /// Memory that no other worker uses, of the size that Lowering::workerScratch was asked for.
  char *scratch(unsigned worker) const { return scratch_ + worker * scratchBytes_; }

private:
  void *const *pointers_;
  char *scratch_;
  size_t scratchBytes_;
};

/// Dense contents at a place.
struct Place {
  SlotId slot = kNoSlot;
  int64_t bytes = 0; ///< from the slot's start

  template <typename T = char>
  T *in(SlotTable slots) const {
    return reinterpret_cast<T *>(static_cast<char *>(slots[slot]) + bytes);
  }
};

/// An instruction's code. `rows` are independent work items, a number that depends on shapes alone.
/// A row's result is the same whatever range it is run in and by whom, so neither the number of
/// threads nor who gets which row changes a bit. run allocates nothing of its own.
class Kernel {
public:
  virtual ~Kernel();
  virtual void run(SlotTable slots, int64_t lo, int64_t hi, unsigned worker) const = 0;
  /// Memory of the kernel itself, about.
  virtual size_t bytes() const = 0;
  int64_t rows = 1;
};

template <typename Fn>
class LambdaKernel final : public Kernel {
public:
  LambdaKernel(Fn fn, size_t held) : fn_(std::move(fn)), held_(held) {}
  void run(SlotTable slots, int64_t lo, int64_t hi, unsigned worker) const override {
    if constexpr (std::is_invocable_v<const Fn &, SlotTable, int64_t, int64_t, unsigned>) {
      fn_(slots, lo, hi, worker);
    } else {
      fn_(slots, lo, hi);
    }
  }
  size_t bytes() const override { return sizeof(*this) + held_; }

private:
  Fn fn_;
  size_t held_;
};

/// A kernel from a callable (SlotTable, int64_t lo, int64_t hi) or (..., unsigned worker). `held`: bytes that it keeps
/// elsewhere, where they can be many.
template <typename Fn>
std::unique_ptr<Kernel> makeKernel(Fn fn, int64_t rows = 1, size_t held = 0) {
  auto kernel = std::make_unique<LambdaKernel<Fn>>(std::move(fn), held);
  kernel->rows = rows;
  return kernel;
}

/// Items [0, items) cut into rows of equal size, by shape alone: each is worth waking a thread for,
/// and there are no more of them than threads can need.
struct Partition {
  int64_t items = 0, rows = 1;

  Partition() = default;
  /// `work`: elements that one item moves, or as much work as that. `rowsMax` 0: 64, or as many as keep each row's work
  /// within kRowWorkMost, so that a run can be stopped between two of them.
  Partition(int64_t items, int64_t work, int64_t rowsMax = 0) : items(items) {
    double all = static_cast<double>(items) * static_cast<double>(std::max<int64_t>(work, 1));
    if (rowsMax == 0) {
      rowsMax = static_cast<int64_t>(std::clamp(all / kRowWorkMost, 64.0, 1e6));
    }
    rows = std::clamp<int64_t>(static_cast<int64_t>(std::min(all / kRowWork, 1e6)), 1,
                               std::clamp<int64_t>(items, 1, rowsMax));
  }
  /// The first item of a row; begin(rows) is `items`.
  int64_t begin(int64_t row) const { return items / rows * row + items % rows * row / rows; }

  static constexpr double kRowWork = 16384, kRowWorkMost = 1 << 27;
};

/// One step of an elementwise chain that is more than a loop: elements [lo, lo + n) of `out`.
class BlockStep {
public:
  virtual ~BlockStep();
  virtual void run(void *out, const void *a, const void *b, int64_t lo, int64_t n, unsigned worker) const = 0;
  /// Work per element, in that of a plain loop's step, about.
  virtual int64_t work() const { return 1; }
  /// Elements from each multiple of this number on are equal up to the next one.
  virtual int64_t run() const { return 1; }
  /// The same over one element of each row, of a length that divides `run`; null where there is none.
  virtual std::shared_ptr<BlockStep> perRow(int64_t) const { return nullptr; }
};

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_KERNEL_H
