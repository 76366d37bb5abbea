// SPDX-License-Identifier: Apache-2.0
// View ops: the geometry of a window into argument 0's storage. Offsets are absolute.
#include "frontend/shapes/Rules.h"

#include <ATen/ExpandUtils.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/WrapDimUtilsMulti.h>

namespace sojourn::frontend::shapes {

namespace {

void appendView(ViewOutputs &out, IntArrayRef sizes, IntArrayRef strides, int64_t offset) {
  ViewMeta &meta = out.emplace_back();
  meta.sizes.assign(sizes.begin(), sizes.end());
  meta.strides.assign(strides.begin(), strides.end());
  meta.offset = offset;
}

ViewMeta &appendSelf(ViewOutputs &out, const Tensor &self) {
  appendView(out, self.sizes(), self.strides(), self.storage_offset());
  return out.back();
}

void identity(const FunctionSchema &, Arguments args, ViewOutputs &out) { appendSelf(out, tensorAt(args, 0)); }

void view(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  const Tensor &self = tensorAt(args, 0);
  at::DimVector sizes = at::infer_size_dv(dimsAt(args, 1), self.numel());
  std::optional<at::DimVector> strides = at::detail::computeStride(self.sizes(), self.strides(), sizes);
  TORCH_CHECK(
      strides.has_value(),
      "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
      "contiguous subspaces). Use .reshape(...) instead.");
  appendView(out, sizes, *strides, self.storage_offset());
}

/// view_as_real(self): parts in a new last dim.
void viewAsReal(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  const Tensor &self = tensorAt(args, 0);
  TORCH_CHECK(self.is_complex(), "view_as_real is only supported for complex tensors");
  TORCH_CHECK(!self.is_conj(),
              "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate "
              "tensor so you can view it as real, use self.resolve_conj(); however, be warned that the "
              "resulting tensor will NOT alias the original.");
  ViewMeta &meta = appendSelf(out, self);
  for (int64_t &stride : meta.strides) {
    stride *= 2;
  }
  meta.sizes.push_back(2);
  meta.strides.push_back(1);
  meta.offset *= 2;
  meta.dtype = c10::toRealValueType(self.scalar_type());
}

/// view_as_complex(self): pairs of the last dim.
void viewAsComplex(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  const Tensor &self = tensorAt(args, 0);
  TORCH_CHECK(self.scalar_type() == c10::kFloat || self.scalar_type() == c10::kDouble ||
                  self.scalar_type() == c10::kHalf,
              "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: ",
              self.scalar_type());
  TORCH_CHECK(!self.is_neg(), "view_as_complex doesn't work on unresolved negated tensors, use resolve_neg() first");
  TORCH_CHECK(self.dim() > 0, "Input tensor must have one or more dimensions");
  TORCH_CHECK(self.sizes().back() == 2, "Tensor must have a last dimension of size 2");
  TORCH_CHECK(self.strides().back() == 1, "Tensor must have a last dimension with stride 1");
  ViewMeta &meta = appendSelf(out, self);
  meta.sizes.pop_back();
  meta.strides.pop_back();
  for (size_t dim = 0; dim < meta.strides.size(); ++dim) {
    TORCH_CHECK(meta.sizes[dim] == 1 || meta.strides[dim] % 2 == 0,
                "Tensor must have a stride divisible by 2 for all but last dimension");
    meta.strides[dim] /= 2;
  }
  TORCH_CHECK(meta.offset % 2 == 0, "Tensor must have a storage_offset divisible by 2");
  meta.offset /= 2;
  meta.dtype = c10::toComplexType(self.scalar_type());
}

/// view.dtype(self, dtype): the same memory. Where widths differ, the last dim counts as many more or fewer elements.
void viewDtype(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  const Tensor &self = tensorAt(args, 0);
  const ScalarType from = self.scalar_type(), to = *dtypeAt(args, 1);
  TORCH_CHECK(!self.is_conj(), "torch.Tensor.view is not supported for conjugate view tensors when converting to a "
                               "different dtype.");
  TORCH_CHECK(!self.is_neg(), "torch.Tensor.view is not supported for tensors with negative bit set when converting to "
                              "a different dtype.");
  ViewMeta &meta = appendSelf(out, self);
  if (from == to) {
    return;
  }
  meta.dtype = to;
  const auto width = static_cast<int64_t>(c10::elementSize(from)), wanted = static_cast<int64_t>(c10::elementSize(to));
  if (width == wanted) {
    return;
  }
  TORCH_CHECK(self.dim() > 0, "self.dim() cannot be 0 to view ", from, " as ", to, " (different element sizes)");
  TORCH_CHECK(self.strides().back() == 1, "self.stride(-1) must be 1 to view ", from, " as ", to,
              " (different element sizes), but got ", self.strides().back());
  if (width > wanted) {
    const int64_t ratio = width / wanted;
    for (size_t dim = 0; dim + 1 < meta.strides.size(); ++dim) {
      meta.strides[dim] *= ratio;
    }
    meta.sizes.back() *= ratio;
    meta.offset *= ratio;
    return;
  }
  const int64_t ratio = wanted / width;
  TORCH_CHECK(self.sizes().back() % ratio == 0, "self.size(-1) must be divisible by ", ratio, " to view ", from, " as ",
              to, " (different element sizes), but got ", self.sizes().back());
  TORCH_CHECK(self.storage_offset() % ratio == 0, "self.storage_offset() must be divisible by ", ratio, " to view ",
              from, " as ", to, " (different element sizes), but got ", self.storage_offset());
  for (size_t dim = 0; dim + 1 < meta.strides.size(); ++dim) {
    TORCH_CHECK(meta.strides[dim] % ratio == 0, "self.stride(", dim, ") must be divisible by ", ratio, " to view ",
                from, " as ", to, " (different element sizes), but got ", meta.strides[dim]);
    meta.strides[dim] /= ratio;
  }
  meta.sizes.back() /= ratio;
  meta.offset /= ratio;
}

void reshapeAlias(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  appendView(out, dimsAt(args, 1), dimsAt(args, 2), tensorAt(args, 0).storage_offset());
}

void asStrided(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  Dims sizes = dimsAt(args, 1), strides = dimsAt(args, 2);
  TORCH_CHECK(sizes.size() == strides.size(), "mismatch in length of strides and shape");
  for (int64_t stride : strides) {
    TORCH_CHECK(stride >= 0,
                "as_strided: Negative strides are not supported at the moment, got strides: ", IntArrayRef(strides));
  }
  int64_t offset = intAt(args, 3).value_or(tensorAt(args, 0).storage_offset());
  TORCH_CHECK(offset >= 0, "Tensor: invalid storage offset ", offset);
  appendView(out, sizes, strides, offset);
}

void transpose(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  const Tensor &self = tensorAt(args, 0);
  int64_t left = at::maybe_wrap_dim(args[1].toInt(), self.dim());
  int64_t right = at::maybe_wrap_dim(args[2].toInt(), self.dim());
  ViewMeta &meta = appendSelf(out, self);
  if (left != right) {
    std::swap(meta.sizes[left], meta.sizes[right]);
    std::swap(meta.strides[left], meta.strides[right]);
  }
}

void matrixTranspose(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  const Tensor &self = tensorAt(args, 0);
  TORCH_CHECK(self.dim() <= 2, "t() expects a tensor with <= 2 dimensions, but self is ", self.dim(), "D");
  ViewMeta &meta = appendSelf(out, self);
  if (self.dim() == 2) {
    std::swap(meta.sizes[0], meta.sizes[1]);
    std::swap(meta.strides[0], meta.strides[1]);
  }
}

void permute(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  const Tensor &self = tensorAt(args, 0);
  Dims dims = dimsAt(args, 1);
  TORCH_CHECK(self.dim() == static_cast<int64_t>(dims.size()),
              "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
              "ordering of dimensions i.e. input.dim() = ",
              self.dim(), " is not equal to len(dims) = ", dims.size());
  ViewMeta &meta = appendSelf(out, self);
  c10::SmallVector<bool, 8> seen(dims.size(), false);
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t dim = at::maybe_wrap_dim(dims[i], self.dim());
    TORCH_CHECK(!seen[dim], "permute(): duplicate dims are not allowed.");
    seen[dim] = true;
    meta.sizes[i] = self.sizes()[dim];
    meta.strides[i] = self.strides()[dim];
  }
}

template <class Predicate>
void dropDims(const Tensor &self, ViewOutputs &out, Predicate drop) {
  ViewMeta &meta = out.emplace_back();
  meta.offset = self.storage_offset();
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    if (self.sizes()[dim] != 1 || !drop(dim)) {
      meta.sizes.push_back(self.sizes()[dim]);
      meta.strides.push_back(self.strides()[dim]);
    }
  }
}

