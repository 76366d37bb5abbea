// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients on the library, cut into groups of images by shape alone.
#include "runtime/Elements.h"
#include "runtime/Library.h"
#include <bit>

namespace sojourn::runtime {

namespace {

using ConvFn = void (*)(const LibraryView &out, const LibraryView &a, const LibraryView &b, const ConvOptions &options);

ConvOptions optionsOf(const GraphOp &op) {
  return {op.ints("stride"), op.ints("padding"), op.ints("dilation"), op.integer("groups")};
}

/// Where an operand has no element the library refuses; the result is then zero.
bool isEmpty(Lowering &lowering, const GraphOp &op) {
  return llvm::any_of(op.operands, [&](ValueId value) { return lowering.type(value).numel() == 0; }) ||
         lowering.type(op.results[0]).numel() == 0;
}

/// Multiplications and additions: each element of `image` (a result or its gradient, [N, C, ...])
/// takes part in one product with each weight of its channel.
double workOf(const TensorType &image, const TensorType &weight) {
  return 2.0 * static_cast<double>(image.numel()) * static_cast<double>(weight.numel()) /
         static_cast<double>(std::max<int64_t>(weight.dims[0], 1));
}

/// Work that pays for a library call of its own, which prepares weights anew.
constexpr double kPieceWork = 8e6;
constexpr int64_t kPiecesMax = 16;

/// Groups of images. A power of two of them, so that they fall evenly on threads.
Partition piecesOf(int64_t images, double work) {
  int64_t pieces = std::min({images, static_cast<int64_t>(std::min(work / kPieceWork, 1e6)), kPiecesMax});
  pieces = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(pieces, 1))));
  return Partition(images, int64_t{1} << 40, pieces);
}

LibraryView viewOf(Place place, Element element, const TensorType &type, SlotTable slots) {
  LibraryView view;
  view.element = element;
  view.data = place.in(slots);
  view.dims.assign(type.dims.begin(), type.dims.end());
  auto strides = denseStrides(type.dims);
  view.strides.assign(strides.begin(), strides.end());
  return view;
}

/// One image has nothing to be cut into: if it is large, the call gets the fixed team.
std::unique_ptr<Kernel> withTeam(std::unique_ptr<Kernel> kernel, double work) {
  kernel->wholeTeam = kernel->rows == 1 && work >= 2 * kPieceWork;
  return kernel;
}

/// A result per image of the first operand: a convolution, or its gradient by the images.
template <ConvFn compute>
void emitPerImage(Lowering &lowering, const GraphOp &op, double work) {
  WideInput a(lowering, op.operands[0]), b(lowering, op.operands[1]);
  WideOutput out(lowering, op.results[0]);
  TensorType first = lowering.type(op.operands[0]), second = lowering.type(op.operands[1]),
             result = lowering.type(op.results[0]);
  Partition pieces = piecesOf(result.dims[0], work);
  ConvOptions options = optionsOf(op);
  auto kernel = makeKernel(
      [=](SlotTable slots, int64_t lo, int64_t hi) {
        eachRow(pieces, lo, hi, [&](int64_t image, int64_t past) {
          compute(narrowed(viewOf(out.place(), out.element, result, slots), 0, image, past),
                  narrowed(viewOf(a.place(), a.element, first, slots), 0, image, past),
                  viewOf(b.place(), b.element, second, slots), options);
        });
      },
      pieces.rows);
  lowering.emit(op, withTeam(std::move(kernel), work));
}

void lowerConv(Lowering &lowering, const GraphOp &op) {
  if (isEmpty(lowering, op)) {
    emitZeros(lowering, op);
    return;
  }
  emitPerImage<libraryConvolve>(lowering, op, workOf(lowering.type(op.results[0]), lowering.type(op.operands[1])));
}

void lowerConvGradInput(Lowering &lowering, const GraphOp &op) {
  if (isEmpty(lowering, op)) {
    emitZeros(lowering, op);
    return;
  }
  emitPerImage<libraryConvolveGradInput>(lowering, op,
                                         workOf(lowering.type(op.operands[0]), lowering.type(op.operands[1])));
}

/// Groups of images for a gradient by weights: each gives a part of the sum, and the parts may not
/// take much more memory than the operands do.
Partition partsOf(const TensorType &images, const TensorType &gradients, const TensorType &result, double work) {
  Partition pieces = piecesOf(images.dims[0], work);
  int64_t room = std::max<int64_t>(2 * (images.numel() + gradients.numel()) / result.numel(), 1);
  auto fewer = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::min(pieces.rows, room))));
  return Partition(images.dims[0], int64_t{1} << 40, fewer);
}

/// The parts of the groups are added in order.
void lowerConvGradWeight(Lowering &lowering, const GraphOp &op) {
  if (isEmpty(lowering, op)) {
    emitZeros(lowering, op);
    return;
  }
  WideInput gradient(lowering, op.operands[0]), x(lowering, op.operands[1]);
  WideOutput out(lowering, op.results[0]);
  TensorType gradients = lowering.type(op.operands[0]), images = lowering.type(op.operands[1]),
             result = lowering.type(op.results[0]);
  double work = workOf(gradients, result);
  Partition pieces = partsOf(images, gradients, result, work);
  ConvOptions options = optionsOf(op);
  size_t bytes = static_cast<size_t>(result.numel()) * byteWidth(out.element);
  Place parts = pieces.rows == 1 ? out.place() : lowering.scratch(bytes * static_cast<size_t>(pieces.rows));
  auto kernel = makeKernel(
      [=](SlotTable slots, int64_t lo, int64_t hi) {
        for (int64_t row = lo; row < hi; ++row) {
          int64_t image = pieces.begin(row), past = pieces.begin(row + 1);
          LibraryView part = viewOf(parts, out.element, result, slots);
          part.data = parts.in(slots) + static_cast<size_t>(row) * bytes;
          libraryConvolveGradWeight(
              part, narrowed(viewOf(x.place(), x.element, images, slots), 0, image, past),
              narrowed(viewOf(gradient.place(), gradient.element, gradients, slots), 0, image, past), options);
        }
      },
      pieces.rows);
  if (pieces.rows == 1) {
    lowering.emit(op, withTeam(std::move(kernel), work));
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

void addConvolutionKernels(llvm::StringMap<LowerFn> &table) {
  table["conv"] = lowerConv;
  table["conv_grad_input"] = lowerConvGradInput;
  table["conv_grad_weight"] = lowerConvGradWeight;
}

} // namespace sojourn::runtime
