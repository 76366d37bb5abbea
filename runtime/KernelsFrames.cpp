// SPDX-License-Identifier: Apache-2.0
// Convolutions of f32 and their gradients over frames: bands of images, padded, in a worker's own memory. A gradient by
// images is a convolution of the gradient; where windows step by more than 1, one for each of the interleaved parts of
// the image.
#include "runtime/ConvolutionFrames.h"
#include "runtime/FrameBands.h"
#include "runtime/Stop.h"
#include <array>
#include <numeric>
#include <span>

namespace sojourn::runtime {

namespace {

constexpr int64_t kMostStrides = 16; ///< product of the strides of both dims

/// Puts the elements of `parts` between one another: element x of part p at x * parts + p. Later parts may be one
/// shorter than the first.
void interleave(float *to, std::span<const float *const> parts, std::span<const int64_t> widths) {
  const auto step = static_cast<int64_t>(parts.size());
  if (step == 2) {
    const float *even = parts[0], *odd = parts[1];
    for (int64_t x = 0; x < widths[1]; ++x) {
      to[2 * x] = even[x];
      to[2 * x + 1] = odd[x];
    }
    if (widths[0] > widths[1]) {
      to[2 * widths[1]] = even[widths[1]];
    }
    return;
  }
  for (int64_t part = 0; part < step; ++part) {
    for (int64_t x = 0; x < widths[static_cast<size_t>(part)]; ++x) {
      to[x * step + part] = parts[static_cast<size_t>(part)][x];
    }
  }
}

/// Windows at which results are computed together: those of one phase along each dim.
struct Grid {
  int64_t row = 0, column = 0, height = 0, width = 0;
  std::vector<int64_t> offsets; ///< of each tap in a channel of the frame
  std::vector<int64_t> numbers; ///< of each tap in the weight's windows
  int64_t weights = 0;          ///< where its matrix [channel and tap, result's channel] begins in that of a group
};

/// A convolution of images [n, groups * channels, ...] to results [n, groups * results, ...], band by band.
class FrameConvolution {
public:
  struct Sizes {
    int64_t images = 1, groups = 1, channels = 1, results = 1;
    int64_t resultRows = 1, resultColumns = 1;
  };
  FrameConvolution(const WindowDim &rows, const WindowDim &columns, const Sizes &sizes)
      : sizes_(sizes), taps_(rows.kernel * columns.kernel), rowStep_(static_cast<int64_t>(rows.phases.size())),
        columnStep_(static_cast<int64_t>(columns.phases.size())),
        bands_(rows, columns, sizes.channels, pitch(), sizes.images * sizes.groups, INT64_MAX) {
    for (const WindowDim::Phase &y : rows.phases) {
      for (const WindowDim::Phase &x : columns.phases) {
        Grid grid{&y - rows.phases.data(),
                  &x - columns.phases.data(),
                  y.windows,
                  x.windows,
                  offsetsOf(bands_.frame, y, x),
                  {},
                  groupWeights_};
        for (const WindowDim::Tap &down : y.taps) {
          for (const WindowDim::Tap &along : x.taps) {
            grid.numbers.push_back(down.number * columns.kernel + along.number);
          }
        }
        groupWeights_ += pitch() * sizes.channels * static_cast<int64_t>(grid.offsets.size());
        grids_.push_back(std::move(grid));
      }
    }
    const int64_t pieces = sizes.images * sizes.groups * bands_.count();
    cuts_ = std::clamp<int64_t>(kFewPieces / pieces, 1, stripsOf(sizes.results));
    items = pieces * cuts_;
  }

