// SPDX-License-Identifier: Apache-2.0
// Terms: sources, casts, elementwise ops and layout.
#include "passes/decompose/MakeOp.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/SourceOps.h"
#include "dialect/UnaryOps.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

#include <cassert>
#include <numeric>

using namespace mlir;

namespace sojourn::decompose {
namespace {

/// An op whose result type is among the arguments.
template <typename OpType, typename... Args>
Term typed(Emitter *e, Type type, Args &&...args) {
  return {OpType::create(e->builder, e->location, type, std::forward<Args>(args)...)->getResult(0), e};
}

/// An op whose result type follows from its operands.
template <typename OpType, typename... Args>
Term make(Emitter *e, Args &&...args) {
  return {makeOp<OpType>(e, std::forward<Args>(args)...)->getResult(0), e};
}

template <typename OpType>
Term unary(Term x) {
  x.type(); // there is one
  return make<OpType>(x.emitter, x.value);
}

/// Makes both sides one shape; rank-0 sides stay splats.
void matchShapes(Term &a, Term &b) {
  if (a.rank() == 0 || b.rank() == 0 || a.shape() == b.shape()) {
    return;
  }
  Shape shape = broadcastShapes(a.shape(), b.shape());
  a = broadcastTo(a, shape);
  b = broadcastTo(b, shape);
}

template <typename OpType>
Term binary(Term a, Term b) {
  matchShapes(a, b);
  return make<OpType>(a.emitter, a.value, b.value);
}

} // namespace

void refuse(const Twine &reason) { throw Refusal{reason.str()}; }

void checkEntry(size_t index, size_t size) {
  if (index >= size) {
    refuse("asks for entry " + Twine(static_cast<int64_t>(index)) + " of " + Twine(size) + " sizes or dimensions");
  }
}

RankedTensorType Term::type() const {
  auto tensor = value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
  if (!tensor || !tensor.hasStaticShape()) {
    refuse(value ? "takes a value that is not a tensor of static shape"
                 : "lacks a tensor argument that its formula needs");
  }
  return tensor;
}

int64_t Term::dim(int64_t i) const {
  int64_t at = i < 0 ? i + rank() : i;
  if (at < 0 || at >= rank()) {
    refuse("names dimension " + Twine(i) + " of a tensor of rank " + Twine(rank()));
  }
  return shape()[static_cast<size_t>(at)];
}

Type wideElement(Type element) {
  return element.isF16() || element.isBF16() ? Float32Type::get(element.getContext()) : element;
}

int64_t product(Dims dims) { return std::accumulate(dims.begin(), dims.end(), int64_t(1), std::multiplies<>()); }

int64_t quotient(int64_t a, int64_t b) {
  if (b == 0) {
    refuse("divides a size by 0");
  }
  return a / b;
}

int64_t wrapDim(int64_t dim, int64_t rank) { return dim < 0 ? dim + std::max<int64_t>(rank, 1) : dim; }

Shape broadcastShapes(Dims a, Dims b) {
  Shape shape(std::max(a.size(), b.size()), 1);
  for (Dims side : {a, b}) {
    size_t offset = shape.size() - side.size();
    for (auto [i, size] : llvm::enumerate(side)) {
      if (size != 1) {
        shape[offset + i] = size;
      }
    }
  }
  return shape;
}

//===-- Sources -----------------------------------------------------------===//

Term constant(Emitter &e, double value, Type element) {
  if (isa<IntegerType>(element)) {
    return constantInt(e, static_cast<int64_t>(value), element);
  }
  if (auto complex = dyn_cast<ComplexType>(element)) {
    return convert(constant(e, value, complex.getElementType()), element);
  }
  return make<ConstantOp>(&e, FloatAttr::get(element, value));
}

Term constantInt(Emitter &e, int64_t value, Type element) {
  if (!isa<IntegerType>(element)) {
    return constant(e, static_cast<double>(value), element);
  }
  if (element.isInteger(1)) {
    return make<ConstantOp>(&e, e.builder.getBoolAttr(value != 0));
  }
  unsigned width = element.getIntOrFloatBitWidth();
  APInt bits(width, static_cast<uint64_t>(value), /*isSigned=*/true,
             /*implicitTrunc=*/true);
  return make<ConstantOp>(&e, IntegerAttr::get(element, bits));
}

Term constantLike(Term x, double value) { return constant(*x.emitter, value, x.element()); }

Term full(Emitter &e, Dims shape, double value, Type element) {
  return broadcastTo(constant(e, value, element), shape);
}

Term iota(Emitter &e, Dims shape, int64_t dim, Type element) {
  return typed<IotaOp>(&e, RankedTensorType::get(shape, element), dim);
}

Term positions(Term x, int64_t dim) { return iota(*x.emitter, x.shape(), dim, x.emitter->builder.getI64Type()); }

Term counting(Emitter &e, int64_t size) { return iota(e, {size}, 0, e.builder.getI64Type()); }

//===-- Casts -------------------------------------------------------------===//

Term convert(Term x, Type element) {
  if (x.element() == element) {
    return x;
  }
  if (x.isComplex() && !isa<ComplexType>(element)) {
    return element.isInteger(1) ? ne(x, constantLike(x, 0)) : convert(real(x), element);
  }
  return typed<ConvertOp>(x.emitter, x.type().clone(element), x.value);
}

Term bitcast(Term x, Type element) { return typed<BitcastOp>(x.emitter, x.type().clone(element), x.value); }

Term widen(Term x) { return convert(x, wideElement(x.element())); }
Term toBool(Term x) { return convert(x, x.emitter->builder.getI1Type()); }
Term toIndex(Term x) { return convert(x, x.emitter->builder.getI64Type()); }

//===-- Elementwise -------------------------------------------------------===//

Term operator-(Term x) { return unary<NegOp>(x); }
Term operator~(Term x) { return unary<NotOp>(x); }
Term abs(Term x) {
  if (x.isComplex()) {
    return magnitude(real(x), imag(x));
  }
  // Unsigned integers and bools are their own magnitude.
  return x.element().isUnsignedInteger() || x.isBool() ? x : unary<AbsOp>(x);
}
Term sign(Term x) { return x.isBool() ? x : unary<SignOp>(x); }
Term floor(Term x) { return x.isFloat() ? unary<FloorOp>(x) : x; }
Term ceil(Term x) { return x.isFloat() ? unary<CeilOp>(x) : x; }
Term round(Term x) { return x.isFloat() ? unary<RoundOp>(x) : x; }
Term trunc(Term x) { return x.isFloat() ? select(x < 0.0, ceil(x), floor(x)) : x; }
Term exp(Term x) { return unary<ExpOp>(x); }
Term expm1(Term x) { return unary<Expm1Op>(x); }
Term log(Term x) { return unary<LogOp>(x); }
Term log1p(Term x) { return unary<Log1pOp>(x); }
Term sqrt(Term x) { return unary<SqrtOp>(x); }
Term sin(Term x) { return unary<SinOp>(x); }
Term cos(Term x) { return unary<CosOp>(x); }
Term tanh(Term x) { return unary<TanhOp>(x); }
Term logistic(Term x) { return x.isComplex() ? 1.0 / (1.0 + exp(-x)) : unary<LogisticOp>(x); }
Term erf(Term x) { return unary<ErfOp>(x); }
Term erfc(Term x) { return unary<ErfcOp>(x); }
Term erfinv(Term x) { return unary<ErfinvOp>(x); }
Term lgamma(Term x) { return unary<LgammaOp>(x); }
Term digamma(Term x) { return unary<DigammaOp>(x); }
Term special(StringRef function, Term x) {
  x.type(); // there is one
  return make<SpecialOp>(x.emitter, x.value, function);
}
Term special(StringRef function, Term a, Term b) {
  matchShapes(a, b);
  return make<SpecialBinaryOp>(a.emitter, a.value, b.value, function);
}
Term square(Term x) { return x * x; }
Term reciprocal(Term x) { return 1.0 / x; }
Term isNan(Term x) {
  if (x.isInteger()) {
    return full(*x.emitter, x.shape(), 0, x.emitter->builder.getI1Type());
  }
  return ne(x, x);
}
Term signBit(Term x) {
  if (!x.isFloat()) {
    return x.isBool() || x.element().isUnsignedInteger()
               ? full(*x.emitter, x.shape(), 0, x.emitter->builder.getI1Type())
               : x < 0.0;
  }
  unsigned width = x.element().getIntOrFloatBitWidth();
  return bitcast(x, x.emitter->builder.getIntegerType(width)) < 0.0;
}
Term softplus(Term x) { return max(x, 0.0) + log1p(exp(-abs(x))); }

Term operator+(Term a, Term b) { return a.isBool() ? binary<OrOp>(a, b) : binary<AddOp>(a, b); }
Term operator-(Term a, Term b) { return a.isBool() ? binary<XorOp>(a, b) : binary<SubOp>(a, b); }
Term operator*(Term a, Term b) { return a.isBool() ? binary<AndOp>(a, b) : binary<MulOp>(a, b); }
Term operator/(Term a, Term b) { return binary<DivOp>(a, b); }
Term operator&(Term a, Term b) { return binary<AndOp>(a, b); }
Term operator|(Term a, Term b) { return binary<OrOp>(a, b); }
Term operator^(Term a, Term b) { return binary<XorOp>(a, b); }
Term rem(Term a, Term b) { return binary<RemOp>(a, b); }
Term pow(Term a, Term b) { return binary<PowOp>(a, b); }
Term atan2(Term a, Term b) { return binary<Atan2Op>(a, b); }
Term max(Term a, Term b) { return binary<MaxOp>(a, b); }
Term min(Term a, Term b) { return binary<MinOp>(a, b); }
Term shiftLeft(Term a, Term b) { return binary<ShlOp>(a, b); }
Term shiftRight(Term a, Term b) { return binary<ShrOp>(a, b); }

Term compare(Term a, Term b, StringRef predicate) {
  matchShapes(a, b);
  return make<CompareOp>(a.emitter, a.value, b.value, a.emitter->builder.getStringAttr(predicate));
}

Term select(Term predicate, Term a, Term b) {
  Shape shape = broadcastShapes(broadcastShapes(a.shape(), b.shape()), predicate.shape());
  for (Term *term : {&predicate, &a, &b}) {
    if (term->rank() != 0) {
      *term = broadcastTo(*term, shape);
    }
  }
  return make<SelectOp>(a.emitter, predicate.value, a.value, b.value);
}

//===-- Layout ------------------------------------------------------------===//

Term broadcastTo(Term x, Dims shape) {
  Shape dims(x.rank());
  std::iota(dims.begin(), dims.end(), static_cast<int64_t>(shape.size()) - x.rank());
  return broadcastDims(x, shape, dims);
}

Term broadcastDims(Term x, Dims shape, Dims dims) {
  if (x.shape() == shape) {
    return x;
  }
  return typed<BroadcastOp>(x.emitter, x.type().clone(shape), x.value, dims);
}

Term reshape(Term x, Dims shape) {
  if (x.shape() == shape) {
    return x;
  }
  return typed<ReshapeOp>(x.emitter, x.type().clone(shape), x.value);
}

Term transpose(Term x, Dims perm) {
  if (llvm::is_sorted(perm)) {
    return x;
  }
  return make<TransposeOp>(x.emitter, x.value, perm);
}

Term moveDim(Term x, int64_t from, int64_t to) {
  x.dim(from); // both are there
  x.dim(to);
  Shape perm;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i != from) {
      perm.push_back(i);
    }
  }
  perm.insert(perm.begin() + to, from);
  return transpose(x, perm);
}

