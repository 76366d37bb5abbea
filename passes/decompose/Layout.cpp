// SPDX-License-Identifier: Apache-2.0
// Joining, repeating, turning and masking by position.
#include "passes/decompose/Call.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

Results cat(Call &c) {
  // ATen skips empty vectors whatever the rank of the others.
  SmallVector<Term, 4> parts;
  for (Term x : c.list("tensors")) {
    if (!(x.rank() == 1 && x.numel() == 0 && c.shape().size() != 1)) {
      parts.push_back(convert(x, c.element()));
    }
  }
  if (parts.empty()) {
    return full(c.emitter, c.shape(), 0, c.element());
  }
  return concat(parts, wrapDim(c.integer("dim"), parts[0].rank()));
}

Results stack(Call &c) {
  int64_t dim = wrapDim(c.integer("dim"), c.shape().size());
  SmallVector<Term, 4> parts;
  for (Term x : c.list("tensors")) {
    parts.push_back(unsqueeze(convert(x, c.element()), dim));
  }
  return concat(parts, dim);
}

Results repeat(Call &c) {
  Term x = c.in("self");
  Shape repeats = c.ints("repeats");
  if (product(c.shape()) == 0) {
    return full(c.emitter, c.shape(), 0, x.element());
  }
  // Each dimension of size s repeated r times is [r, s], merged.
  int64_t extra = static_cast<int64_t>(repeats.size()) - x.rank();
  Shape split, dims;
  for (auto [i, count] : llvm::enumerate(repeats)) {
    split.push_back(count);
    if (static_cast<int64_t>(i) >= extra) {
      dims.push_back(static_cast<int64_t>(split.size()));
      split.push_back(x.dim(static_cast<int64_t>(i) - extra));
    }
  }
  return reshape(broadcastDims(x, split, dims), c.shape());
}

Term rolled(Term x, int64_t dim, int64_t shift) {
  int64_t size = x.dim(dim);
  if (size == 0) {
    return x;
  }
  int64_t start = ((-shift) % size + size) % size;
  if (start == 0) {
    return x;
  }
  return concat({sliceDim(x, dim, start, size), sliceDim(x, dim, 0, start)}, dim);
}

/// The same by a number of the run: out of what is there twice.
Term rolledBy(Term x, int64_t dim, Term shift) {
  int64_t size = x.dim(dim);
  if (size == 0) {
    return x;
  }
  auto length = static_cast<double>(size);
  Term start = rem(length - rem(shift, constantLike(shift, length)), constantLike(shift, length));
  return sliceFrom(concat({x, x}, dim), dim, start, size);
}

Results roll(Call &c) {
  Term x = c.in("self");
  Shape dims = c.ints("dims");
  Shape shape(x.shape());
  bool isFlat = dims.empty();
  if (isFlat) {
    x = reshape(x, {x.numel()});
    dims = {0};
  }
  for (auto [k, dim] : llvm::enumerate(dims)) {
    dim = wrapDim(dim, x.rank());
    Term shift = c.runInteger("shifts", k);
    x = shift ? rolledBy(x, dim, shift) : rolled(x, dim, c.entryInteger("shifts", k));
  }
  return reshape(x, shape);
}

Results flip(Call &c) {
  Term x = c.in("self");
  Shape dims = c.ints("dims");
  for (int64_t &dim : dims) {
    dim = wrapDim(dim, x.rank());
  }
  llvm::sort(dims);
  return x.rank() == 0 ? x : reverse(x, dims);
}

Results rot90(Call &c) {
  Term x = c.in("self");
  Shape dims = c.ints("dims");
  int64_t a = wrapDim(dims[0], x.rank()), b = wrapDim(dims[1], x.rank());
  Shape perm = allDims(x);
  std::swap(perm[a], perm[b]);
  switch (((c.integer("k", 1) % 4) + 4) % 4) {
  case 1: return transpose(reverse(x, {b}), perm);
  case 2: return reverse(x, {std::min(a, b), std::max(a, b)});
  case 3: return transpose(reverse(x, {a}), perm);
  default: return x;
  }
}

/// Keeps one side of a diagonal of the last two dimensions.
Results triangle(Call &c) {
  Term x = c.in("self");
  Shape shape(x.shape().take_back(2));
  Term row = iota(c.emitter, shape, 0, c.i64());
  Term diagonal = c.runInteger("diagonal");
  row = diagonal ? row + diagonal : row + static_cast<double>(c.integer("diagonal"));
  Term column = iota(c.emitter, shape, 1, c.i64());
  Term kept = c.base == "tril" ? column <= row : column >= row;
  return select(kept, x, 0.0);
}

Shape shapeAfter(Dims lead, std::initializer_list<int64_t> rest) {
  Shape shape(lead);
  shape.append(rest);
  return shape;
}

/// Permutes the dimensions after the first `lead`.
Term permuteTail(Term x, int64_t lead, std::initializer_list<int64_t> order) {
  Shape perm;
  for (int64_t i = 0; i < lead; ++i) {
    perm.push_back(i);
  }
  for (int64_t i : order) {
    perm.push_back(lead + i);
  }
  return transpose(x, perm);
}

Results pixelShuffle(Call &c) {
  Term x = c.in("self");
  int64_t r = c.integer("upscale_factor");
  Dims lead = x.shape().drop_back(3);
  int64_t h = x.dim(-2), w = x.dim(-1);
  Term split = reshape(x, shapeAfter(lead, {quotient(x.dim(-3), r * r), r, r, h, w}));
  return reshape(permuteTail(split, lead.size(), {0, 3, 1, 4, 2}), c.shape());
}