  int64_t items = 0; ///< bands of groups of images; where these are few, with a part of the results' channels each
  /// Elements of all matrices of weights, [group, grid, strip of results, channel and tap, kStrip].
  int64_t weights() const { return sizes_.groups * groupWeights_; }
  /// What one channel of all groups' has in them, from its weights [result, tap of all grids].
  void layOutTurned(float *matrices, const float *weights, int64_t channel) const {
    for (const Grid &grid : grids_) {
      const auto taps = static_cast<int64_t>(grid.numbers.size());
      float *to = matrices + channel / sizes_.channels * groupWeights_ + grid.weights +
                  channel % sizes_.channels * taps * kStrip;
      for (int64_t strip = 0; strip < sizes_.results; strip += kStrip, to += sizes_.channels * taps * kStrip) {
        const int64_t count = std::min(kStrip, sizes_.results - strip);
        for (int64_t tap = 0; tap < taps; ++tap) {
          const float *x = weights + strip * taps_ + grid.numbers[static_cast<size_t>(tap)];
          for (int64_t i = 0; i < kStrip; ++i) {
            to[tap * kStrip + i] = i < count ? x[i * taps_] : 0;
          }
        }
      }
    }
  }
  /// Memory of a worker.
  size_t scratch() const { return bands_.bytes() + lines(bands_.windows() * pitch()) + lines(spreadElements()); }
  size_t held() const {
    return std::accumulate(grids_.begin(), grids_.end(), size_t{0}, [](size_t all, const Grid &grid) {
      return all + sizeof(Grid) + (grid.offsets.size() + grid.numbers.size()) * sizeof(int64_t);
    });
  }
  void run(float *result, const float *images, const float *weights, char *memory, int64_t item) const {
    auto *own = reinterpret_cast<float *>(memory), *sums = own + bands_.bytes() / sizeof(float);
    const int64_t cut = item % cuts_, strips = stripsOf(sizes_.results);
    const int64_t image = item / cuts_ / bands_.count(), band = item / cuts_ % bands_.count();
    const FrameShape &shape = bands_.frame;
    const float *frame = bands_.cut(own, images + image * shape.channels * shape.rows.size * shape.columns.size, band);
    Piece piece{strips * cut / cuts_ * kStrip, 0, bands_.row(band), bands_.column(band)};
    piece.channels = std::min(sizes_.results, strips * (cut + 1) / cuts_ * kStrip) - piece.channel;
    weights += image % sizes_.groups * groupWeights_;
    result += (image * sizes_.results + piece.channel) * sizes_.resultRows * sizes_.resultColumns;
    if (grids_.size() == 1) {
      piece.height = std::min(bands_.rows, grids_[0].height - piece.row);
      piece.width = std::min(bands_.columns, grids_[0].width - piece.column);
      convolve(grids_[0], piece, sums, frame, weights);
      write(piece, result, sums);
      return;
    }
    for (auto grid = grids_.begin(); grid != grids_.end(); grid += columnStep_) {
      piece.height = std::min(bands_.rows, grid->height - piece.row);
      if (piece.height > 0) {
        writeLines({grid, grid + columnStep_}, piece, result, sums, frame, weights);
      }
    }
  }

private:
  int64_t pitch() const { return stripsOf(sizes_.results) * kStrip; }
  /// Results of a line's grids, before they are put between one another; and a line of zeros.
  int64_t spreadElements() const {
    return grids_.size() > 1 ? columnStep_ * sizes_.results * bands_.windows() + bands_.columns : 0;
  }

  /// Of a grid's results: channels from `channel` on, and windows of a band.
  struct Piece {
    int64_t channel, channels, row, column, height = 0, width = 0;
  };

