// SPDX-License-Identifier: Apache-2.0
// Terms of complex numbers: by their parts where core form has no op.
#include "dialect/ContractionOps.h"
#include "dialect/LayoutOps.h"
#include "passes/decompose/MakeOp.h"

using namespace mlir;

namespace sojourn::decompose {

Type realElement(Type element) {
  auto complex = dyn_cast<ComplexType>(element);
  return complex ? complex.getElementType() : element;
}

Term parts(Term x) { return {makeOp<PartsOp>(x.emitter, x.value).getResult(), x.emitter}; }

Term fromParts(Term pairs) { return {makeOp<ComplexOp>(pairs.emitter, pairs.value).getResult(), pairs.emitter}; }

static Term part(Term x, int64_t which) {
  Term pairs = parts(x);
  return squeeze(sliceDim(pairs, -1, which, which + 1), pairs.rank() - 1);
}

Term real(Term x) { return x.isComplex() ? part(x, 0) : x; }

Term imag(Term x) { return x.isComplex() ? part(x, 1) : full(*x.emitter, x.shape(), 0, x.element()); }

Term complex(Term re, Term im) {
  Shape shape = broadcastShapes(re.shape(), im.shape());
  const int64_t last = static_cast<int64_t>(shape.size());
  return fromParts(concat({unsqueeze(broadcastTo(re, shape), last), unsqueeze(broadcastTo(im, shape), last)}, last));
}

Term complex(Emitter &e, double re, double im, Type element) {
  if (!isa<ComplexType>(element)) {
    return constant(e, re, element);
  }
  Type part = realElement(element);
  return complex(constant(e, re, part), constant(e, im, part));
}

Term conj(Term x) { return x.isComplex() ? complex(real(x), -imag(x)) : x; }

Term magnitude(Term re, Term im) {
  Term a = abs(re), b = abs(im), large = max(a, b);
  // The larger one times sqrt(1 + ratio^2).
  Term scaled = large * sqrt(1.0 + square(min(a, b) / large));
  // Infinite where one side is, whatever the other one holds.
  Term infinite = eq(a, kInfinity) | eq(b, kInfinity);
  return select(infinite, kInfinity, select(eq(large, 0.0), a + b, scaled));
}

Term direction(Term x) {
  if (!x.isComplex()) {
    return sign(x);
  }
  Term size = abs(x);
  Term inverse = select(eq(size, 0.0), 0.0, 1.0 / size);
  return complex(real(x) * inverse, imag(x) * inverse);
}

Term squaredMagnitude(Term x) {
  if (!x.isComplex()) {
    return square(x);
  }
  return square(real(x)) + square(imag(x));
}

Term fftC2c(Term x, Dims dims, bool inverse) {
  return {makeOp<FftC2cOp>(x.emitter, x.value, dims, inverse).getResult(), x.emitter};
}

Term fftR2c(Term x, Dims dims) { return {makeOp<FftR2cOp>(x.emitter, x.value, dims).getResult(), x.emitter}; }

Term fftC2r(Term x, Dims dims, int64_t size) {
  return {makeOp<FftC2rOp>(x.emitter, x.value, dims, size).getResult(), x.emitter};
}

std::pair<Term, Term> eig(Term x) {
  auto op = makeOp<EigOp>(x.emitter, x.value);
  return {{op.getValues(), x.emitter}, {op.getVectors(), x.emitter}};
}

} // namespace sojourn::decompose
