// SPDX-License-Identifier: Apache-2.0
// The border to the kernel library (ATen): its threads, the guard around a run, and the calls that
// kernels make. This header is torch-free; Library*.cpp are its other side.
#ifndef SOJOURN_RUNTIME_LIBRARY_H
#define SOJOURN_RUNTIME_LIBRARY_H
#include "runtime/Kernel.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <array>
#include <string>
#include <vector>

namespace sojourn::runtime {

// --- Threads --------------------------------------------------------------------------------------

/// Threads that a run takes where it is not told.
unsigned libraryThreads();

/// Finds out which vector instructions there are, once, by files of the system: a process that may not open any is left
/// without them.
void findInstructions();

/// Does `work` on a thread that helps runs (Team.h) and nothing else: below autograd, with library calls on this thread
/// alone.
void helpRuns(llvm::function_ref<void()> work);

/// Calls `body` below autograd, with library calls on this thread alone; false with the library's
/// message in `error` where it throws.
bool guarded(std::string &error, void (*body)(void *), void *context);

// --- Calls ----------------------------------------------------------------------------------------

/// Memory as the library sees it; strides count in elements and are not negative.
struct LibraryView {
  Element element = Element::f32;
  void *data = nullptr;
  llvm::SmallVector<int64_t, 6> dims, strides;
};

/// A window of a slot during a run.
inline LibraryView libraryView(const StridedView &view, SlotTable slots) {
  LibraryView result;
  result.element = view.element;
  result.data = static_cast<char *>(slots[view.slot]) + view.offset * static_cast<int64_t>(byteWidth(view.element));
  result.dims.assign(view.dims.begin(), view.dims.end());
  result.strides.assign(view.strides.begin(), view.strides.end());
  return result;
}

/// Elements [lo, hi) of one dim.
inline LibraryView narrowed(LibraryView view, size_t dim, int64_t lo, int64_t hi) {
  view.data = static_cast<char *>(view.data) + lo * view.strides[dim] * static_cast<int64_t>(byteWidth(view.element));
  view.dims[dim] = hi - lo;
  return view;
}

/// Whether products of f32 matrices are made in f32: a process can ask the library for less
/// (torch.set_float32_matmul_precision), and no bound of rounding holds then.
bool libraryKeepsFloat32();

/// Matrices [batches, rows, columns], likewise.
struct MatrixView {
  Element element = Element::f32;
  char *data = nullptr;
  std::array<int64_t, 3> dims{}, strides{};

  MatrixView(const StridedView &view, SlotTable slots)
      : element(view.element),
        data(static_cast<char *>(slots[view.slot]) + view.offset * static_cast<int64_t>(byteWidth(view.element))) {
    std::copy_n(view.dims.begin(), 3, dims.begin());
    std::copy_n(view.strides.begin(), 3, strides.begin());
  }
  /// Keeps [lo, hi) of one dim.
  void narrow(size_t dim, int64_t lo, int64_t hi) {
    data += lo * strides[dim] * static_cast<int64_t>(byteWidth(element));
    dims[dim] = hi - lo;
  }
};

/// out = a b, batch by batch.
void libraryProduct(const MatrixView &out, const MatrixView &a, const MatrixView &b);

/// Cholesky factors of the lower triangles of x [k, n, n], with zeros above the diagonal, and `orders` [k]: 0, or the
/// order of the first leading minor that the library found not to be positive; what it leaves there is its own matter.
void libraryCholesky(const MatrixView &out, const MatrixView &x, int64_t *orders);

/// out = x with a x = b, of the lower or upper triangles of a [k, n, n]; b and out [k, n, m]. `unit`: ones on the
/// diagonal of a.
void libraryTriangularSolve(const MatrixView &out, const MatrixView &a, const MatrixView &b, bool lower, bool unit);
/// x [k, m, n] to factors of its size, pivots [k, min(m, n)] from 0, and `orders` [k]: 0, or from 1 the first zero
/// pivot.
void libraryLu(const MatrixView &factors, const MatrixView &x, int64_t *pivots, int64_t *orders);
void libraryQr(const MatrixView &q, const MatrixView &r, const MatrixView &x, bool full);
/// values [k, n, 1] ascending and columns of the symmetric matrices whose lower triangles x holds; false where one did
/// not converge. Signs are the library's.
bool libraryEigh(const MatrixView &values, const MatrixView &vectors, const MatrixView &x);
/// u, s [k, min(m, n), 1] descending, and the transposed v of x [k, m, n]; likewise.
bool librarySvd(const MatrixView &u, const MatrixView &s, const MatrixView &vt, const MatrixView &x, bool full);

/// LAPACK's factors of the symmetric matrix whose lower triangle x [1, n, n] holds, its n pivots and its order; and out
/// = x with a x = b by them, which have to be such.
void libraryLdl(const MatrixView &factors, const MatrixView &x, bool hermitian, int64_t *pivots, int64_t *order);
void libraryLdlSolve(const MatrixView &out, const MatrixView &factors, bool hermitian, const int64_t *pivots,
                     const MatrixView &b);
/// values [k, n, 1] and columns of x [k, n, n], both complex; false where one did not converge. Phases are the
/// library's.
bool libraryEig(const MatrixView &values, const MatrixView &vectors, const MatrixView &x);

enum class Fourier { complexes, fromReal, toReal };
struct FourierOptions {
  Fourier kind;
  std::vector<int64_t> dims; ///< the last one is the one that is halved
  bool inverse = false;      ///< of complexes
  int64_t size = 0;          ///< of the halved dim, toReal
};

/// Transforms `dims` of x into out, unscaled.
void libraryFourier(const LibraryView &out, const LibraryView &x, const FourierOptions &options);

enum class Reduction { sum, product, largest, smallest };

/// Reduces `dims` of x (not product; largest and smallest of floats alone). out lacks those dims.
void libraryReduce(Reduction kind, const LibraryView &out, const LibraryView &x, llvm::ArrayRef<int64_t> dims);

/// Up to so many channels (of a group) and elements of a window 2-d convolutions may be products with columns: each
/// window's elements, laid out one after the other. Larger windows would take memory that images do not suggest.
inline constexpr int64_t kColumnChannels = 3, kColumnTaps = 49;

/// Columns of one call: those of one image, or of as many as fit.
inline constexpr int64_t kColumnBytes = int64_t{16} << 20;

/// Bytes of the columns of one image; 0 where the library has blocked loops. Sizes of images, weights and results.
int64_t columnBytes(Element element, llvm::ArrayRef<int64_t> images, llvm::ArrayRef<int64_t> weight,
                    llvm::ArrayRef<int64_t> results);

struct ConvOptions {
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups = 1;
};

/// Convolution of x with w, and its gradients by x and by w from the gradient of its result.
void libraryConvolve(const LibraryView &out, const LibraryView &x, const LibraryView &w, const ConvOptions &options);
void libraryConvolveGradInput(const LibraryView &out, const LibraryView &gradient, const LibraryView &w,
                              const ConvOptions &options);
void libraryConvolveGradWeight(const LibraryView &out, const LibraryView &x, const LibraryView &gradient,
                               const ConvOptions &options);

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_LIBRARY_H
