// SPDX-License-Identifier: Apache-2.0
// Gradients of convolutions of f32 by their weights, over frames of images whose channels lie side by side.
#include "runtime/ConvolutionFrames.h"
#include "runtime/FrameBands.h"
#include "runtime/Stop.h"

namespace sojourn::runtime {

namespace {

/// The gradient by weights: per band of an image, sums over its windows for a channel of the gradient, a tap and a
/// channel of the image. Frames have their channels side by side here, so that a vector holds those of an element.
class FrameWeights {
public:
  FrameWeights(const WindowDim &rows, const WindowDim &columns, int64_t images, int64_t groups, int64_t channels,
               int64_t results)
      : groups_(groups), results_(results), rows_(rows.windows()), columns_(columns.windows()),
        step_(ceilDiv(channels, kChannels) * kChannels),
        bands_(rows, columns, channels, results, images, kProductDepth) {
    const FrameShape &frame = bands_.frame;
    offsets_ = offsetsOf(frame, rows.phases[0], columns.phases[0]);
    elements_ = bands_.isWhole ? (bands_.rows + rows.reach) * frame.columns.count : frame.elements() / channels;
    items = images * bands_.count();
  }

  int64_t items = 0; ///< bands of images
  /// Elements of a part, [groups * results, taps, step].
  int64_t elements() const { return groups_ * results_ * taps() * step_; }
  int64_t taps() const { return static_cast<int64_t>(offsets_.size()); }
  int64_t step() const { return step_; }
  /// Channels of all groups' gradients.
  int64_t results() const { return groups_ * results_; }
  size_t scratch() const { return bands_.bytes() + lines(elements_ * step_) + lines(results_ * pitch()); }
  size_t held() const { return offsets_.size() * sizeof(int64_t); }

  /// One band's part of the sum for channels [from, to) of all groups' gradients.
  void run(float *part, const float *images, const float *gradient, char *memory, int64_t item, int64_t from,
           int64_t to, bool adds) const {
    const FrameKernels kernels = frameKernels(Element::f32);
    auto *own = reinterpret_cast<float *>(memory), *turned = own + bands_.bytes() / sizeof(float);
    float *left = turned + lines(elements_ * step_) / sizeof(float);
    const int64_t image = item / bands_.count(), band = item % bands_.count();
    const int64_t row = bands_.row(band), height = std::min(bands_.rows, rows_ - row);
    const int64_t column = bands_.column(band), width = std::min(bands_.columns, columns_ - column);
    const FrameShape &shape = bands_.frame;
    const int64_t plane = shape.rows.size * shape.columns.size, pitched = bands_.isWhole ? plane : elements_;
    const int64_t elements =
        bands_.isWhole ? std::min(elements_, plane - row * shape.columns.size - column) : elements_;
    const WindowGrid grid{offsets_.data(), taps(), shape.columns.count, height, width, taps() * step_};
    for (int64_t group = from / results_; group * results_ < to; ++group) {
      const int64_t first = std::max(from - group * results_, int64_t{0});
      const int64_t past = std::min(to - group * results_, results_);
      const int64_t number = image * groups_ + group;
      const float *frame = bands_.cut(own, images + number * shape.channels * plane, band);
      kernels.turn(turned, step_, frame, pitched, shape.channels, elements);
      // Lines of the gradient are often a power of two apart, and would push each other out of the first cache.
      const int64_t runs = width == columns_ ? 1 : height, length = width * height / runs;
      for (int64_t run = first * runs; run < past * runs; ++run) {
        const int64_t channel = run / runs, y = run % runs;
        const float *read = gradient + ((number * results_ + channel) * rows_ + row + y) * columns_ + column;
        std::copy_n(read, length, left + channel * pitch() + y * width);
      }
      for (int64_t channel = first; channel < past; channel += channelsAtOnce()) {
        checkStop();
        kernels.taps(part + (group * results_ + channel) * taps() * step_, left + channel * pitch(), pitch(), turned,
                     grid, step_, std::min(channelsAtOnce(), past - channel), adds);
      }
    }
  }

private:
  static constexpr int64_t kChannels = 16; ///< a vector's, or two
  int64_t pitch() const { return bands_.windows() + 16; }
  /// Of the gradient: so many that a run can be stopped between them.
  int64_t channelsAtOnce() const {
    constexpr int64_t kTile = 12;
    const double work = 2.0 * static_cast<double>(bands_.windows() * kTile) * static_cast<double>(taps() * step_);
    return kTile * std::max<int64_t>(1, static_cast<int64_t>(kPieceWorkMost / work));
  }

