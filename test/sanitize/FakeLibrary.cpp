// SPDX-License-Identifier: Apache-2.0
// Stands in for runtime/Library*.cpp in builds for sanitizers: plain loops, and threads that are seen.
// torch and its OpenMP are not instrumented (README.md).
#include "runtime/Library.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <exception>
#include <limits>
#include <new>
#include <stdexcept>
#include <thread>

namespace sojourn::runtime {

// --- Threads --------------------------------------------------------------------------------------

/// Never one, so that rows are shared out on any machine.
unsigned libraryThreads() { return std::clamp(std::thread::hardware_concurrency(), 2u, 4u); }

void helpRuns(llvm::function_ref<void()> work) { work(); }

bool guarded(std::string &error, void (*body)(void *), void *context) {
  try {
    body(context);
    return true;
  } catch (const std::bad_alloc &) {
    error = "not enough memory for the run";
  } catch (const std::exception &exception) {
    error = exception.what();
  } catch (...) {
    error = "unknown exception";
  }
  return false;
}

// --- Calls ----------------------------------------------------------------------------------------

namespace {

/// What elements of T are added up in.
template <typename T>
struct SumOf {
  using Type = double;
};
template <>
struct SumOf<uint64_t> {
  using Type = uint64_t; // wraps, as int64 does in the library
};
template <typename T>
struct SumOf<std::complex<T>> {
  using Type = std::complex<double>;
};

/// Calls fn<T>() for an element that library calls are made with.
template <typename Fn>
void dispatch(Element element, Fn fn) {
  switch (element) {
  case Element::i64: fn.template operator()<uint64_t>(); return;
  case Element::f32: fn.template operator()<float>(); return;
  case Element::f64: fn.template operator()<double>(); return;
  case Element::c64: fn.template operator()<std::complex<float>>(); return;
  case Element::c128: fn.template operator()<std::complex<double>>(); return;
  default: throw std::runtime_error("the fake library has no loop for " + std::string(elementName(element)));
  }
}

using Index = llvm::SmallVector<int64_t, 6>;

/// Calls fn(index) for each index below `dims`, the last dim fastest.
template <typename Fn>
void eachIndex(llvm::ArrayRef<int64_t> dims, Fn fn) {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) {
    return;
  }
  Index index(dims.size(), 0);
  for (size_t dim = dims.size();;) {
    fn(index);
    for (dim = dims.size(); dim > 0 && ++index[dim - 1] == dims[dim - 1]; --dim) {
      index[dim - 1] = 0;
    }
    if (dim == 0) {
      return;
    }
  }
}

int64_t offsetOf(llvm::ArrayRef<int64_t> index, llvm::ArrayRef<int64_t> strides) {
  int64_t offset = 0;
  for (size_t dim = 0; dim < index.size(); ++dim) {
    offset += index[dim] * strides[dim];
  }
  return offset;
}

template <typename T>
T &elementAt(const LibraryView &view, llvm::ArrayRef<int64_t> index) {
  return static_cast<T *>(view.data)[offsetOf(index, view.strides)];
}

} // namespace

void findInstructions() {}
bool libraryKeepsFloat32() { return true; }

void libraryProduct(const MatrixView &out, const MatrixView &a, const MatrixView &b) {
  const int64_t inner = a.dims[2], leftRow = a.strides[1], leftStep = a.strides[2], rightStep = b.strides[1],
                rightColumn = b.strides[2];
  dispatch(out.element, [&]<typename T>() {
    using Sum = typename SumOf<T>::Type;
    for (int64_t batch = 0; batch < out.dims[0]; ++batch) {
      T *to = reinterpret_cast<T *>(out.data) + batch * out.strides[0];
      const T *left = reinterpret_cast<const T *>(a.data) + batch * a.strides[0];
      const T *right = reinterpret_cast<const T *>(b.data) + batch * b.strides[0];
      for (int64_t row = 0; row < out.dims[1]; ++row) {
        for (int64_t column = 0; column < out.dims[2]; ++column) {
          Sum sum{};
          for (int64_t k = 0; k < inner; ++k) {
            sum += static_cast<Sum>(left[row * leftRow + k * leftStep]) *
                   static_cast<Sum>(right[k * rightStep + column * rightColumn]);
          }
          to[row * out.strides[1] + column * out.strides[2]] = static_cast<T>(sum);
        }
      }
    }
  });
}

void libraryReduce(Reduction kind, const LibraryView &out, const LibraryView &x, llvm::ArrayRef<int64_t> dims) {
  Index kept, keptStrides, reduced, reducedStrides;
  for (size_t dim = 0; dim < x.dims.size(); ++dim) {
    bool isReduced = std::find(dims.begin(), dims.end(), static_cast<int64_t>(dim)) != dims.end();
    (isReduced ? reduced : kept).push_back(x.dims[dim]);
    (isReduced ? reducedStrides : keptStrides).push_back(x.strides[dim]);
  }
  dispatch(x.element, [&]<typename T>() {
    eachIndex(kept, [&](const Index &at) {
      const T *line = static_cast<const T *>(x.data) + offsetOf(at, keptStrides);
      typename SumOf<T>::Type result{};
      if constexpr (std::is_floating_point_v<T>) {
        if (kind != Reduction::sum) {
          result =
              kind == Reduction::largest ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
        }
      }
      eachIndex(reduced, [&](const Index &inner) {
        const T value = line[offsetOf(inner, reducedStrides)];
        if constexpr (std::is_floating_point_v<T>) {
          if (kind != Reduction::sum) {
            bool better = kind == Reduction::largest ? value > result : value < result;
            result = value != value || better ? value : result; // a NaN comes out: nothing beats it
            return;
          }
        }
        result += static_cast<typename SumOf<T>::Type>(value);
      });
      elementAt<T>(out, at) = static_cast<T>(result);
    });
  });
}

