// SPDX-License-Identifier: Apache-2.0
// How the work of a convolution is cut, by its shape alone.
#ifndef SOJOURN_RUNTIME_CONVOLUTIONPIECES_H
#define SOJOURN_RUNTIME_CONVOLUTIONPIECES_H
#include "runtime/Elements.h"
#include "runtime/Library.h"
#include <bit>

namespace sojourn::runtime {

inline ConvOptions optionsOf(const GraphOp &op) {
  return {op.ints("stride"), op.ints("padding"), op.ints("dilation"), op.integer("groups")};
}

/// Multiplications and additions: each element of the result's images (or of their gradient) takes part in one
/// product with each weight of its channel; and images go through memory, at so many operations per element.
inline double workOf(const TensorType &results, const TensorType &images, const TensorType &weight) {
  constexpr double kPerElement = 64;
  double products = 2.0 * static_cast<double>(results.numel()) * static_cast<double>(weight.numel()) /
                    static_cast<double>(std::max<int64_t>(weight.dims[0], 1));
  return products + kPerElement * (static_cast<double>(results.numel()) + static_cast<double>(images.numel()));
}

/// Work that pays for a library call of its own, which prepares weights anew; past a few pieces more of it.
inline constexpr double kPieceWork = 3.2e7, kFurtherWork = 2.5e8;
inline constexpr int64_t kFewPieces = 8, kPiecesMax = 16;
/// The largest piece, if there are images and channels to cut: a run can be stopped between two pieces.
inline constexpr double kPieceWorkMost = 2e9;

/// Smaller where a convolution is slower (passes/LibraryTime.cpp has the rates).
inline double pieceWorkMost(Element element, const TensorType &weight) {
  const int64_t taps = weight.numel() / std::max<int64_t>(1, weight.dims[0] * weight.dims[1]);
  const bool isThin = weight.dims[1] < 3 || taps > 49;
  return kPieceWorkMost / ((isThin ? 4 : 1) * (element == Element::f64 ? 4 : 1));
}
/// With so many groups of images, channels are left whole.
inline constexpr int64_t kImagesOnly = 4;

/// A power of two, so that pieces fall evenly on threads.
inline int64_t evenly(int64_t most, double wanted) {
  int64_t pieces = std::min(most, static_cast<int64_t>(std::min(wanted, 1e6)));
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(pieces, 1))));
}

/// How many pieces the work is worth.
inline double piecesWorth(double work) {
  return std::max(std::min(work / kPieceWork, static_cast<double>(kFewPieces)), work / kFurtherWork);
}

inline int64_t piecesMost(double work, double pieceMost) {
  return std::max(kPiecesMax, 2 * evenly(int64_t{1} << 20, work / pieceMost));
}

/// Groups of images.
inline Partition piecesOf(int64_t images, double work, double pieceMost) {
  const int64_t count = evenly(std::min(images, piecesMost(work, pieceMost)), piecesWorth(work));
  return Partition(images, int64_t{1} << 40, count);
}

/// Groups of images (or of their bands, `items` in all) for a gradient by weights: each gives a part of the sum, and
/// the parts may not take much more memory than the operands do.
inline Partition partsOf(int64_t items, const TensorType &images, const TensorType &gradients, const TensorType &result,
                         double work, double pieceMost) {
  Partition pieces = piecesOf(items, work, pieceMost);
  int64_t room = std::max<int64_t>(2 * (images.numel() + gradients.numel()) / result.numel(), 1);
  auto fewer = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::min(pieces.rows, room))));
  return Partition(items, int64_t{1} << 40, fewer);
}

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_CONVOLUTIONPIECES_H