Results pixelUnshuffle(Call &c) {
  Term x = c.in("self");
  int64_t r = c.integer("downscale_factor");
  Dims lead = x.shape().drop_back(3);
  int64_t h = quotient(x.dim(-2), r), w = quotient(x.dim(-1), r);
  Term split = reshape(x, shapeAfter(lead, {x.dim(-3), h, r, w, r}));
  return reshape(permuteTail(split, lead.size(), {0, 2, 4, 1, 3}), c.shape());
}

Results channelShuffle(Call &c) {
  Term x = c.in("self");
  int64_t groups = c.integer("groups");
  Term split = reshape(x, {x.dim(0), groups, quotient(x.dim(1), groups), quotient(x.numel(), x.dim(0) * x.dim(1))});
  return reshape(transpose(split, {0, 2, 1, 3}), c.shape());
}

/// Same elements in order: copies of views that kept the name of a view.
Results reshaped(Call &c) { return reshape(c.in("self"), c.shape()); }

Results permuted(Call &c) {
  Term x = c.in("self");
  Shape perm = allDims(x);
  if (c.base.starts_with("t_copy")) {
    std::reverse(perm.begin(), perm.end());
  } else if (c.has("dims")) {
    perm = c.ints("dims");
    for (int64_t &dim : perm) {
      dim = wrapDim(dim, x.rank());
    }
  } else if (x.rank() > 0) {
    std::swap(perm[wrapDim(c.integer("dim0"), x.rank())], perm[wrapDim(c.integer("dim1"), x.rank())]);
  }
  return transpose(x, perm);
}

/// Parts along a dimension as fresh tensors; the recorded sizes say where.
Results parts(Call &c) {
  Term x = c.in("self");
  int64_t dim = wrapDim(c.integer("dim"), x.rank());
  SmallVector<Term, 4> results;
  int64_t start = 0;
  for (size_t i = 0; i < c.resultCount(); ++i) {
    int64_t size = c.base.starts_with("unbind") ? 1 : c.shape(i)[dim];
    results.push_back(reshape(sliceDim(x, dim, start, start + size), c.shape(i)));
    start += size;
  }
  return results;
}

/// Positions in the input that each element of each window reads, [kernel, windows] along spatial dimension i;
/// what lies in the padding is out of range.
Term windowPositions(Call &c, int64_t i, int64_t windows) {
  Shape kernel = c.spatial("kernel_size", 2, {1}), dilation = c.spatial("dilation", 2, {1});
  Shape padding = c.spatial("padding", 2, {0}), stride = c.spatial("stride", 2, {1});
  Shape shape = {kernel[i], windows};
  return iota(c.emitter, shape, 0, c.i64()) * static_cast<double>(dilation[i]) +
         iota(c.emitter, shape, 1, c.i64()) * static_cast<double>(stride[i]) - static_cast<double>(padding[i]);
}

int64_t windowCount(Call &c, int64_t i, int64_t size) {
  Shape kernel = c.spatial("kernel_size", 2, {1}), dilation = c.spatial("dilation", 2, {1});
  Shape padding = c.spatial("padding", 2, {0}), stride = c.spatial("stride", 2, {1});
  return quotient(size + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1, stride[i]) + 1;
}

/// Every window as a column.
Results imageToColumns(Call &c) {
  Term x = c.in("self");
  int64_t rows = windowCount(c, 0, x.dim(-2)), columns = windowCount(c, 1, x.dim(-1));
  x = take(x, windowPositions(c, 0, rows), x.rank() - 2);
  x = take(x, windowPositions(c, 1, columns), x.rank() - 1);
  return reshape(permuteTail(x, x.rank() - 4, {0, 2, 1, 3}), c.shape());
}

/// The adjoint: overlapping windows add up.
Results columnsToImage(Call &c) {
  Term x = c.in("self");
  Shape size = c.ints("output_size"), kernel = c.spatial("kernel_size", 2, {1});
  int64_t rows = windowCount(c, 0, size[0]), columns = windowCount(c, 1, size[1]);
  Dims lead = c.shape().drop_back(2);
  x = reshape(x, shapeAfter(lead, {kernel[0], kernel[1], rows, columns}));
  x = permuteTail(x, lead.size(), {0, 2, 1, 3});
  int64_t dim = static_cast<int64_t>(lead.size());
  Term lines = full(c.emitter, shapeAfter(lead, {kernel[0], rows, size[1]}), 0, x.element());
  lines = put(lines, windowPositions(c, 1, columns), x, dim + 2, "add");
  Term image = full(c.emitter, c.shape(), 0, x.element());
  return put(image, windowPositions(c, 0, rows), lines, dim, "add");
}

} // namespace

void addLayout(Table &t) {
  t.add({"cat", "_cat", "concat"}, cat);
  t.add({"stack", "_stack"}, stack);
  t.add({"repeat"}, repeat);
  t.add({"roll"}, roll);
  t.add({"flip"}, flip);
  t.add({"rot90"}, rot90);
  t.add({"tril", "triu"}, triangle);
  t.add({"pixel_shuffle"}, pixelShuffle);
  t.add({"pixel_unshuffle"}, pixelUnshuffle);
  t.add({"split_with_sizes_copy", "split_copy", "unsafe_split", "unsafe_split_with_sizes", "unbind_copy"}, parts);
  t.add({"im2col"}, imageToColumns);
  t.add({"col2im"}, columnsToImage);
  t.add({"channel_shuffle", "native_channel_shuffle"}, channelShuffle);
  t.add({"_unsafe_view", "_reshape_alias", "_reshape_copy", "view_copy", "squeeze_copy", "unsqueeze_copy", "view",
         "reshape"},
        reshaped);
  t.add({"permute_copy", "transpose_copy", "t_copy", "permute", "transpose"}, permuted);
}

} // namespace sojourn::decompose
