// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions on ATen. Operands are read as they lie where BLAS can; else they
// are packed into scratch memory.
#include "runtime/Elements.h"
#include "runtime/LibraryTensor.h"
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <array>

namespace sojourn::runtime {

namespace {

using Dims = llvm::SmallVector<int64_t, 4>;

/// Dims of one role, and what they are as one dim, if one stride walks them.
struct Group {
  int64_t size = 1, stride = 0;
  bool isLine = true;
};

Group groupOf(const StridedView &view, llvm::ArrayRef<int64_t> which) {
  Group group;
  for (int64_t index : which) {
    size_t d = static_cast<size_t>(index);
    if (view.dims[d] == 1) {
      continue;
    }
    if (group.size != 1 && group.stride != view.strides[d] * view.dims[d]) {
      group.isLine = false;
    }
    group.size *= view.dims[d];
    group.stride = view.strides[d];
  }
  group.isLine &= group.stride >= 0;
  return group;
}

std::vector<int64_t> freeDims(unsigned rank, llvm::ArrayRef<int64_t> batch, llvm::ArrayRef<int64_t> contract) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d) {
    if (!llvm::is_contained(batch, d) && !llvm::is_contained(contract, d)) {
      dims.push_back(d);
    }
  }
  return dims;
}

/// One side of a product as [batch, rows, columns], with what must happen before it can be read.
struct Side {
  at::Tensor tensor;
  StridedView source; ///< permuted to [batch..., rows..., columns...], if packed
  Place packed, wide;
  bool packs = false;
  VectorFn widen = nullptr;
  int64_t numel = 0, width = 0;

  void prepare(SlotTable slots) const {
    if (packs) {
      copyWindow(source.dims, packed.in(slots), denseStrides(source.dims),
                 static_cast<const char *>(slots[source.slot]) + source.offset * width, source.strides, width);
    }
    if (widen != nullptr) {
      widen(wide.in(slots), packed.in(slots), nullptr, nullptr, numel);
    }
  }
};

Side makeSide(Lowering &lowering, ValueId value, llvm::ArrayRef<int64_t> batch, llvm::ArrayRef<int64_t> rows,
              llvm::ArrayRef<int64_t> columns, Element element) {
  StridedView view = lowering.window(value);
  Side side;
  side.numel = lowering.type(value).numel();
  side.width = static_cast<int64_t>(byteWidth(view.element));
  Group b = groupOf(view, batch), r = groupOf(view, rows), c = groupOf(view, columns);
  bool unitColumn = (c.stride == 1 || c.size == 1) && (r.size == 1 || r.stride >= std::max<int64_t>(1, c.size));
  bool unitRow = (r.stride == 1 || r.size == 1) && (c.size == 1 || c.stride >= std::max<int64_t>(1, r.size));
  LibraryTensors &tensors = lowering.library();
  if (view.element == element && b.isLine && r.isLine && c.isLine && (unitColumn || unitRow)) {
    StridedView matrix = view;
    matrix.dims = {b.size, r.size, c.size};
    // A dim of one element has no stride of its own; give it the one that BLAS expects.
    int64_t columnStride = c.size != 1 ? c.stride : unitRow && r.size != 1 ? r.size : 1;
    int64_t rowStride = r.size != 1              ? r.stride
                        : unitRow && !unitColumn ? 1
                                                 : std::max<int64_t>(c.size, 1) * columnStride;
    matrix.strides = {b.stride, rowStride, columnStride};
    // The extent of a tensor over one slot must not count steps that are never taken.
    side.tensor = libraryTensor(tensors, matrix);
    return side;
  }
  side.packs = true;
  side.source.slot = view.slot;
  side.source.element = view.element;
  side.source.offset = view.offset;
  for (llvm::ArrayRef<int64_t> group : {batch, rows, columns}) {
    for (int64_t d : group) {
      side.source.dims.push_back(view.dims[static_cast<size_t>(d)]);
      side.source.strides.push_back(view.strides[static_cast<size_t>(d)]);
    }
  }
  side.packed = lowering.scratch(static_cast<size_t>(side.numel * side.width));
  Place read = side.packed;
  if (view.element != element) {
    side.widen = conversion(view.element, element).first;
    side.wide = lowering.scratch(static_cast<size_t>(side.numel) * byteWidth(element));
    read = side.wide;
  }
  side.tensor = libraryTensor(tensors, read, element, {b.size, r.size, c.size});
  return side;
}