void squeeze(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  dropDims(tensorAt(args, 0), out, [](int64_t) { return true; });
}

void squeezeDims(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  const Tensor &self = tensorAt(args, 0);
  Dims dims = dimsAt(args, 1);
  auto mask = at::dim_list_to_bitset(IntArrayRef(dims), self.dim());
  dropDims(self, out, [&](int64_t dim) { return mask[dim]; });
}

void unsqueeze(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  const Tensor &self = tensorAt(args, 0);
  int64_t dim = at::maybe_wrap_dim(args[1].toInt(), self.dim() + 1);
  int64_t stride = dim >= self.dim() ? 1 : self.sizes()[dim] * self.strides()[dim];
  ViewMeta &meta = appendSelf(out, self);
  meta.sizes.insert(meta.sizes.begin() + dim, 1);
  meta.strides.insert(meta.strides.begin() + dim, stride);
}

void expand(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  const Tensor &self = tensorAt(args, 0);
  Dims sizes = dimsAt(args, 1);
  TORCH_CHECK(static_cast<int64_t>(sizes.size()) >= self.dim(), "expand(", self.toString(), "{", self.sizes(),
              "}, size=", IntArrayRef(sizes), "): the number of sizes provided (", sizes.size(),
              ") must be greater or equal to the number of dimensions in the tensor (", self.dim(), ")");
  auto geometry = at::inferExpandGeometry_dimvector(self.sizes(), self.strides(), sizes);
  appendView(out, geometry.sizes, geometry.strides, self.storage_offset());
}

