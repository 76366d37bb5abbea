// SPDX-License-Identifier: Apache-2.0
// Follows ATen/TensorIterator.cpp step by step (compute_shape, fast_set_up, reorder_dimensions,
// allocate_or_resize_outputs): eager's output strides are observable, so "some dense layout" is not enough.
#include "frontend/shapes/Iterator.h"

#include <ATen/ExpandUtils.h>

#include <numeric>

namespace sojourn::frontend::shapes {

Dims formatStrides(IntArrayRef sizes, at::MemoryFormat format) {
  if (format == at::MemoryFormat::ChannelsLast) {
    TORCH_CHECK(sizes.size() == 4, "required rank 4 tensor to use channels_last format");
  } else if (format == at::MemoryFormat::ChannelsLast3d) {
    TORCH_CHECK(sizes.size() == 5, "required rank 5 tensor to use channels_last_3d format");
  } else {
    return contiguousStrides(sizes);
  }
  // Channels innermost, batch outermost. Unlike contiguous strides, size 0 counts as is.
  Dims strides(sizes.size());
  int64_t step = 1;
  auto place = [&](size_t dim) {
    strides[dim] = step;
    step *= sizes[dim];
  };
  place(1);
  for (size_t dim = sizes.size() - 1; dim >= 2; --dim) {
    place(dim);
  }
  place(0);
  return strides;
}

static bool isDense(IntArrayRef sizes, IntArrayRef strides) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) {
    return true;
  }
  Dims order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t left, int64_t right) {
    return sizes[left] >= 2 && (sizes[right] < 2 || strides[left] < strides[right]);
  });
  int64_t step = 1;
  for (int64_t dim : order) {
    if (sizes[dim] < 2) {
      return true;
    }
    if (strides[dim] != step) {
      return false;
    }
    step *= sizes[dim];
  }
  return true;
}

Dims preservedStrides(IntArrayRef sizes, IntArrayRef strides) {
  if (isDense(sizes, strides)) {
    return Dims(strides.begin(), strides.end());
  }
  std::vector<int64_t> dense = at::infer_dense_strides(sizes, strides);
  return Dims(dense.begin(), dense.end());
}

Dims preservedStrides(const Tensor &self) {
  if (self.is_non_overlapping_and_dense()) {
    return Dims(self.strides().begin(), self.strides().end());
  }
  return preservedStrides(self.sizes(), self.strides());
}

static bool hasContiguousStrides(const Tensor &tensor) {
  IntArrayRef sizes = tensor.sizes();
  IntArrayRef strides = tensor.strides();
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (strides[i] != step) {
      return false;
    }
    step *= std::max<int64_t>(sizes[i], 1);
  }
  return true;
}

/// Equal strides wherever a dimension has more than one element.
static bool sameLayout(IntArrayRef sizes, IntArrayRef left, IntArrayRef right) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) {
      return true;
    }
    if (sizes[i] != 1 && left[i] != right[i]) {
      return false;
    }
  }
  return true;
}

Dims permutedStrides(c10::ArrayRef<Operand> operands, IntArrayRef sizes) {
  const int64_t rank = sizes.size();
  // Operand strides in output rank; broadcast dimensions get stride 0, which decides nothing below.
  c10::SmallVector<Dims, 4> strides;
  for (const Operand &operand : operands) {
    Dims &aligned = strides.emplace_back(rank, 0);
    const int64_t lead = rank - static_cast<int64_t>(operand.sizes.size());
    for (size_t i = 0; i < operand.sizes.size(); ++i) {
      if (operand.sizes[i] != 1 || sizes[lead + i] == 1) {
        aligned[lead + i] = operand.strides[i];
      }
    }
  }
  auto compare = [&](int64_t left, int64_t right) {
    for (const Dims &stride : strides) {
      if (stride[left] == 0 || stride[right] == 0) {
        continue;
      }
      if (stride[left] != stride[right]) {
        return stride[left] < stride[right] ? -1 : 1;
      }
      if (sizes[left] > sizes[right]) {
        return 1;
      }
    }
    return 0;
  };
  // Insertion sort from fastest to slowest dimension, with ties left where they are.
  Dims order(rank);
  for (int64_t i = 0; i < rank; ++i) {
    order[i] = rank - 1 - i;
  }
  for (int64_t i = 1; i < rank; ++i) {
    int64_t moving = i;
    for (int64_t other = i - 1; other >= 0; --other) {
      int comparison = compare(order[other], order[moving]);
      if (comparison > 0) {
        std::swap(order[other], order[moving]);
        moving = other;
      } else if (comparison < 0) {
        break;
      }
    }
  }
  bool rowMajor = true;
  for (int64_t i = 0; i < rank; ++i) {
    rowMajor = rowMajor && order[i] == rank - 1 - i;
  }
  if (rowMajor) {
    return contiguousStrides(sizes);
  }
  Dims result(rank);
  int64_t step = 1;
  for (int64_t dim : order) {
    result[dim] = step;
    step *= sizes[dim];
  }
  return result;
}

