// SPDX-License-Identifier: Apache-2.0
#include "runtime/FrameBands.h"

namespace sojourn::runtime {

WindowDim overImage(const SpatialDim &dim) {
  WindowDim windows;
  windows.phases.push_back({dim.result, {}});
  for (int64_t tap = 0; tap < dim.kernel; ++tap) {
    const int64_t at = tap * dim.dilation;
    windows.phases[0].taps.push_back({tap, at % dim.stride, at / dim.stride});
  }
  const int64_t last = (dim.kernel - 1) * dim.dilation;
  windows.reach = last / dim.stride;
  windows.kernel = dim.kernel;
  windows.frame = {dim.image, dim.stride, std::min(dim.stride, last + 1), -dim.padding, dim.result + windows.reach};
  return windows;
}

/// The image's element `phase + i * stride` takes part in result i + shift by tap k, if
/// phase + padding - k * dilation == shift * stride.
WindowDim overGradient(const SpatialDim &dim) {
  WindowDim windows;
  int64_t first = INT64_MAX, last = INT64_MIN;
  for (int64_t phase = 0; phase < dim.stride; ++phase) {
    WindowDim::Phase part{ceilDiv(dim.image - phase, dim.stride), {}};
    for (int64_t tap = 0; tap < dim.kernel; ++tap) {
      const int64_t at = phase + dim.padding - tap * dim.dilation;
      if (at % dim.stride == 0) {
        part.taps.push_back({tap, 0, at / dim.stride});
        first = std::min(first, at / dim.stride);
        last = std::max(last, at / dim.stride);
      }
    }
    windows.phases.push_back(std::move(part));
  }
  for (WindowDim::Phase &phase : windows.phases) {
    for (WindowDim::Tap &tap : phase.taps) {
      tap.shift -= first;
    }
  }
  windows.reach = last - first;
  windows.kernel = dim.kernel;
  windows.frame = {dim.result, 1, 1, first, windows.windows() + windows.reach};
  return windows;
}

Spatial::Spatial(const TensorType &image, const TensorType &weight, const TensorType &result,
                 const ConvOptions &options) {
  const size_t rank = options.stride.size();
  for (size_t d = 0; d < rank; ++d) {
    (d + 1 == rank ? columns : rows) = {image.dims[2 + d], weight.dims[2 + d], result.dims[2 + d],
                                        options.stride[d], options.padding[d], options.dilation[d]};
  }
}

std::vector<int64_t> offsetsOf(const FrameShape &frame, const WindowDim::Phase &rows, const WindowDim::Phase &columns) {
  std::vector<int64_t> offsets;
  for (const WindowDim::Tap &y : rows.taps) {
    for (const WindowDim::Tap &x : columns.taps) {
      offsets.push_back((y.part * frame.columns.parts + x.part) * frame.plane() + y.shift * frame.columns.count +
                        x.shift);
    }
  }
  return offsets;
}

namespace {

/// Whether a frame of everything is the image itself.
bool isImage(const FrameDim &dim) { return dim.step == 1 && dim.first == 0 && dim.count == dim.size; }

} // namespace

Bands::Bands(const WindowDim &down, const WindowDim &along, int64_t channels, int64_t results, int64_t images,
             int64_t most)
    : frame{channels, down.frame, along.frame}, isWhole(isImage(down.frame) && isImage(along.frame)) {
  constexpr int64_t kFrameElements = 49152, kResultElements = 32768, kRowsLeast = 4, kColumnsLeast = 64;
  const int64_t perWindow = channels * frame.rows.parts * frame.columns.parts;
  const int64_t atOnce = std::min({most, kFrameElements / perWindow, kResultElements / results});
  const int64_t rowsLeast = std::min(down.windows(), kRowsLeast);
  along_ = ceilDiv(along.windows(), std::max(std::min(atOnce / rowsLeast, along.windows()), kColumnsLeast));
  columns = ceilDiv(along.windows(), along_);
  const int64_t rowsMost = std::max(atOnce / columns, std::min(rowsLeast, std::max<int64_t>(most / columns, 1)));
  const int64_t pieces = std::max(ceilDiv(down.windows(), rowsMost), ceilDiv(kFewPieces, images * along_));
  rows = std::min(down.windows(), std::max(ceilDiv(down.windows(), pieces), std::min(rowsMost, rowsLeast)));
  down_ = ceilDiv(down.windows(), rows);
  if (!isWhole) {
    frame.rows.count = rows + down.reach;
    frame.columns.count = columns + along.reach;
  }
}

const float *Bands::cut(float *memory, const float *image, int64_t band) const {
  if (isWhole) {
    return image + row(band) * frame.columns.count + column(band);
  }
  FrameShape shape = frame;
  shape.columns.first += column(band) * shape.columns.step;
  frameKernels(Element::f32).frame(memory, image, shape, row(band), shape.rows.count);
  return memory;
}

} // namespace sojourn::runtime
