// SPDX-License-Identifier: Apache-2.0
// Gathers, scatters, embeddings and the shape of advanced indexing.
#include "frontend/shapes/Iterator.h"
#include "frontend/shapes/Structured.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorUtils.h>
#include <ATen/ops/gather_meta.h>
#include <ATen/ops/index_copy_meta.h>
#include <ATen/ops/isin_meta.h>
#include <ATen/ops/scatter_add_meta.h>
#include <ATen/ops/scatter_meta.h>
#include <ATen/ops/scatter_reduce_meta.h>

namespace sojourn::frontend::shapes {

namespace {

/// What self[indices] means: the source as if indexed dims were replaced by the broadcast index shape.
struct AdvancedIndex {
  Dims sizes;         ///< of the result
  Dims sourceStrides; ///< of the restrided source, in the result's rank
  int64_t before = 0; ///< result dims ahead of the index shape
  Dims indexSizes;    ///< the broadcast index shape
};

AdvancedIndex advancedIndex(const Tensor &self, const c10::IValue &value) {
  c10::ArrayRef<c10::IValue> list = value.toListRef();
  TORCH_CHECK_INDEX(static_cast<int64_t>(list.size()) <= self.dim(), "too many indices for tensor of dimension ",
                    self.dim(), " (got ", list.size(), ")");
  AdvancedIndex result;
  c10::SmallVector<const Tensor *, 6> indices;
  bool first = true;
  std::vector<IntArrayRef> shapes;
  for (const c10::IValue &entry : list) {
    const Tensor *index = entry.isTensor() && entry.toTensor().defined() ? &entry.toTensor() : nullptr;
    indices.push_back(index);
    if (!index) {
      continue;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(index->scalar_type() != at::kBool && index->scalar_type() != at::kByte,
                                "indexing with a mask: the size of the result depends on values");
    TORCH_CHECK_INDEX(index->scalar_type() == at::kLong || index->scalar_type() == at::kInt,
                      "tensors used as indices must be long, int, byte or bool tensors");
    shapes.push_back(index->sizes());
  }
  TORCH_CHECK_INDEX(!shapes.empty(), "at least one index must be provided");
  for (IntArrayRef shape : shapes) {
    if (first) {
      result.indexSizes.assign(shape.begin(), shape.end());
      first = false;
      continue;
    }
    if (!at::are_expandable(result.indexSizes, shape)) {
      std::ostringstream text;
      text << "shape mismatch: indexing tensors could not be broadcast together with shapes";
      for (size_t i = 0; i < shapes.size(); ++i) {
        text << (i ? ", " : " ") << shapes[i];
      }
      TORCH_CHECK_INDEX(false, text.str());
    }
    at::DimVector merged = at::infer_size_dimvector(result.indexSizes, shape);
    result.indexSizes.assign(merged.begin(), merged.end());
  }
  indices.resize(self.dim(), nullptr);
  // Indices that are not adjacent move to the front.
  int64_t start = 0, last = self.dim() - 1;
  while (!indices[start]) {
    ++start;
  }
  while (!indices[last]) {
    --last;
  }
  bool adjacent = true;
  for (int64_t dim = start; dim <= last; ++dim) {
    adjacent = adjacent && indices[dim];
  }
  result.before = adjacent ? start : 0;
  const bool emptyIndex = std::find(result.indexSizes.begin(), result.indexSizes.end(), 0) != result.indexSizes.end();
  auto keep = [&](int64_t from, int64_t to) {
    for (int64_t dim = from; dim < to; ++dim) {
      if (!indices[dim]) {
        result.sizes.push_back(self.sizes()[dim]);
        result.sourceStrides.push_back(self.strides()[dim]);
      } else {
        TORCH_CHECK_INDEX(self.sizes()[dim] != 0 || emptyIndex, "index is out of bounds for dimension with size 0");
      }
    }
  };
  keep(0, result.before);
  result.sizes.append(result.indexSizes.begin(), result.indexSizes.end());
  result.sourceStrides.append(result.indexSizes.size(), 0);
  keep(result.before, self.dim());
  return result;
}

/// index.Tensor: an iteration over the restrided source and the index tensors.
void index(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  AdvancedIndex indexed = advancedIndex(self, args[1]);
  c10::SmallVector<Dims, 4> storage;
  storage.reserve(2 * listAt(args, 1).size());
  c10::SmallVector<Operand, 4> operands{{indexed.sizes, indexed.sourceStrides}};
  const int64_t after = indexed.sizes.size() - indexed.before - indexed.indexSizes.size();
  for (const c10::IValue &entry : listAt(args, 1)) {
    if (!entry.isTensor() || !entry.toTensor().defined()) {
      continue;
    }
    // The index as eager reshapes it: expanded to the common shape, ones on both sides.
    const Tensor &tensor = entry.toTensor();
    auto expanded = at::inferExpandGeometry_dimvector(tensor.sizes(), tensor.strides(), indexed.indexSizes);
    Dims sizes(indexed.before, 1), strides(indexed.before, 0);
    sizes.append(expanded.sizes.begin(), expanded.sizes.end());
    strides.append(expanded.strides.begin(), expanded.strides.end());
    sizes.append(after, 1);
    strides.append(after, 0);
    storage.push_back(std::move(sizes));
    storage.push_back(std::move(strides));
    operands.push_back({storage[storage.size() - 2], storage.back()});
  }
  append(out, indexed.sizes);
  out.back().strides = permutedStrides(operands, indexed.sizes);
}

/// index_put(self, indices, values, accumulate): a copy of self.
void indexPut(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &values = tensorAt(args, 2);
  TORCH_CHECK(self.scalar_type() == values.scalar_type(),
              "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
              " for the destination and ", values.scalar_type(), " for the source.");
  AdvancedIndex indexed = advancedIndex(self, args[1]);
  bool fits = values.dim() <= static_cast<int64_t>(indexed.sizes.size());
  for (int64_t i = 0; fits && i < values.dim(); ++i) {
    int64_t size = values.sizes()[values.dim() - 1 - i];
    fits = size == 1 || size == indexed.sizes[indexed.sizes.size() - 1 - i];
  }
  TORCH_CHECK(fits, "shape mismatch: value tensor of shape ", values.sizes(),
              " cannot be broadcast to indexing result of shape ", IntArrayRef(indexed.sizes));
  appendLike(out, self);
}

void indexSelect(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &index = tensorAt(args, 2);
  int64_t dim = at::maybe_wrap_dim(args[1].toInt(), self.dim());
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  TORCH_CHECK(!(self.dim() == 0 && index.numel() != 1), "index_select(): Index to scalar can have only 1 value, got ",
              index.numel(), " value(s)");
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
              "index_select(): Expected dtype int32 or int64 for index");
  Dims sizes(self.sizes().begin(), self.sizes().end());
  if (!sizes.empty()) {
    sizes[dim] = index.numel();
  }
  append(out, sizes);
}

/// index_fill(self, dim, index, value)
void indexFill(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &index = tensorAt(args, 2);
  at::maybe_wrap_dim(args[1].toInt(), self.dim());
  TORCH_CHECK_INDEX(index.scalar_type() == at::kLong, "index_fill_(): Expected dtype int64 for index.");
  TORCH_CHECK(index.dim() <= 1, "Index has to be a vector/scalar");
  if (const Tensor &value = tensorAt(args, 3); value.defined()) {
    TORCH_CHECK(value.dim() == 0, "Only supports 0-dimensional value tensor, but got tensor with ", value.dim(),
                " dimension(s).");
  }
  appendLike(out, self);
}

/// index_add, index_reduce(self, dim, index, source, ...)
void indexAccumulate(const ShapeRule &op, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &index = tensorAt(args, 2), &source = tensorAt(args, 3);
  std::string name(baseName(op));
  if (name.back() != '_') {
    name += '_';
  }
  if (name == "index_reduce_") {
    const std::string_view reduce = args[4].toStringView();
    TORCH_CHECK(reduce == "prod" || reduce == "mean" || reduce == "amax" || reduce == "amin",
                "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got ", reduce, ".");
  }
  int64_t dim = at::maybe_wrap_dim(args[1].toInt(), self.dim());
  TORCH_CHECK_INDEX(index.dim() <= 1, name, "(): Index is supposed to be a vector, but got dim: ", index.dim(),
                    " with type: ", index.scalar_type(), " and size: ", index.sizes());
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt, name,
              "(): Expected dtype int32/int64 for index but got: ", index.scalar_type());
  TORCH_CHECK(self.scalar_type() == source.scalar_type(), name,
              "(): self and source expected to have the same dtype, but got (self)", self.scalar_type(),
              " and (source)", source.scalar_type());
  TORCH_CHECK(dim == 0 || dim < source.dim(), name, "(): Indexing dim ", dim,
              " is out of bounds of the source tensor with dim ", source.dim());
  TORCH_CHECK(index.numel() == (source.dim() == 0 ? 1 : source.size(dim)), name, "(): Number of indices (",
              index.numel(), ") should be equal to source.size(dim): (", source.size(dim), "), for dim: ", dim);
  if (self.dim() > 0 && source.dim() > 0) {
    bool same = self.dim() == source.dim();
    for (int64_t i = 0; same && i < self.dim(); ++i) {
      same = i == dim || self.sizes()[i] == source.sizes()[i];
    }
    TORCH_CHECK(
        same, "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = ",
        self.sizes(), " source.shape = ", source.sizes());
  }
  append(out, self.sizes());
}

void take(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &index = tensorAt(args, 1);
  TORCH_CHECK(index.scalar_type() == at::kLong, "take(): Expected a long tensor for index, but got ",
              index.scalar_type());
  TORCH_CHECK_INDEX(!(self.numel() == 0 && index.numel() != 0), "take(): tried to take from an empty tensor");
  append(out, index.sizes());
}

/// put(self, index, source, accumulate)
void put(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &index = tensorAt(args, 1), &source = tensorAt(args, 2);
  TORCH_CHECK(index.scalar_type() == at::kLong, "put_(): Expected a long tensor for index, but got ",
              index.scalar_type());
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "put_(): self and source expected to have the same dtype, but got self.dtype = ", self.scalar_type(),
              " and source.dtype = ", source.scalar_type());
  TORCH_CHECK_INDEX(source.numel() == index.numel(),
                    "put_(): Expected source and index to have the same number of elements, but got source.numel() = ",
                    source.numel(), ", index.numel() = ", index.numel());
  appendLike(out, self);
}