Term slice(Term x, Dims start, Dims limit, Dims stride) {
  bool whole = limit == x.shape() && llvm::all_of(start, [](int64_t s) { return s == 0; }) &&
               llvm::all_of(stride, [](int64_t s) { return s == 1; });
  return whole ? x : make<SliceOp>(x.emitter, x.value, start, limit, stride);
}

Term sliceDim(Term x, int64_t dim, int64_t start, int64_t limit, int64_t stride) {
  Shape starts(x.rank(), 0), limits(x.shape()), strides(x.rank(), 1);
  x.dim(dim); // there is one
  dim = wrapDim(dim, x.rank());
  starts[dim] = start;
  limits[dim] = limit;
  strides[dim] = stride;
  return slice(x, starts, limits, strides);
}

Term reverse(Term x, Dims dims) { return dims.empty() ? x : make<ReverseOp>(x.emitter, x.value, dims); }

Term updateSlice(Term x, Term update, Dims start, Dims stride) {
  return make<UpdateSliceOp>(x.emitter, x.value, update.value, start, stride);
}

Term sliceFrom(Term x, int64_t dim, Term start, int64_t size) {
  return make<DynamicSliceOp>(x.emitter, x.value, ValueRange(start.value), Shape{dim}, Shape{size});
}

Term updateFrom(Term x, Term update, int64_t dim, Term start) {
  return make<DynamicUpdateSliceOp>(x.emitter, x.value, update.value, ValueRange(start.value), Shape{dim});
}

