// SPDX-License-Identifier: Apache-2.0
#include "runtime/FrameBands.h"
#include "runtime/ConvolutionFrames.h"

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
  for (int64_t channel = 0; channel < frame.channels; ++channel) {
    for (const WindowDim::Tap &y : rows.taps) {
      for (const WindowDim::Tap &x : columns.taps) {
        offsets.push_back(((channel * frame.rows.parts + y.part) * frame.columns.parts + x.part) * frame.plane() +
                          y.shift * frame.columns.count + x.shift);
      }
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

bool ownsConvolution(Convolved what, const TensorType &images, const TensorType &weight, const TensorType &results,
                     const ConvOptions &options) {
  if (images.element != Element::f32 || frameKernels(Element::f32).windows == nullptr || options.stride.size() > 2) {
    return false;
  }
  // Sizes below which nothing here overflows, and a plan holds little.
  constexpr int64_t kMostSpan = 256, kMostTaps = 128, kMostStrides = 16, kMostChannels = 4096;
  const Spatial spatial(images, weight, results, options);
  for (const SpatialDim &dim : {spatial.rows, spatial.columns}) {
    if (dim.kernel > kMostTaps || dim.dilation > kMostSpan || (dim.kernel - 1) * dim.dilation > kMostSpan ||
        dim.padding > kMostSpan || dim.stride > kMostStrides) {
      return false;
    }
  }
  const int64_t in = weight.dims[1], out = weight.dims[0] / options.groups;
  if (spatial.taps() > kMostTaps || spatial.rows.stride * spatial.columns.stride > kMostStrides ||
      std::max(in, out) > kMostChannels) {
    return false;
  }
  const bool isOfImages = what == Convolved::gradInput;
  const auto over = isOfImages ? overGradient : overImage;
  const WindowDim down = over(spatial.rows), along = over(spatial.columns);
  // Fewer channels leave lanes of vectors unused, fewer windows in a line registers; fewer in an image are less than a
  // sum's additions pay for.
  constexpr int64_t kVector = 16, kLeastWidth = 4, kLeastWindows = 32;
  const int64_t framed = isOfImages ? out : in, vectors = what == Convolved::forward ? out : in;
  if (along.windows() < kLeastWidth || 3 * vectors < 2 * ceilDiv(vectors, kVector) * kVector ||
      (what == Convolved::gradWeight && down.windows() * along.windows() < kLeastWindows)) {
    return false;
  }
  // What is cut out stays within a few times of what is read and written, and of a worker's memory; and a band's work
  // within what a run may take between two looks at its flag.
  constexpr double kMostCut = 4, kMostElements = 1 << 21;
  const Bands bands(down, along, framed, vectors, images.dims[0] * options.groups, INT64_MAX);
  FrameShape frame = bands.frame;
  frame.rows.count = bands.rows + down.reach;
  const auto elements = static_cast<double>(frame.elements());
  const double cut = elements * static_cast<double>(images.dims[0] * options.groups * bands.count());
  const double work = 2.0 * static_cast<double>(bands.windows() * spatial.taps()) * static_cast<double>(in * out);
  return elements <= kMostElements && work <= kPieceWorkMost &&
         (bands.isWhole || cut <= kMostCut * static_cast<double>(images.numel() + results.numel()));
}

} // namespace sojourn::runtime
