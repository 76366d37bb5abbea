// SPDX-License-Identifier: Apache-2.0
// Windows of convolutions over frames (FrameShape.h), and the bands in which they are worked on.
#ifndef SOJOURN_RUNTIME_FRAMEBANDS_H
#define SOJOURN_RUNTIME_FRAMEBANDS_H
#include "runtime/ConvolutionPieces.h"
#include "runtime/VectorKernels.h"

namespace sojourn::runtime {

/// One dim of windows: where the taps of a window find their elements in a frame.
struct WindowDim {
  struct Tap {
    int64_t number, part, shift; ///< of the weight; element `shift` of the part, from the window's own on
  };
  /// Windows whose results lie `phases` elements apart.
  struct Phase {
    int64_t windows = 0;
    std::vector<Tap> taps;
  };
  FrameDim frame;                ///< of all windows
  int64_t kernel = 1, reach = 0; ///< taps of all phases, and the largest shift
  std::vector<Phase> phases;

  /// The most windows of a phase.
  int64_t windows() const { return phases[0].windows; }
};

/// Sizes and options along one spatial dim; `image` and `result` of the convolution, whichever is computed.
struct SpatialDim {
  int64_t image = 1, kernel = 1, result = 1, stride = 1, padding = 0, dilation = 1;
};

/// Windows of a convolution, over the image.
WindowDim overImage(const SpatialDim &dim);
/// Windows of its gradient by the image, over the gradient of the result: a phase for each of `stride` parts.
WindowDim overGradient(const SpatialDim &dim);

/// Spatial sizes of a convolution of images [n, c, (h,) w]: one dim or two.
struct Spatial {
  SpatialDim rows, columns;

  Spatial(const TensorType &image, const TensorType &weight, const TensorType &result, const ConvOptions &options);
  int64_t taps() const { return rows.kernel * columns.kernel; }
};

/// Where each tap finds the first window's element in a channel of the frame.
std::vector<int64_t> offsetsOf(const FrameShape &frame, const WindowDim::Phase &rows, const WindowDim::Phase &columns);

inline int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t stripsOf(int64_t columns) { return ceilDiv(columns, kStrip); }
/// Bytes of so many elements, up to the next line of the cache.
inline size_t lines(int64_t elements) { return (static_cast<size_t>(elements) * sizeof(float) + 63) / 64 * 64; }

/// Windows whose frame is cut out at once: a worker's piece of an image.
class Bands {
public:
  FrameShape frame;              ///< of the first band; of the image where `isWhole`
  bool isWhole;                  ///< no padding, no strides: windows read the image itself
  int64_t rows = 1, columns = 1; ///< the most windows of a band along each dim

  /// `results`: elements of a window's. So few windows that frame and results stay in the second cache, at most `most`
  /// of them; and fewer rows where `images` alone would be too few pieces for threads.
  Bands(const WindowDim &down, const WindowDim &along, int64_t channels, int64_t results, int64_t images, int64_t most);
  /// Of an image.
  int64_t count() const { return down_ * along_; }
  int64_t windows() const { return rows * columns; }
  /// The first window of a band.
  int64_t row(int64_t band) const { return band / along_ * rows; }
  int64_t column(int64_t band) const { return band % along_ * columns; }
  size_t bytes() const { return isWhole ? 0 : lines(frame.elements()); }
  /// Where windows of the band read the image: cut out into `memory`, unless it is read itself.
  const float *cut(float *memory, const float *image, int64_t band) const;

private:
  int64_t down_ = 1, along_ = 1;
};

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_FRAMEBANDS_H
