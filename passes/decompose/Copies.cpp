// SPDX-License-Identifier: Apache-2.0
// Views under the names of their copying forms, where a recorder kept them as calls.
#include "passes/decompose/Call.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

Results selectCopy(Call &c) {
  Term x = c.in("self");
  int64_t dim = wrapDim(c.integer("dim"), x.rank());
  int64_t index = wrapDim(c.integer("index"), x.dim(dim));
  return squeeze(sliceDim(x, dim, index, index + 1), dim);
}

Results sliceCopy(Call &c) {
  Term x = c.in("self");
  int64_t dim = wrapDim(c.integer("dim"), x.rank());
  int64_t size = x.dim(dim), start = c.integer("start"), step = c.integer("step", 1);
  start = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
  int64_t count = c.shape()[dim];
  return sliceDim(x, dim, start, count == 0 ? start : start + (count - 1) * step + 1, step);
}

Results narrowCopy(Call &c) {
  Term x = c.in("self");
  int64_t dim = wrapDim(c.integer("dim"), x.rank()), start = c.integer("start");
  start = start < 0 ? start + x.dim(dim) : start;
  return sliceDim(x, dim, start, start + c.integer("length"));
}

/// Reads at positions offset + sum of stride * index of the flat tensor.
Results stridedCopy(Call &c) {
  Term x = c.in("self");
  Term at = broadcastTo(constantInt(c.emitter, c.integer("storage_offset"), c.i64()), c.shape());
  for (auto [dim, stride] : llvm::enumerate(c.ints("stride"))) {
    at = at + positions(at, static_cast<int64_t>(dim)) * static_cast<double>(stride);
  }
  return take(reshape(x, {x.numel()}), at, 0);
}

/// In the two dimensions flattened a diagonal is a stepped slice.
Results diagonalCopy(Call &c) {
  Term x = c.in("self");
  int64_t first = wrapDim(c.integer("dim1"), x.rank()), second = wrapDim(c.integer("dim2", 1), x.rank());
  Shape perm;
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    if (dim != first && dim != second) {
      perm.push_back(dim);
    }
  }
  perm.append({first, second});
  x = transpose(x, perm);
  int64_t columns = x.dim(-1), offset = c.integer("offset"), count = c.shape().back();
  Shape flat(x.shape().drop_back(2));
  flat.push_back(x.dim(-2) * columns);
  int64_t start = count == 0 ? 0 : offset >= 0 ? offset : -offset * columns;
  return sliceDim(reshape(x, flat), static_cast<int64_t>(flat.size()) - 1, start,
                  count == 0 ? 0 : start + (count - 1) * (columns + 1) + 1, columns + 1);
}

Results unfoldCopy(Call &c) {
  Term x = c.in("self");
  if (x.rank() == 0) {
    return reshape(x, c.shape());
  }
  int64_t dim = wrapDim(c.integer("dimension"), x.rank());
  Shape grid = {c.shape()[dim], c.integer("size")};
  Term index =
      iota(c.emitter, grid, 0, c.i64()) * static_cast<double>(c.integer("step")) + iota(c.emitter, grid, 1, c.i64());
  return moveDim(take(x, index, dim), dim + 1, x.rank());
}

Results blockDiagonal(Call &c) {
  SmallVector<Term, 4> rows;
  int64_t width = c.shape()[1], at = 0;
  for (Term x : c.list("tensors")) {
    x = convert(x, c.element());
    x = x.rank() == 2 ? x : reshape(x, {1, x.numel()});
    rows.push_back(pad(x, constantLike(x, 0), {0, at}, {0, width - at - x.dim(1)}, {0, 0}));
    at += x.dim(1);
  }
  return concat(rows, 0);
}

} // namespace

void addCopies(Table &t) {
  t.add({"select_copy"}, selectCopy);
  t.add({"slice_copy"}, sliceCopy);
  t.add({"narrow_copy"}, narrowCopy);
  t.add({"as_strided_copy"}, stridedCopy);
  t.add({"diagonal_copy"}, diagonalCopy);
  t.add({"unfold_copy"}, unfoldCopy);
  t.add({"block_diag"}, blockDiagonal);
}

} // namespace sojourn::decompose
