// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients on the library, cut into groups of images, and of channels where
// images are few, by shape alone.
#include "runtime/ConvolutionFrames.h"

namespace sojourn::runtime {

namespace {

using ConvFn = void (*)(const LibraryView &out, const LibraryView &a, const LibraryView &b, const ConvOptions &options);

/// Where an operand has no element the library refuses; the result is then zero.
bool isEmpty(Lowering &lowering, const GraphOp &op) {
  return llvm::any_of(op.operands, [&](ValueId value) { return lowering.type(value).numel() == 0; }) ||
         lowering.type(op.results[0]).numel() == 0;
}

/// What a piece takes of one operand: `unit` elements of dim `dim` for each channel (or group) of the
/// piece; all of it where `unit` is 0.
struct Share {
  size_t dim = 0;
  int64_t unit = 0;
};

/// A cut along the channels that a result has and is not summed over, or along whole groups where the
/// convolution has any: for few images, whose groups do not give each thread a piece.
struct ChannelCut {
  int64_t units = 1, align = 1, pieces = 1;
  bool groups = false;
  Share out, a, b;

  /// `channels` of the result, each worth one unit of the operand that has them as well.
  ChannelCut(const ConvOptions &options, int64_t channels, Share out, Share a, Share b)
      : units(channels), out(out), a(a), b(b) {
    constexpr int64_t kBlock = 16; // channels that the library's vectorized loops take together
    groups = options.groups > 1;
    align = groups || channels < 2 * kBlock ? 1 : kBlock;
  }
  void choose(double work, double pieceMost, int64_t imagePieces) {
    if (imagePieces < kImagesOnly || work / static_cast<double>(imagePieces) > pieceMost) {
      pieces = evenly(
          std::min((units + align - 1) / align, std::max<int64_t>(1, piecesMost(work, pieceMost) / imagePieces / 2)),
          piecesWorth(work) / static_cast<double>(imagePieces));
    }
  }
  int64_t begin(int64_t piece) const {
    int64_t blocks = (units + align - 1) / align;
    return std::min(units, blocks * piece / pieces * align);
  }
  LibraryView of(LibraryView view, const Share &share, int64_t piece) const {
    return share.unit == 0
               ? std::move(view)
               : narrowed(std::move(view), share.dim, begin(piece) * share.unit, begin(piece + 1) * share.unit);
  }
  ConvOptions optionsOf(ConvOptions options, int64_t piece) const {
    options.groups = groups ? begin(piece + 1) - begin(piece) : options.groups;
    return options;
  }
};

LibraryView viewOf(Place place, Element element, const TensorType &type, SlotTable slots) {
  LibraryView view;
  view.element = element;
  view.data = place.in(slots);
  view.dims.assign(type.dims.begin(), type.dims.end());
  auto strides = denseStrides(type.dims);
  view.strides.assign(strides.begin(), strides.end());
  return view;
}

/// The library copies each operand into a layout of its own, and its result back; or it lays out columns in each of
/// `pieces`.
void countLibraryMemory(Lowering &lowering, Element element, const TensorType &images, const TensorType &weight,
                        const TensorType &results, int64_t pieces) {
  const int64_t column = columnBytes(element, images.dims, weight.dims, results.dims);
  const auto all = static_cast<double>(column) * static_cast<double>(images.dims[0]);
  const double call = std::min(all, static_cast<double>(std::max(column, kColumnBytes)));
  const auto threads = static_cast<double>(std::min<int64_t>(pieces, libraryThreads()));
  const size_t copies = 2 * (images.bytes() + weight.bytes() + results.bytes());
  lowering.libraryMemory(copies + static_cast<size_t>(std::min(call * threads, 0x1p62)));
}

/// A result per image of the first operand: a convolution, or its gradient by the images.
template <ConvFn compute>
void emitPerImage(Lowering &lowering, const GraphOp &op, double work, ChannelCut cut) {
  WideInput a(lowering, op.operands[0]), b(lowering, op.operands[1]);
  WideOutput out(lowering, op.results[0]);
  TensorType first = lowering.type(op.operands[0]), second = lowering.type(op.operands[1]),
             result = lowering.type(op.results[0]);
  const double pieceMost = pieceWorkMost(out.element, second);
  Partition pieces = piecesOf(result.dims[0], work, pieceMost);
  cut.choose(work, pieceMost, pieces.rows);
  countLibraryMemory(lowering, out.element, compute == libraryConvolve ? first : result, second,
                     compute == libraryConvolve ? result : first, pieces.rows * cut.pieces);
  lowering.libraryCalls(op, pieces.rows * cut.pieces);
  ConvOptions options = optionsOf(op);
  lowering.emit(
      op, makeKernel(
              [=](SlotTable slots, int64_t lo, int64_t hi) {
                for (int64_t row = lo; row < hi; ++row) {
                  int64_t channels = row % cut.pieces, images = row / cut.pieces;
                  int64_t image = pieces.begin(images), past = pieces.begin(images + 1);
                  LibraryView target = viewOf(out.place(), out.element, result, slots);
                  compute(cut.of(narrowed(std::move(target), 0, image, past), cut.out, channels),
                          cut.of(narrowed(viewOf(a.place(), a.element, first, slots), 0, image, past), cut.a, channels),
                          cut.of(viewOf(b.place(), b.element, second, slots), cut.b, channels),
                          cut.optionsOf(options, channels));
                }
              },
              pieces.rows * cut.pieces));
}

/// Units of each operand for a cut by groups; an image has its channels in dim 1, a weight in dim 0.
int64_t perGroup(int64_t size, const ConvOptions &options) { return size / options.groups; }

void lowerConv(Lowering &lowering, const GraphOp &op) {
  if (isEmpty(lowering, op)) {
    emitZeros(lowering, op);
    return;
  }
  if (ownsConvolution(Convolved::forward, lowering.type(op.operands[0]), lowering.type(op.operands[1]),
                      lowering.type(op.results[0]), optionsOf(op))) {
    lowerFrameConvolution(lowering, op);
    return;
  }
  const TensorType &x = lowering.type(op.operands[0]), &w = lowering.type(op.operands[1]),
                   &y = lowering.type(op.results[0]);
  ConvOptions options = optionsOf(op);
  ChannelCut cut = options.groups == 1
                       ? ChannelCut(options, y.dims[1], {1, 1}, {}, {0, 1})
                       : ChannelCut(options, options.groups, {1, perGroup(y.dims[1], options)},
                                    {1, perGroup(x.dims[1], options)}, {0, perGroup(w.dims[0], options)});
  emitPerImage<libraryConvolve>(lowering, op, workOf(y, x, w), cut);
}

void lowerConvGradInput(Lowering &lowering, const GraphOp &op) {
  if (isEmpty(lowering, op)) {
    emitZeros(lowering, op);
    return;
  }
  if (ownsConvolution(Convolved::gradInput, lowering.type(op.results[0]), lowering.type(op.operands[1]),
                      lowering.type(op.operands[0]), optionsOf(op))) {
    lowerFrameGradInput(lowering, op);
    return;
  }
  const TensorType &y = lowering.type(op.operands[0]), &w = lowering.type(op.operands[1]),
                   &x = lowering.type(op.results[0]);
  ConvOptions options = optionsOf(op);
  ChannelCut cut = options.groups == 1
                       ? ChannelCut(options, x.dims[1], {1, 1}, {}, {1, 1})
                       : ChannelCut(options, options.groups, {1, perGroup(x.dims[1], options)},
                                    {1, perGroup(y.dims[1], options)}, {0, perGroup(w.dims[0], options)});
  emitPerImage<libraryConvolveGradInput>(lowering, op, workOf(y, x, w), cut);
}

/// The parts of the groups of images are added in order.
void lowerConvGradWeight(Lowering &lowering, const GraphOp &op) {
  if (isEmpty(lowering, op)) {
    emitZeros(lowering, op);
    return;
  }
  if (ownsConvolution(Convolved::gradWeight, lowering.type(op.operands[1]), lowering.type(op.results[0]),
                      lowering.type(op.operands[0]), optionsOf(op))) {
    lowerFrameGradWeight(lowering, op);
    return;
  }
  WideInput gradient(lowering, op.operands[0]), x(lowering, op.operands[1]);
  WideOutput out(lowering, op.results[0]);
  TensorType gradients = lowering.type(op.operands[0]), images = lowering.type(op.operands[1]),
             result = lowering.type(op.results[0]);
  double work = workOf(gradients, images, result);
  const double pieceMost = pieceWorkMost(out.element, result);
  Partition pieces = partsOf(images.dims[0], images, gradients, result, work, pieceMost);
  ConvOptions options = optionsOf(op);
  // The library's operands are the images and then the gradient.
  ChannelCut cut = options.groups == 1
                       ? ChannelCut(options, result.dims[0], {0, 1}, {}, {1, 1})
                       : ChannelCut(options, options.groups, {0, perGroup(result.dims[0], options)},
                                    {1, perGroup(images.dims[1], options)}, {1, perGroup(gradients.dims[1], options)});
  cut.choose(work, pieceMost, pieces.rows);
  lowering.libraryCalls(op, pieces.rows * cut.pieces);
  countLibraryMemory(lowering, out.element, images, result, gradients, pieces.rows * cut.pieces);
  size_t bytes = static_cast<size_t>(result.numel()) * byteWidth(out.element);
  Place parts = pieces.rows == 1 ? out.place() : lowering.scratch(bytes * static_cast<size_t>(pieces.rows));
  auto kernel = makeKernel(
      [=](SlotTable slots, int64_t lo, int64_t hi) {
        for (int64_t row = lo; row < hi; ++row) {
          int64_t channels = row % cut.pieces, number = row / cut.pieces;
          int64_t image = pieces.begin(number), past = pieces.begin(number + 1);
          LibraryView part = viewOf(parts, out.element, result, slots);
          part.data = parts.in(slots) + static_cast<size_t>(number) * bytes;
          LibraryView from = viewOf(x.place(), x.element, images, slots);
          LibraryView by = viewOf(gradient.place(), gradient.element, gradients, slots);
          libraryConvolveGradWeight(cut.of(std::move(part), cut.out, channels),
                                    cut.of(narrowed(std::move(from), 0, image, past), cut.a, channels),
                                    cut.of(narrowed(std::move(by), 0, image, past), cut.b, channels),
                                    cut.optionsOf(options, channels));
        }
      },
      pieces.rows * cut.pieces);
  if (pieces.rows == 1) {
    lowering.emit(op, std::move(kernel));
    return;
  }
  lowering.emitPart(op, std::move(kernel));
  VectorFn add = vectorKernel(EOp::add, out.element, 0);
  Partition elements(result.numel(), pieces.rows);
  size_t width = byteWidth(out.element);
  lowering.emit(op, makeKernel(
                        [=](SlotTable slots, int64_t lo, int64_t hi) {
                          size_t from = static_cast<size_t>(elements.begin(lo)) * width;
                          int64_t count = elements.begin(hi) - elements.begin(lo);
                          char *target = out.place().in(slots) + from;
                          const char *part = parts.in(slots) + from;
                          std::memcpy(target, part, static_cast<size_t>(count) * width);
                          for (int64_t row = 1; row < pieces.rows; ++row) {
                            add(target, target, part + static_cast<size_t>(row) * bytes, nullptr, count);
                          }
                        },
                        elements.rows));
}

} // namespace

const LowerFn kernels::lower_conv = lowerConv;
const LowerFn kernels::lower_conv_grad_input = lowerConvGradInput;
const LowerFn kernels::lower_conv_grad_weight = lowerConvGradWeight;

} // namespace sojourn::runtime