  void convolve(const Grid &grid, const Piece &piece, float *sums, const float *frame, const float *weights) const {
    const auto taps = static_cast<int64_t>(grid.offsets.size()), inner = taps * sizes_.channels;
    const int64_t channelElements = bands_.frame.elements() / sizes_.channels;
    weights += piece.channel * inner;
    int64_t offsets[kProductDepth];
    for (int64_t depth = 0, tap = 0; depth < inner; depth += kProductDepth) {
      checkStop();
      const int64_t count = std::min(kProductDepth, inner - depth);
      for (int64_t i = 0; i < count; ++i) {
        offsets[i] = grid.offsets[static_cast<size_t>(tap)];
        if (++tap == taps) {
          tap = 0;
        }
      }
      for (int64_t i = 0; i < count; ++i) {
        offsets[i] += (depth + i) / taps * channelElements;
      }
      const WindowGrid at{offsets, inner, bands_.frame.columns.count, piece.height, piece.width, pitch()};
      frameKernels(Element::f32).windows(sums, frame, at, weights + depth * kStrip, count, piece.channels, depth != 0);
    }
  }

  void write(const Piece &piece, float *result, const float *sums) const {
    const int64_t plane = sizes_.resultRows * sizes_.resultColumns, windows = piece.height * piece.width;
    // Lines that fill the result's lie one after the other there, too.
    const int64_t line = piece.width == sizes_.resultColumns ? windows : piece.width;
    for (int64_t first = 0; first < windows; first += line) {
      frameKernels(Element::f32)
          .turn(result + (piece.row + first / piece.width) * sizes_.resultColumns + piece.column, plane,
                sums + first * pitch(), pitch(), line, piece.channels);
    }
  }

  /// Lines of the result from the grids of one phase of rows. A grid without a tap is zero.
  void writeLines(std::span<const Grid> grids, Piece piece, float *result, float *sums, const float *frame,
                  const float *weights) const {
    float *spread = sums + lines(bands_.windows() * pitch()) / sizeof(float);
    const float *zeros = spread;
    std::fill_n(spread, bands_.columns, 0.0f);
    spread += bands_.columns;
    std::array<const float *, kMostStrides> parts{};
    std::array<int64_t, kMostStrides> widths{}, steps{};
    for (size_t i = 0; i < grids.size(); ++i) {
      piece.width = widths[i] = std::clamp<int64_t>(grids[i].width - piece.column, 0, bands_.columns);
      parts[i] = zeros;
      if (piece.width > 0 && !grids[i].offsets.empty()) {
        const int64_t windows = piece.height * piece.width;
        convolve(grids[i], piece, sums, frame, weights + grids[i].weights);
        frameKernels(Element::f32).turn(spread, windows, sums, pitch(), windows, piece.channels);
        parts[i] = spread;
        steps[i] = piece.width;
        spread += windows * piece.channels;
      }
    }
    const int64_t plane = sizes_.resultRows * sizes_.resultColumns;
    for (int64_t channel = 0; channel < piece.channels; ++channel, result += plane) {
      for (int64_t y = piece.row; y < piece.row + piece.height; ++y) {
        interleave(result + (y * rowStep_ + grids[0].row) * sizes_.resultColumns + piece.column * columnStep_,
                   {parts.data(), grids.size()}, {widths.data(), grids.size()});
        for (size_t i = 0; i < grids.size(); ++i) {
          parts[i] += steps[i];
        }
      }
    }
  }