void slice(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  const Tensor &self = tensorAt(args, 0);
  TORCH_CHECK(self.dim() > 0, "slice() cannot be applied to a 0-dim tensor.");
  int64_t dim = at::maybe_wrap_dim(args[1].toInt(), self.dim());
  int64_t size = self.sizes()[dim];
  int64_t start = intAt(args, 2).value_or(0);
  int64_t end = intAt(args, 3).value_or(std::numeric_limits<int64_t>::max());
  int64_t step = intAt(args, 4).value_or(1);
  TORCH_CHECK(step > 0, "slice step must be positive");
  auto bound = [](int64_t value, int64_t low, int64_t high) { return std::min(std::max(value, low), high); };
  start = bound(start < 0 ? start + size : start, 0, size);
  end = bound(end < 0 ? end + size : end, start, size);
  ViewMeta &meta = appendSelf(out, self);
  meta.offset += start * meta.strides[dim];
  meta.sizes[dim] = (end - start) / step + ((end - start) % step != 0);
  meta.strides[dim] *= step;
}

void select(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  const Tensor &self = tensorAt(args, 0);
  TORCH_CHECK_INDEX(self.dim() > 0, "select() cannot be applied to a 0-dim tensor.");
  int64_t dim = at::maybe_wrap_dim(args[1].toInt(), self.dim());
  int64_t size = self.sizes()[dim];
  int64_t index = *intAt(args, 2);
  TORCH_CHECK_INDEX(-size <= index && index < size, "select(): index ", index, " out of range for tensor of size ",
                    self.sizes(), " at dimension ", dim);
  ViewMeta &meta = appendSelf(out, self);
  meta.offset += (index < 0 ? index + size : index) * meta.strides[dim];
  meta.sizes.erase(meta.sizes.begin() + dim);
  meta.strides.erase(meta.strides.begin() + dim);
}

void appendPart(const Tensor &self, int64_t dim, int64_t start, int64_t length, ViewOutputs &out) {
  ViewMeta &meta = appendSelf(out, self);
  meta.offset += start * meta.strides[dim];
  meta.sizes[dim] = length;
}