void maskedFill(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &mask = tensorAt(args, 1);
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_fill_ only supports boolean masks, but got mask with dtype ",
              mask.dtype());
  if (const Tensor &value = tensorAt(args, 2); value.defined()) {
    TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
                value.dim(), " dimension(s).");
  }
  append(out, at::infer_size_dimvector(mask.sizes(), self.sizes()));
}

void maskedScatter(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0), &mask = tensorAt(args, 1);
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_scatter_ only supports boolean masks, ",
              "but got mask with dtype ", mask.scalar_type());
  const Tensor &source = tensorAt(args, 2);
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter: expected self and source to have same dtypes but got", self.scalar_type(), " and ",
              source.scalar_type());
  append(out, at::infer_size_dimvector(mask.sizes(), self.sizes()));
}

void maskedScatterBackward(const ShapeRule &, Arguments args, Outputs &out) { append(out, dimsAt(args, 2)); }

void checkEmbeddingIndex(const Tensor &indices) {
  TORCH_CHECK(
      indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt,
      "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got ",
      indices.toString(), " instead (while checking arguments for embedding)");
}

void embeddingRenorm(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  TORCH_CHECK(self.dim() == 2, "'self' must be 2-dimensional, but it has ", self.dim(), " dimensions");
  checkEmbeddingIndex(tensorAt(args, 1));
  appendStrided(out, self.sizes(), self.strides());
}