void iterate(c10::ArrayRef<const Tensor *> tensors, Dims &sizes, Dims &strides, bool withNumber) {
  sizes.clear();
  bool same = true;
  for (size_t i = 0; i < tensors.size(); ++i) {
    IntArrayRef shape = tensors[i]->sizes();
    if (i == 0) {
      sizes.assign(shape.begin(), shape.end());
    } else if (IntArrayRef(sizes) != shape) {
      same = false;
      if (sizes.empty()) {
        sizes.assign(shape.begin(), shape.end());
      } else if (!shape.empty()) {
        at::DimVector merged = at::infer_size_dimvector(sizes, shape);
        sizes.assign(merged.begin(), merged.end());
      }
    }
  }
  same = same && (!withNumber || sizes.empty());
  if (same && !tensors.empty()) {
    bool contiguous = true, channelsLast = true, dense = true;
    for (const Tensor *tensor : tensors) {
      contiguous = contiguous && tensor->is_contiguous();
    }
    if (contiguous) {
      strides = contiguousStrides(sizes);
      return;
    }
    for (const Tensor *tensor : tensors) {
      channelsLast = channelsLast && tensor->is_contiguous(at::MemoryFormat::ChannelsLast);
      dense = dense && tensor->is_non_overlapping_and_dense() && tensor->strides() == tensors[0]->strides();
    }
    if (channelsLast) {
      strides = formatStrides(sizes, at::MemoryFormat::ChannelsLast);
      return;
    }
    if (dense) {
      strides.assign(tensors[0]->strides().begin(), tensors[0]->strides().end());
      return;
    }
  } else {
    // The usual mixed case: full-size tensors in row-major order with rank-0 ones.
    bool simple = std::find(sizes.begin(), sizes.end(), 0) == sizes.end();
    for (const Tensor *tensor : tensors) {
      simple =
          simple && (tensor->dim() == 0 || (tensor->sizes() == IntArrayRef(sizes) && hasContiguousStrides(*tensor)));
    }
    if (simple) {
      strides = contiguousStrides(sizes);
      return;
    }
  }
  c10::SmallVector<Operand, 4> operands;
  for (const Tensor *tensor : tensors) {
    operands.push_back({tensor->sizes(), tensor->strides()});
  }
  strides = permutedStrides(operands, sizes);
}

void iteratePromoted(c10::ArrayRef<const Tensor *> tensors, ScalarType common, Dims &sizes, Dims &strides,
                     bool withNumber, size_t exempt) {
  iterate(tensors, sizes, strides, withNumber);
  auto copied = [&](size_t i) {
    return i >= exempt && tensors[i]->scalar_type() != common && tensors[i]->dim() > 0 &&
           !tensors[i]->is_non_overlapping_and_dense();
  };
  bool any = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    any = any || copied(i);
  }
  if (!any) {
    return;
  }
  c10::SmallVector<Dims, 4> storage;
  for (size_t i = 0; i < tensors.size(); ++i) {
    storage.push_back(copied(i) ? preservedStrides(*tensors[i])
                                : Dims(tensors[i]->strides().begin(), tensors[i]->strides().end()));
  }
  c10::SmallVector<Operand, 4> operands;
  bool same = !withNumber, equal = true, contiguous = true, channelsLast = sizes.size() == 4;
  for (size_t i = 0; i < tensors.size(); ++i) {
    operands.push_back({tensors[i]->sizes(), storage[i]});
    same = same && tensors[i]->sizes() == IntArrayRef(sizes);
    equal = equal && storage[i] == storage[0] && isDense(sizes, storage[i]);
    contiguous = contiguous && sameLayout(tensors[i]->sizes(), storage[i], contiguousStrides(tensors[i]->sizes()));
    channelsLast =
        channelsLast && same && sameLayout(sizes, storage[i], formatStrides(sizes, at::MemoryFormat::ChannelsLast));
  }
  if (same && contiguous) {
    strides = contiguousStrides(sizes);
  } else if (same && channelsLast) {
    strides = formatStrides(sizes, at::MemoryFormat::ChannelsLast);
  } else if (same && equal) {
    strides = storage[0];
  } else {
    strides = permutedStrides(operands, sizes);
  }
}

OutputMeta &appendIterated(Outputs &out, c10::ArrayRef<const Tensor *> tensors, bool withNumber) {
  OutputMeta &meta = out.emplace_back();
  iterate(tensors, meta.sizes, meta.strides, withNumber);
  return meta;
}

void likeSelf(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  appendLike(out, self);
}

void contiguousLikeSelf(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &self = tensorAt(args, 0);
  append(out, self.sizes());
}

void returnsNothing(const ShapeRule &, Arguments, Outputs &) {}

} // namespace sojourn::frontend::shapes