Term concat(ArrayRef<Term> xs, int64_t dim) {
  if (xs.empty()) {
    refuse("joins no tensors");
  }
  if (xs.size() == 1) {
    return xs.front();
  }
  SmallVector<Value> values;
  for (Term x : xs) {
    values.push_back(x.value);
  }
  return make<ConcatOp>(xs.front().emitter, ValueRange(values), dim);
}

Term pad(Term x, Term value, Dims low, Dims high, Dims interior) {
  auto zero = [](int64_t size) { return size == 0; };
  if (llvm::all_of(low, zero) && llvm::all_of(high, zero) && llvm::all_of(interior, zero)) {
    return x;
  }
  return make<PadOp>(x.emitter, x.value, value.value, low, high, interior);
}

Term unsqueeze(Term x, int64_t dim) {
  Shape shape(x.shape());
  int64_t at = wrapDim(dim, x.rank() + 1);
  if (at < 0 || at > x.rank()) {
    refuse("adds dimension " + Twine(dim) + " to a tensor of rank " + Twine(x.rank()));
  }
  shape.insert(shape.begin() + at, 1);
  return reshape(x, shape);
}

Term squeeze(Term x, int64_t dim) {
  Shape shape(x.shape());
  x.dim(dim); // there is one
  shape.erase(shape.begin() + wrapDim(dim, x.rank()));
  return reshape(x, shape);
}

SmallVector<Term, 4> chunk(Term x, int64_t count, int64_t dim) {
  SmallVector<Term, 4> parts;
  if (count < 1) {
    refuse("cuts a tensor into " + Twine(count) + " parts");
  }
  int64_t size = x.dim(dim) / count;
  for (int64_t i = 0; i < count; ++i) {
    parts.push_back(sliceDim(x, dim, i * size, (i + 1) * size));
  }
  return parts;
}

Term alongDim(Term x, int64_t dim, int64_t rank) {
  if (dim < 0 || dim >= rank) {
    refuse("lays a vector along dimension " + Twine(dim) + " of " + Twine(rank));
  }
  Shape shape(rank, 1);
  shape[dim] = x.numel();
  return reshape(x, shape);
}

} // namespace sojourn::decompose