/// embedding(weight, indices, ...)
void embedding(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &weight = tensorAt(args, 0), &indices = tensorAt(args, 1);
  TORCH_CHECK(weight.dim() == 2, "'weight' must be 2-D");
  checkEmbeddingIndex(indices);
  Dims sizes(indices.sizes().begin(), indices.sizes().end());
  sizes.push_back(weight.sizes()[1]);
  append(out, sizes);
}

/// (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)
void embeddingBackward(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &grad = tensorAt(args, 0);
  checkEmbeddingIndex(tensorAt(args, 1));
  append(out, {*intAt(args, 2), grad.size(-1)});
}

void checkBagIndex(const Tensor &x, const char *name) {
  TORCH_CHECK(x.scalar_type() == c10::kLong || x.scalar_type() == c10::kInt, "expected ", name,
              " to be long or int, got ", x.scalar_type());
}

/// _embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset,
/// padding_idx) -> (output, offset2bag, bag_size, max_indices)
void embeddingBag(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &weight = tensorAt(args, 0), &indices = tensorAt(args, 1), &offsets = tensorAt(args, 2);
  checkBagIndex(indices, "indices");
  checkBagIndex(offsets, "offsets");
  TORCH_CHECK(at::isFloatingType(weight.scalar_type()), "expected weight to be floating point type, got ",
              weight.scalar_type());
  TORCH_CHECK(weight.dim() == 2 && indices.dim() == 1 && offsets.dim() == 1,
              "embedding_bag: expected weight of 2 dims, indices and offsets of 1");
  const int64_t bags = offsets.size(0) - boolAt(args, 7);
  TORCH_CHECK(bags >= 0, "include_last_offset: numBags should be at least 1");
  const int64_t mode = *intAt(args, 4);
  if (args[6].isTensor() && tensorAt(args, 6).defined()) {
    const Tensor &weights = tensorAt(args, 6);
    TORCH_CHECK(mode == 0, "embedding_bag: per_sample_weights only supported with mode='sum'");
    TORCH_CHECK(weights.dim() == 1 && weights.numel() == indices.numel(), "expected per_sample_weights of shape [",
                indices.numel(), "], got ", weights.sizes());
    TORCH_CHECK(weights.scalar_type() == weight.scalar_type(), "expected weight (", weight.scalar_type(),
                ") and per_sample_weights (", weights.scalar_type(), ") to have same dtype");
  }
  append(out, {bags, weight.size(1)});
  append(out, {indices.numel()});
  append(out, {bags});
  append(out, mode == 2 ? Dims{bags, weight.size(1)} : Dims{bags});
}

