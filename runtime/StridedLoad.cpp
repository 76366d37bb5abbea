// SPDX-License-Identifier: Apache-2.0
// Reading a strided window in row-major order, a block at a time: broadcasts, slices, transposes.
#include "dialect/Bounds.h"
#include "runtime/Chain.h"
#include "runtime/VectorKernels.h"
#include <algorithm>
#include <cstring>

namespace sojourn::runtime {

namespace {

constexpr size_t kMaxRank = 2 * bounds::kRank; // a sliding window has dims of its own

struct Wide {
  uint64_t words[2];
};

/// Each of `count` elements `times` times: lines too short for a call each.
template <typename T, int64_t kTimes>
void repeatEach(T *target, const T *source, int64_t step, int64_t times, int64_t count) {
  const int64_t each = kTimes > 0 ? kTimes : times;
  for (int64_t i = 0; i < count; ++i) {
    const T value = source[i * step];
    for (int64_t k = 0; k < each; ++k) {
      target[i * each + k] = value;
    }
  }
}

/// Elements [lo, lo + n) in row-major order; `fill` repeats one element.
template <typename T>
void load(T *target, const T *source, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> strides, int64_t lo,
          int64_t n, VectorFn fill) {
  constexpr int64_t kCopy = 64; // bytes from which a call of memcpy, or of a vector loop, pays
  const size_t last = dims.size() - 1;
  const int64_t line = dims[last], inner = strides[last];
  int64_t at[kMaxRank];
  // The start of a line, and where in it the elements begin.
  int64_t rest = lo / line, skip = lo % line, base = 0;
  for (size_t i = last; i-- > 0;) {
    at[i] = rest % dims[i];
    rest /= dims[i];
    base += at[i] * strides[i];
  }
  const int64_t outer = last > 0 ? strides[last - 1] : 0, lines = last > 0 ? dims[last - 1] : 1;
  int64_t row = last > 0 ? at[last - 1] : 0;
  constexpr int64_t kShort = 8;
  while (n > 0) {
    if (inner == 0 && line <= kShort && skip == 0 && n >= line) {
      const int64_t whole = std::min(lines - row, n / line);
      const auto repeat = line == 2 ? repeatEach<T, 2> : line == 4 ? repeatEach<T, 4> : repeatEach<T, 0>;
      repeat(target, source + base, outer, line, whole);
      target += whole * line;
      n -= whole * line;
      base += (whole - 1) * outer;
      row += whole - 1;
    } else {
      const int64_t count = std::min(n, line - skip);
      const T *from = source + base + skip * inner;
      if (inner == 1 && count * static_cast<int64_t>(sizeof(T)) >= kCopy) {
        std::memcpy(target, from, static_cast<size_t>(count) * sizeof(T));
      } else if (inner == 0 && fill && count * static_cast<int64_t>(sizeof(T)) >= kCopy) {
        fill(target, from, nullptr, nullptr, count);
      } else if (inner == 0) {
        std::fill_n(target, count, *from);
      } else {
        for (int64_t i = 0; i < count; ++i) {
          target[i] = from[i * inner];
        }
      }
      target += count;
      n -= count;
      skip = 0;
    }
    base += outer;
    if (++row < lines || last == 0) {
      continue;
    }
    // One step in the dims outside of that one, with carries.
    base -= lines * outer;
    row = 0;
    for (size_t i = last - 1; i-- > 0;) {
      base += strides[i];
      if (++at[i] < dims[i]) {
        break;
      }
      base -= at[i] * strides[i];
      at[i] = 0;
    }
  }
}

template <typename T>
void loadBytes(void *target, const void *source, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> strides,
               int64_t lo, int64_t n, VectorFn fill) {
  load(static_cast<T *>(target), static_cast<const T *>(source), dims, strides, lo, n, fill);
}

class StridedLoad final : public BlockStep {
public:
  explicit StridedLoad(const StridedView &view) {
    // Neighbouring dims that form one strided line become one dim.
    for (size_t i = 0; i < view.dims.size(); ++i) {
      if (view.dims[i] == 1) {
        continue;
      }
      if (!dims_.empty() && strides_.back() == view.strides[i] * view.dims[i]) {
        dims_.back() *= view.dims[i];
        strides_.back() = view.strides[i];
      } else {
        dims_.push_back(view.dims[i]);
        strides_.push_back(view.strides[i]);
      }
    }
    if (dims_.empty()) {
      dims_.push_back(1);
      strides_.push_back(0);
    }
    element_ = view.element;
    fill_ = vectorKernel(EOp::copy, view.element, 1);
    switch (byteWidth(view.element)) {
    case 1: load_ = loadBytes<uint8_t>; break;
    case 2: load_ = loadBytes<uint16_t>; break;
    case 4: load_ = loadBytes<uint32_t>; break;
    case 8: load_ = loadBytes<uint64_t>; break;
    default: load_ = loadBytes<Wide>; break;
    }
  }

  void run(void *out, const void *a, const void *, int64_t lo, int64_t n, unsigned) const override {
    load_(out, a, dims_, strides_, lo, n, fill_);
  }
  int64_t work() const override { return 2; }
  int64_t run() const override { return strides_.back() == 0 ? dims_.back() : 1; }
  std::shared_ptr<BlockStep> perRow(int64_t row) const override {
    StridedView view;
    view.element = element_;
    view.dims = dims_;
    view.strides = strides_;
    view.dims.back() /= row;
    return std::make_shared<StridedLoad>(view);
  }

private:
  llvm::SmallVector<int64_t, 4> dims_, strides_;
  Element element_;
  VectorFn fill_;
  void (*load_)(void *, const void *, llvm::ArrayRef<int64_t>, llvm::ArrayRef<int64_t>, int64_t, int64_t, VectorFn);
};

} // namespace

std::shared_ptr<BlockStep> makeStridedLoad(const StridedView &view) { return std::make_shared<StridedLoad>(view); }

} // namespace sojourn::runtime