void lowerDot(Lowering &lowering, const GraphOp &op) {
  const std::vector<int64_t> &lhsBatch = op.ints("lhs_batch"), &rhsBatch = op.ints("rhs_batch"),
                             &lhsContract = op.ints("lhs_contract"), &rhsContract = op.ints("rhs_contract");
  std::vector<int64_t> lhsFree = freeDims(lowering.type(op.operands[0]).rank(), lhsBatch, lhsContract);
  std::vector<int64_t> rhsFree = freeDims(lowering.type(op.operands[1]).rank(), rhsBatch, rhsContract);
  Element element = wideOf(lowering.type(op.operands[0]).element);
  auto size = [&](ValueId value, llvm::ArrayRef<int64_t> dims) {
    int64_t count = 1;
    for (int64_t d : dims) {
      count *= lowering.type(value).dims[static_cast<size_t>(d)];
    }
    return count;
  };
  int64_t batches = size(op.operands[0], lhsBatch), rows = size(op.operands[0], lhsFree),
          inner = size(op.operands[0], lhsContract), columns = size(op.operands[1], rhsFree);
  const TensorType &type = lowering.type(op.results[0]);
  if (batches * rows * columns == 0 || inner == 0) {
    Place out = lowering.result(op.results[0]);
    size_t bytes = type.bytes();
    lowering.emit(op, makeKernel([=](SlotTable slots, int64_t, int64_t) { std::memset(out.in(slots), 0, bytes); }));
    return;
  }
  Side a = makeSide(lowering, op.operands[0], lhsBatch, lhsFree, lhsContract, element);
  Side b = makeSide(lowering, op.operands[1], rhsBatch, rhsContract, rhsFree, element);
  Place out = lowering.result(op.results[0]), wide = out;
  VectorFn narrow = nullptr;
  int64_t numel = type.numel();
  if (type.element != element) {
    narrow = conversion(element, type.element).first;
    wide = lowering.scratch(static_cast<size_t>(numel) * byteWidth(element));
  }
  at::Tensor c = libraryTensor(lowering.library(), wide, element, {batches, rows, columns});
  bool single = batches == 1;
  if (single) {
    a.tensor = a.tensor.select(0, 0);
    b.tensor = b.tensor.select(0, 0);
    c = c.select(0, 0);
  }
  lowering.emit(op, makeKernel([=](SlotTable slots, int64_t, int64_t) mutable {
                  a.prepare(slots);
                  b.prepare(slots);
                  if (single) {
                    at::cpu::mm_out(c, a.tensor, b.tensor);
                  } else {
                    at::cpu::bmm_out(c, a.tensor, b.tensor);
                  }
                  if (narrow != nullptr) {
                    narrow(out.in(slots), wide.in(slots), nullptr, nullptr, numel);
                  }
                }));
}

// --- Convolutions ---------------------------------------------------------------------------------

struct ConvOptions {
  std::vector<int64_t> stride, padding, dilation, zeros;
  int64_t groups;
  explicit ConvOptions(const GraphOp &op)
      : stride(op.ints("stride")), padding(op.ints("padding")), dilation(op.ints("dilation")), zeros(stride.size(), 0),
        groups(op.integer("groups")) {}
};

/// Operands and result in f32 or f64, halves converted.
struct ConvOperands {
  at::Tensor a, b, out;
  WideInput first, second;
  WideOutput result;

  ConvOperands(Lowering &lowering, const GraphOp &op)
      : first(lowering, op.operands[0]), second(lowering, op.operands[1]), result(lowering, op.results[0]) {
    a = looseTensor(first.element, lowering.type(op.operands[0]).dims);
    b = looseTensor(second.element, lowering.type(op.operands[1]).dims);
    out = looseTensor(result.element, lowering.type(op.results[0]).dims);
  }
  void begin(SlotTable slots) const {
    point(a, const_cast<void *>(first.read(slots)));
    point(b, const_cast<void *>(second.read(slots)));
    point(out, result.begin(slots));
  }
};

/// Where an operand has no element the library refuses; the result is then zero.
bool isEmpty(Lowering &lowering, const GraphOp &op) {
  return llvm::any_of(op.operands, [&](ValueId value) { return lowering.type(value).numel() == 0; }) ||
         lowering.type(op.results[0]).numel() == 0;
}

void emitZeros(Lowering &lowering, const GraphOp &op) {
  Place out = lowering.result(op.results[0]);
  size_t bytes = lowering.type(op.results[0]).bytes();
  lowering.emit(op, makeKernel([=](SlotTable slots, int64_t, int64_t) { std::memset(out.in(slots), 0, bytes); }));
}

template <typename Compute>
void emitConv(Lowering &lowering, const GraphOp &op, Compute compute) {
  if (isEmpty(lowering, op)) {
    emitZeros(lowering, op);
    return;
  }
  ConvOperands operands(lowering, op);
  ConvOptions options(op);
  lowering.emit(op, makeKernel([=](SlotTable slots, int64_t, int64_t) mutable {
                  operands.begin(slots);
                  operands.out.copy_(compute(operands, options));
                  operands.result.finish(slots);
                }));
}

void lowerConv(Lowering &lowering, const GraphOp &op) {
  emitConv(lowering, op, [](const ConvOperands &operands, const ConvOptions &o) {
    return at::convolution(operands.a, operands.b, std::nullopt, o.stride, o.padding, o.dilation, /*transposed=*/false,
                           o.zeros, o.groups);
  });
}

// The backward kernels take the tensor whose gradient is asked for as well, for its shape alone: the
// result's own memory serves, unwritten.

void lowerConvGradInput(Lowering &lowering, const GraphOp &op) {
  emitConv(lowering, op, [](const ConvOperands &operands, const ConvOptions &o) {
    return std::get<0>(at::convolution_backward(operands.a, operands.out, operands.b, at::OptionalIntArrayRef(),
                                                o.stride, o.padding, o.dilation, /*transposed=*/false, o.zeros,
                                                o.groups, {true, false, false}));
  });
}

void lowerConvGradWeight(Lowering &lowering, const GraphOp &op) {
  emitConv(lowering, op, [](const ConvOperands &operands, const ConvOptions &o) {
    return std::get<1>(at::convolution_backward(operands.a, operands.b, operands.out, at::OptionalIntArrayRef(),
                                                o.stride, o.padding, o.dilation, /*transposed=*/false, o.zeros,
                                                o.groups, {false, true, false}));
  });
}

} // namespace

void addContractKernels(llvm::StringMap<LowerFn> &table) {
  table["dot"] = lowerDot;
  table["conv"] = lowerConv;
  table["conv_grad_input"] = lowerConvGradInput;
  table["conv_grad_weight"] = lowerConvGradWeight;
}

} // namespace sojourn::runtime