/// (grad, indices, [offsets,] offset2bag, bag_size, maximum_indices, num_weights, ...)
template <int Weights>
void embeddingBagBackward(const ShapeRule &, Arguments args, Outputs &out) {
  append(out, {*intAt(args, Weights), tensorAt(args, 0).size(1)});
}

/// (grad, weight, indices, offsets, ...)
void sampleWeightBackward(const ShapeRule &, Arguments args, Outputs &out) { append(out, {tensorAt(args, 2).numel()}); }

/// zeros of `input_sizes` (argument 1) with the gradient written somewhere in it.
void zerosOfSizes(const ShapeRule &, Arguments args, Outputs &out) { append(out, dimsAt(args, 1)); }

/// slice_scatter, select_scatter, ...: a copy of self that keeps its strides, gaps closed.
void scatterIntoView(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  if (self.is_non_overlapping_and_dense()) {
    appendStrided(out, self.sizes(), self.strides());
  } else {
    appendLike(out, self);
  }
}

/// bucketize(self, boundaries, out_int32): indices of self's shape.
void bucketize(const ShapeRule &, Arguments args, Outputs &out) {
  TORCH_CHECK(tensorAt(args, 1).dim() == 1, "boundaries tensor must be 1 dimension, but got dim(",
              tensorAt(args, 1).dim(), ")");
  append(out, tensorAt(args, 0).defined() ? tensorAt(args, 0).sizes() : IntArrayRef());
}

