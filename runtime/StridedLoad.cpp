// SPDX-License-Identifier: Apache-2.0
// Reading a strided window in row-major order, a block at a time: broadcasts, slices, transposes.
#include "runtime/Chain.h"
#include <algorithm>
#include <cstring>

namespace sojourn::runtime {

namespace {

template <typename T>
void gather(char *out, const char *source, int64_t stride, int64_t count) {
  T *target = reinterpret_cast<T *>(out);
  const T *x = reinterpret_cast<const T *>(source);
  if (stride == 0) {
    const T value = x[0];
    for (int64_t i = 0; i < count; ++i) {
      target[i] = value;
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    target[i] = x[i * stride];
  }
}

struct Wide {
  uint64_t words[2];
};

class StridedLoad final : public BlockStep {
public:
  explicit StridedLoad(const StridedView &view) : width_(static_cast<int64_t>(byteWidth(view.element))) {
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
    fn_ = width_ == 1   ? gather<uint8_t>
          : width_ == 2 ? gather<uint16_t>
          : width_ == 4 ? gather<uint32_t>
          : width_ == 8 ? gather<uint64_t>
                        : gather<Wide>;
  }

  void run(void *out, const void *a, const void *, int64_t lo, int64_t n, unsigned) const override {
    const size_t rank = dims_.size();
    int64_t at[kMaxRank];
    int64_t rest = lo, offset = 0;
    for (size_t i = rank; i-- > 0;) {
      at[i] = rest % dims_[i];
      rest /= dims_[i];
      offset += at[i] * strides_[i];
    }
    char *target = static_cast<char *>(out);
    const char *source = static_cast<const char *>(a);
    const int64_t inner = strides_[rank - 1];
    while (n > 0) {
      int64_t count = std::min(n, dims_[rank - 1] - at[rank - 1]);
      if (inner == 1) {
        std::memcpy(target, source + offset * width_, static_cast<size_t>(count * width_));
      } else {
        fn_(target, source + offset * width_, inner, count);
      }
      target += count * width_;
      n -= count;
      // Back to the start of the line, then one step in the next outer dim, with carries.
      offset -= at[rank - 1] * inner;
      at[rank - 1] = 0;
      for (size_t i = rank - 1; i-- > 0;) {
        offset += strides_[i];
        if (++at[i] < dims_[i]) {
          break;
        }
        offset -= at[i] * strides_[i];
        at[i] = 0;
      }
    }
  }

private:
  static constexpr size_t kMaxRank = 32;
  int64_t width_;
  llvm::SmallVector<int64_t, 4> dims_, strides_;
  void (*fn_)(char *, const char *, int64_t, int64_t);
};

} // namespace

std::shared_ptr<BlockStep> makeStridedLoad(const StridedView &view) { return std::make_shared<StridedLoad>(view); }

} // namespace sojourn::runtime