void split(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  const Tensor &self = tensorAt(args, 0);
  int64_t part = *intAt(args, 1);
  TORCH_CHECK(self.dim() != 0, "split expects at least a 1-dimensional tensor");
  TORCH_CHECK(part >= 0, "split expects split_size be non-negative, but got split_size=", part);
  int64_t dim = at::maybe_wrap_dim(args[2].toInt(), self.dim());
  int64_t size = self.sizes()[dim];
  TORCH_CHECK(part > 0 || size == 0, "split_size can only be 0 if dimension size is 0, but got dimension size of ",
              size);
  int64_t count = part == 0 ? 1 : std::max<int64_t>((size + part - 1) / part, 1);
  for (int64_t i = 0; i < count; ++i) {
    appendPart(self, dim, i * part, std::min(part, size - i * part), out);
  }
}

void splitWithSizes(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  const Tensor &self = tensorAt(args, 0);
  Dims parts = dimsAt(args, 1);
  TORCH_CHECK(self.dim() != 0, "split expects at least a 1-dimensional tensor");
  int64_t dim = at::maybe_wrap_dim(args[2].toInt(), self.dim());
  int64_t size = self.sizes()[dim], start = 0;
  for (int64_t part : parts) {
    TORCH_CHECK(part >= 0, "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=",
                IntArrayRef(parts));
    appendPart(self, dim, start, part, out);
    start += part;
  }
  TORCH_CHECK(start == size, "split_with_sizes expects split_sizes to sum exactly to ", size,
              " (input tensor's size at dimension ", dim, "), ", "but got split_sizes=", IntArrayRef(parts));
}

void unbind(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  const Tensor &self = tensorAt(args, 0);
  int64_t dim = at::maybe_wrap_dim(args[1].toInt(), self.dim());
  int64_t size = self.size(dim);
  for (int64_t i = 0; i < size; ++i) {
    ViewMeta &meta = appendSelf(out, self);
    meta.offset += i * meta.strides[dim];
    meta.sizes.erase(meta.sizes.begin() + dim);
    meta.strides.erase(meta.strides.begin() + dim);
  }
}

void diagonal(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  const Tensor &self = tensorAt(args, 0);
  int64_t shift = args[1].toInt();
  int64_t first = at::maybe_wrap_dim(args[2].toInt(), self.dim());
  int64_t second = at::maybe_wrap_dim(args[3].toInt(), self.dim());
  TORCH_CHECK(first != second, "diagonal dimensions cannot be identical ", args[2].toInt(), ", ", args[3].toInt());
  int64_t rows = self.sizes()[first], columns = self.sizes()[second];
  int64_t length = std::max<int64_t>(shift >= 0 ? std::min(rows, columns - shift) : std::min(rows + shift, columns), 0);
  ViewMeta &meta = appendSelf(out, self);
  if (length > 0) {
    meta.offset += shift >= 0 ? shift * self.strides()[second] : -shift * self.strides()[first];
  }
  int64_t step = self.strides()[first] + self.strides()[second];
  for (int64_t dim : {std::max(first, second), std::min(first, second)}) {
    meta.sizes.erase(meta.sizes.begin() + dim);
    meta.strides.erase(meta.strides.begin() + dim);
  }
  meta.sizes.push_back(length);
  meta.strides.push_back(step);
}

void unfold(const FunctionSchema &, Arguments args, ViewOutputs &out) {
  const Tensor &self = tensorAt(args, 0);
  int64_t dim = at::maybe_wrap_dim(args[1].toInt(), self.dim(), /*wrap_scalar=*/true);
  int64_t size = args[2].toInt(), step = args[3].toInt();
  TORCH_CHECK(step > 0, "step is ", step, " but must be > 0");
  TORCH_CHECK(size >= 0, "size is ", size, " but must be >= 0");
  int64_t limit = self.dim() == 0 ? 1 : self.sizes()[dim];
  TORCH_CHECK(size <= limit, "maximum size for tensor at dimension ", dim, " is ", limit, " but size is ", size);
  ViewMeta &meta = appendSelf(out, self);
  meta.sizes.push_back(size);
  meta.strides.push_back(self.dim() == 0 ? 1 : self.strides()[dim]);
  if (self.dim() > 0) {
    meta.sizes[dim] = (limit - size) / step + 1;
    meta.strides[dim] *= step;
  }
}