  Sizes sizes_;
  int64_t taps_, rowStep_, columnStep_;
  Bands bands_;
  int64_t groupWeights_ = 0, cuts_ = 1;
  std::vector<Grid> grids_;
};

void emitConvolution(Lowering &lowering, const GraphOp &op, std::shared_ptr<const FrameConvolution> plan, Place result,
                     Place images, Place matrices, double work, double pieceMost) {
  const Partition pieces = piecesOf(plan->items, work, pieceMost);
  lowering.workerScratch(plan->scratch());
  lowering.libraryCalls(op, pieces.rows);
  auto convolve = [=](SlotTable slots, int64_t lo, int64_t hi, unsigned worker) {
    for (int64_t item = pieces.begin(lo); item < pieces.begin(hi); ++item) {
      plan->run(result.in<float>(slots), images.in<float>(slots), matrices.in<float>(slots), slots.scratch(worker),
                item);
    }
  };
  lowering.emit(op, makeKernel(convolve, pieces.rows, plan->held()));
}

} // namespace

bool ownsConvolution(Convolved what, const TensorType &images, const TensorType &weight, const TensorType &results,
                     const ConvOptions &options) {
  if (images.element != Element::f32 || frameKernels(Element::f32).windows == nullptr || options.stride.size() > 2) {
    return false;
  }
  // Sizes below which nothing here overflows, and a plan holds little.
  constexpr int64_t kMostSpan = 256, kMostTaps = 128, kMostChannels = 4096;
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

void lowerFrameConvolution(Lowering &lowering, const GraphOp &op) {
  const TensorType x = lowering.type(op.operands[0]), w = lowering.type(op.operands[1]),
                   y = lowering.type(op.results[0]);
  WideInput images(lowering, op.operands[0]), weights(lowering, op.operands[1]);
  WideOutput out(lowering, op.results[0]);
  const ConvOptions options = optionsOf(op);
  const Spatial spatial(x, w, y, options);
  const int64_t channels = w.dims[1], results = w.dims[0] / options.groups, taps = spatial.taps();
  const FrameConvolution::Sizes sizes{x.dims[0], options.groups,      channels,
                                      results,   spatial.rows.result, spatial.columns.result};
  auto plan = std::make_shared<const FrameConvolution>(overImage(spatial.rows), overImage(spatial.columns), sizes);
  const Place matrices = lowering.scratch(lines(plan->weights()));
  const int64_t inner = channels * taps, strips = stripsOf(results);
  const Partition all(options.groups * strips, inner * kStrip);
  auto layOut = [=](SlotTable slots, int64_t lo, int64_t hi) {
    for (int64_t item = all.begin(lo); item < all.begin(hi); ++item) {
      const int64_t first = item % strips * kStrip;
      productKernels(Element::f32)
          .pack(matrices.in<float>(slots) + item * inner * kStrip,
                weights.place().in<float>(slots) + (item / strips * results + first) * inner, 1, inner, inner,
                std::min(kStrip, results - first));
    }
  };
  lowering.emitPart(op, makeKernel(layOut, all.rows));
  emitConvolution(lowering, op, plan, out.place(), images.place(), matrices, workOf(y, x, w),
                  pieceWorkMost(Element::f32, w));
}

void lowerFrameGradInput(Lowering &lowering, const GraphOp &op) {
  const TensorType y = lowering.type(op.operands[0]), w = lowering.type(op.operands[1]),
                   x = lowering.type(op.results[0]);
  WideInput gradient(lowering, op.operands[0]), weights(lowering, op.operands[1]);
  WideOutput out(lowering, op.results[0]);
  const ConvOptions options = optionsOf(op);
  const Spatial spatial(x, w, y, options);
  const int64_t channels = w.dims[0] / options.groups, results = w.dims[1], taps = spatial.taps();
  const FrameConvolution::Sizes sizes{x.dims[0], options.groups,     channels,
                                      results,   spatial.rows.image, spatial.columns.image};
  auto plan =
      std::make_shared<const FrameConvolution>(overGradient(spatial.rows), overGradient(spatial.columns), sizes);
  const Place matrices = lowering.scratch(lines(plan->weights()));
  const Partition all(options.groups * channels, stripsOf(results) * kStrip * taps);
  auto layOut = [=](SlotTable slots, int64_t lo, int64_t hi) {
    for (int64_t item = all.begin(lo); item < all.begin(hi); ++item) {
      plan->layOutTurned(matrices.in<float>(slots), weights.place().in<float>(slots) + item * results * taps, item);
    }
  };
  lowering.emitPart(op, makeKernel(layOut, all.rows));
  emitConvolution(lowering, op, plan, out.place(), gradient.place(), matrices, workOf(y, x, w),
                  pieceWorkMost(Element::f32, w));
}

} // namespace sojourn::runtime