  int64_t groups_, results_, rows_, columns_, step_;
  Bands bands_;
  int64_t elements_ = 0;         ///< of a frame's channel
  std::vector<int64_t> offsets_; ///< of each tap
};

} // namespace

void lowerFrameGradWeight(Lowering &lowering, const GraphOp &op) {
  const TensorType y = lowering.type(op.operands[0]), x = lowering.type(op.operands[1]),
                   w = lowering.type(op.results[0]);
  WideInput gradient(lowering, op.operands[0]), images(lowering, op.operands[1]);
  WideOutput out(lowering, op.results[0]);
  const ConvOptions options = optionsOf(op);
  const Spatial spatial(x, w, y, options);
  const int64_t channels = w.dims[1];
  auto plan = std::make_shared<const FrameWeights>(overImage(spatial.rows), overImage(spatial.columns), x.dims[0],
                                                   options.groups, channels, w.dims[0] / options.groups);
  const double work = workOf(y, x, w), pieceMost = pieceWorkMost(Element::f32, w);
  const Partition pieces = partsOf(plan->items, x, y, w, work, pieceMost);
  // Few parts: the gradient's channels are cut as well.
  const int64_t results = plan->results();
  const int64_t cuts =
      pieces.rows < kImagesOnly || work / static_cast<double>(pieces.rows) > pieceMost
          ? evenly(std::min(ceilDiv(results, 8), std::max<int64_t>(1, piecesMost(work, pieceMost) / pieces.rows / 2)),
                   piecesWorth(work) / static_cast<double>(pieces.rows))
          : 1;
  const int64_t elements = plan->elements(), taps = plan->taps(), step = plan->step();
  const Place parts = lowering.scratch(lines(elements * pieces.rows));
  lowering.workerScratch(plan->scratch());
  lowering.libraryCalls(op, pieces.rows * cuts);
  auto kernel = [=](SlotTable slots, int64_t lo, int64_t hi, unsigned worker) {
    for (int64_t row = lo; row < hi; ++row) {
      const int64_t part = row / cuts, cut = row % cuts, first = pieces.begin(part);
      for (int64_t item = first; item < pieces.begin(part + 1); ++item) {
        plan->run(parts.in<float>(slots) + part * elements, images.place().in<float>(slots),
                  gradient.place().in<float>(slots), slots.scratch(worker), item, results * cut / cuts,
                  results * (cut + 1) / cuts, item != first);
      }
    }
  };
  lowering.emitPart(op, makeKernel(kernel, pieces.rows * cuts, plan->held()));
  const Partition rows(plan->results(), taps * step * pieces.rows);
  const VectorFn add = vectorKernel(EOp::add, Element::f32, 0);
  auto sum = [=, parted = pieces.rows](SlotTable slots, int64_t lo, int64_t hi) {
    for (int64_t row = rows.begin(lo); row < rows.begin(hi); ++row) {
      float *first = parts.in<float>(slots) + row * taps * step;
      for (int64_t part = 1; part < parted; ++part) {
        add(first, first, first + part * elements, nullptr, taps * step);
      }
      frameKernels(Element::f32)
          .turn(out.place().in<float>(slots) + row * channels * taps, taps, first, step, taps, channels);
    }
  };
  lowering.emit(op, makeKernel(sum, rows.rows));
}

} // namespace sojourn::runtime