const ViewEntry kRules[] = {
    {"alias", identity},
    {"as_strided", asStrided},
    {"detach", identity},
    {"diagonal", diagonal},
    {"expand", expand},
    {"lift_fresh", identity},
    {"permute", permute},
    {"_reshape_alias", reshapeAlias},
    {"select.int", select},
    {"slice.Tensor", slice},
    {"split.Tensor", split},
    {"split_with_sizes", splitWithSizes},
    {"squeeze", squeeze},
    {"squeeze.dim", squeezeDims},
    {"squeeze.dims", squeezeDims},
    {"t", matrixTranspose},
    {"transpose.int", transpose},
    {"transpose", transpose},
    {"unbind.int", unbind},
    {"unfold", unfold},
    {"unsafe_split.Tensor", split},
    {"unsafe_split_with_sizes", splitWithSizes},
    {"_unsafe_view", view},
    {"unsqueeze", unsqueeze},
    {"view.", view},
    {"view.dtype", viewDtype},
    {"view_as_real", viewAsReal},
    {"view_as_complex", viewAsComplex},
};

/// transpose_copy.int, ...: contiguous copies of what the view op shows.
void viewCopy(const ShapeRule &op, Arguments args, Outputs &out) {
  std::string name = op.schema().name();
  name.erase(name.rfind("_copy"));
  std::string overload = op.schema().overload_name(); // "int", "int_out", "out"
  if (size_t out = overload.rfind("out"); out != std::string::npos) {
    overload.erase(out > 0 ? out - 1 : 0);
  }
  if (!overload.empty()) {
    name += "." + overload;
  }
  ViewRule rule = findViewRule(name);
  TORCH_CHECK_NOT_IMPLEMENTED(rule, "no view rule for ", name);
  c10::SmallVector<ViewMeta, 4> views;
  rule(op.schema(), args, views);
  for (const ViewMeta &view : views) {
    append(out, view.sizes);
  }
}

/// narrow_copy(self, dim, start, length)
void narrowCopy(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  TORCH_CHECK(self.dim() > 0, "narrow() cannot be applied to a 0-dim tensor.");
  TORCH_CHECK(*intAt(args, 1) < self.dim(), "narrow_copy: expected dim < ", self.dim(), ", got ", *intAt(args, 1));
  const int64_t dim = at::maybe_wrap_dim(*intAt(args, 1), self.dim()), size = self.size(dim);
  int64_t start = *intAt(args, 2);
  const int64_t length = *intAt(args, 3);
  TORCH_CHECK_INDEX(-size <= start && start <= size, "start out of range (expected to be in range of [", -size, ", ",
                    size, "], but got ", start, ")");
  start += start < 0 ? size : 0;
  TORCH_CHECK(length >= 0 && start <= size - length, "start (", start, ") + length (", length,
              ") exceeds dimension size (", size, ").");
  Dims sizes(self.sizes().begin(), self.sizes().end());
  sizes[dim] = length;
  append(out, sizes);
}

const RuleEntry kCopyRules[] = {
    {"alias_copy", viewCopy},           {"as_strided_copy", viewCopy},
    {"detach_copy", viewCopy},          {"diagonal_copy", viewCopy},
    {"expand_copy", viewCopy},          {"permute_copy", viewCopy},
    {"select_copy", viewCopy},          {"slice_copy", viewCopy},
    {"split_copy", viewCopy},           {"split_with_sizes_copy", viewCopy},
    {"squeeze_copy", viewCopy},         {"t_copy", viewCopy},
    {"transpose_copy", viewCopy},       {"unbind_copy", viewCopy},
    {"unfold_copy", viewCopy},          {"unsqueeze_copy", viewCopy},
    {"view_copy.", viewCopy},           {"narrow_copy", narrowCopy},
    {"view_copy.dtype", viewCopy},      {"view_as_real_copy", viewCopy},
    {"view_as_complex_copy", viewCopy},
};

} // namespace

c10::ArrayRef<ViewEntry> viewRules() { return kRules; }
c10::ArrayRef<RuleEntry> viewCopyRules() { return kCopyRules; }

} // namespace sojourn::frontend::shapes