namespace {

/// Sizes and strides of [outer, inner, up to three more], the missing ones 1.
struct Window {
  int64_t outer, inner, outerStride, innerStride;
  std::array<int64_t, 3> dims{1, 1, 1}, strides{0, 0, 0};

  explicit Window(const LibraryView &view)
      : outer(view.dims[0]), inner(view.dims[1]), outerStride(view.strides[0]), innerStride(view.strides[1]) {
    std::copy(view.dims.begin() + 2, view.dims.end(), dims.end() - (view.dims.size() - 2));
    std::copy(view.strides.begin() + 2, view.strides.end(), strides.end() - (view.dims.size() - 2));
  }
};

/// Calls fn(offset in y, in x, in w) for each product that the convolution y of x with w adds up.
template <typename Fn>
void eachTap(const LibraryView &yView, const LibraryView &xView, const LibraryView &wView, const ConvOptions &options,
             Fn fn) {
  const Window y(yView), x(xView), w(wView);
  std::array<int64_t, 3> stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  std::copy(options.stride.begin(), options.stride.end(), stride.end() - options.stride.size());
  std::copy(options.padding.begin(), options.padding.end(), padding.end() - options.padding.size());
  std::copy(options.dilation.begin(), options.dilation.end(), dilation.end() - options.dilation.size());
  const int64_t perGroup = y.inner / options.groups;
  // One dim after the other: where the result stands, and which element of the window meets it.
  auto walk = [&](auto &self, size_t dim, int64_t yAt, int64_t xAt, int64_t wAt) -> void {
    for (int64_t p = 0; p < y.dims[dim]; ++p) {
      for (int64_t tap = 0; tap < w.dims[dim]; ++tap) {
        const int64_t at = p * stride[dim] - padding[dim] + tap * dilation[dim];
        if (at < 0 || at >= x.dims[dim]) {
          continue;
        }
        const int64_t yNext = yAt + p * y.strides[dim], xNext = xAt + at * x.strides[dim],
                      wNext = wAt + tap * w.strides[dim];
        if (dim == 2) {
          fn(yNext, xNext, wNext);
        } else {
          self(self, dim + 1, yNext, xNext, wNext);
        }
      }
    }
  };
  for (int64_t image = 0; image < y.outer; ++image) {
    for (int64_t out = 0; out < y.inner; ++out) {
      for (int64_t in = 0; in < w.inner; ++in) {
        walk(walk, 0, image * y.outerStride + out * y.innerStride,
             image * x.outerStride + (out / perGroup * w.inner + in) * x.innerStride,
             out * w.outerStride + in * w.innerStride);
      }
    }
  }
}

/// out = the sums of products that `each` names by their offsets.
template <typename Each>
void addProducts(const LibraryView &out, const LibraryView &a, const LibraryView &b, Each each) {
  dispatch(out.element, [&]<typename T>() {
    using Sum = typename SumOf<T>::Type;
    int64_t last = 0;
    for (auto [dim, stride] : llvm::zip(out.dims, out.strides)) {
      last += (dim - 1) * stride;
    }
    std::vector<Sum> sums(static_cast<size_t>(last + 1));
    const T *left = static_cast<const T *>(a.data), *right = static_cast<const T *>(b.data);
    each([&](int64_t to, int64_t first, int64_t second) {
      sums[static_cast<size_t>(to)] += static_cast<Sum>(left[first]) * static_cast<Sum>(right[second]);
    });
    eachIndex(out.dims, [&](const Index &to) {
      elementAt<T>(out, to) = static_cast<T>(sums[static_cast<size_t>(offsetOf(to, out.strides))]);
    });
  });
}

} // namespace

/// The loops below have no columns.
int64_t columnBytes(Element /*element*/, llvm::ArrayRef<int64_t> /*images*/, llvm::ArrayRef<int64_t> /*weight*/,
                    llvm::ArrayRef<int64_t> /*results*/) {
  return 0;
}

void libraryConvolve(const LibraryView &out, const LibraryView &x, const LibraryView &w, const ConvOptions &options) {
  addProducts(out, x, w, [&](auto add) {
    eachTap(out, x, w, options, [&](int64_t y, int64_t image, int64_t tap) { add(y, image, tap); });
  });
}

void libraryConvolveGradInput(const LibraryView &out, const LibraryView &gradient, const LibraryView &w,
                              const ConvOptions &options) {
  addProducts(out, gradient, w, [&](auto add) {
    eachTap(gradient, out, w, options, [&](int64_t y, int64_t image, int64_t tap) { add(image, y, tap); });
  });
}

void libraryConvolveGradWeight(const LibraryView &out, const LibraryView &x, const LibraryView &gradient,
                               const ConvOptions &options) {
  addProducts(out, x, gradient, [&](auto add) {
    eachTap(gradient, x, out, options, [&](int64_t y, int64_t image, int64_t tap) { add(tap, image, y); });
  });
}

} // namespace sojourn::runtime