/// searchsorted(sorted_sequence, self, out_int32, ...)
void searchSorted(const ShapeRule &, Arguments args, Outputs &out) {
  append(out, tensorAt(args, 1).defined() ? tensorAt(args, 1).sizes() : IntArrayRef());
}

/// nonzero_static(self, size, fill_value): [size, rank]
void nonzeroStatic(const ShapeRule &, Arguments args, Outputs &out) {
  TORCH_CHECK(*intAt(args, 1) >= 0, "nonzero_static: 'size' must be an non-negative integer");
  append(out, {*intAt(args, 1), tensorAt(args, 0).dim()});
}

const RuleEntry kRules[] = {
    {"index.Tensor", index},
    {"_unsafe_index.Tensor", index},
    {"index_put", indexPut},
    {"_index_put_impl", indexPut},
    {"_unsafe_index_put", indexPut},
    {"index_select", indexSelect},
    {"index_add.", indexAccumulate},
    {"index_copy.", structured<at::meta::structured_index_copy>},
    {"index_reduce", indexAccumulate},
    {"index_fill", indexFill},
    {"gather.", structured<at::meta::structured_gather>},
    {"scatter.src", structured<at::meta::structured_scatter_src>},
    {"scatter.value", structured<at::meta::structured_scatter_value>},
    {"scatter.reduce", structured<at::meta::structured_scatter_reduce>},
    {"scatter.value_reduce", structured<at::meta::structured_scatter_value_reduce>},
    {"scatter_add.", structured<at::meta::structured_scatter_add>},
    {"scatter_reduce.two", structured<at::meta::structured_scatter_reduce_two>},
    {"isin.Tensor_Tensor", structured<at::meta::structured_isin_Tensor_Tensor>},
    {"isin.Tensor_Scalar", structured<at::meta::structured_isin_Tensor_Scalar>},
    {"isin.Scalar_Tensor", [](const ShapeRule &, Arguments, Outputs &out) { append(out, {}); }},
    {"take", take},
    {"put", put},
    {"masked_fill", maskedFill},
    {"masked_scatter", maskedScatter},
    {"masked_scatter_backward", maskedScatterBackward},
    {"embedding", embedding},
    {"embedding_renorm", embeddingRenorm},
    {"embedding_dense_backward", embeddingBackward},
    {"_embedding_bag", embeddingBag},
    {"_embedding_bag_forward_only", embeddingBag},
    {"_embedding_bag_backward", embeddingBagBackward<6>},
    {"_embedding_bag_dense_backward", embeddingBagBackward<5>},
    {"_embedding_bag_per_sample_weights_backward", sampleWeightBackward},
    {"select_backward", zerosOfSizes},
    {"slice_backward", zerosOfSizes},
    {"diagonal_backward", zerosOfSizes},
    {"unfold_backward", zerosOfSizes},
    {"select_scatter", scatterIntoView},
    {"slice_scatter", scatterIntoView},
    {"diagonal_scatter", scatterIntoView},
    {"as_strided_scatter", scatterIntoView},
    {"bucketize", bucketize},
    {"searchsorted", searchSorted},
    {"nonzero_static", nonzeroStatic},
};

} // namespace

c10::ArrayRef<RuleEntry> indexingRules() { return kRules; }

} // namespace sojourn::frontend::shapes
