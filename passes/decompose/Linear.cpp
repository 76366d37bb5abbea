// SPDX-License-Identifier: Apache-2.0
// Matrix and vector products; factors of matrices. A product of halves that is added to comes out
// in f32, so that the sum rounds once.
#include "passes/decompose/Activations.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

Term times(Call &c, StringRef name, Term x) {
  if (!c.has(name) || c.isLiteral(name, 1)) {
    return x;
  }
  return x * c.number(name, x.element());
}

/// x times a number; 0 where that is 0, whatever x holds. Absent where it is known to be 0.
Term timesUnlessZero(Call &c, StringRef name, Term x) {
  if (c.isLiteral(name, 0)) {
    return {};
  }
  Term product = times(c, name, x);
  const bool isKnown = !c.has(name) || c.literal(name);
  return isKnown ? product : select(eq(c.number(name, x.element()), 0.0), 0.0, product);
}

/// beta * self + alpha * product. beta = 0 ignores self, NaN and all; so does alpha = 0 the factors, but for batches
/// whose results are not added up.
Term affine(Call &c, Term product, bool ignoresFactors = true) {
  Term self = timesUnlessZero(c, "beta", c.wide("self"));
  product = ignoresFactors ? timesUnlessZero(c, "alpha", product) : times(c, "alpha", product);
  if (!self && !product) {
    return full(c.emitter, c.shape(), 0, wideElement(c.element()));
  }
  return !self ? product : !product ? broadcastTo(self, c.shape()) : self + product;
}

Type productElement(Term x) { return wideElement(x.element()); }

Results addMm(Call &c) {
  Term a = c.in(c.anyOf({"mat1", "batch1"}));
  Term b = c.in(c.anyOf({"mat2", "batch2"}));
  return affine(c, matmul(a, b, productElement(a)), /*ignoresFactors=*/c.base != "baddbmm");
}

Results addBmm(Call &c) {
  Term a = c.in("batch1");
  Term product = dot(a, c.in("batch2"), {{}, {}, {0, 2}, {0, 1}}, productElement(a));
  return affine(c, product);
}

Results mm(Call &c) {
  Term a = c.in("self");
  return matmul(a, c.in("mat2"), c.element());
}

Results addMv(Call &c) {
  Term a = c.in("mat");
  return affine(c, dot(a, c.in("vec"), {{}, {}, {1}, {0}}, productElement(a)));
}

Results addR(Call &c) {
  Term a = c.wide("vec1");
  Term b = c.wide("vec2");
  return affine(c, unsqueeze(a, 1) * unsqueeze(b, 0), /*ignoresFactors=*/false);
}

Results addMmActivation(Call &c) {
  Term a = c.in("mat1");
  Term y = affine(c, matmul(a, c.in("mat2"), productElement(a)));
  return c.boolean("use_gelu") ? gelu(y, "tanh") : max(y, 0.0);
}

/// Product of three tensors with dimensions inserted, summed over some.
Results trilinear(Call &c) {
  Term product;
  for (auto [tensor, expand] : {std::pair("i1", "expand1"), {"i2", "expand2"}, {"i3", "expand3"}}) {
    Term x = c.wide(tensor);
    Shape dims = c.ints(expand);
    for (int64_t dim : dims) {
      x = unsqueeze(x, dim);
    }
    product = product ? product * x : x;
  }
  return reshape(sum(product, c.dims("sumdim", product)), c.shape());
}

Results cross(Call &c) {
  Term a = c.wide("self");
  Term b = c.wide("other");
  Shape shape = broadcastShapes(a.shape(), b.shape());
  a = broadcastTo(a, shape);
  b = broadcastTo(b, shape);
  int64_t dim = wrapDim(c.integer("dim", -1), a.rank());
  auto turned = [&](Term x, int64_t by) { return concat({sliceDim(x, dim, by, 3), sliceDim(x, dim, 0, by)}, dim); };
  return turned(a, 1) * turned(b, 2) - turned(a, 2) * turned(b, 1);
}

/// L of the lower triangle, or of the transposed upper one its transpose; info as i32.
Results choleskyFactor(Call &c) {
  const bool upper = c.boolean("upper");
  auto turned = [&](Term x) { return upper ? adjointOf(x) : x; };
  auto [factor, order] = cholesky(turned(c.in("self")));
  return {turned(factor), order};
}

} // namespace

void addLinear(Table &t) {
  t.add({"mm", "bmm"}, mm);
  t.add({"addmm", "baddbmm"}, addMm);
  t.add({"addbmm"}, addBmm);
  t.add({"mv"}, [](Call &c) -> Results { return dot(c.in("self"), c.in("vec"), {{}, {}, {1}, {0}}, c.element()); });
  t.add({"addmv"}, addMv);
  t.add({"dot"}, [](Call &c) -> Results { return dot(c.in("self"), c.in("tensor"), {{}, {}, {0}, {0}}, c.element()); });
  t.add({"vdot"}, [](Call &c) -> Results {
    return dot(conj(c.in("self")), c.in("other"), {{}, {}, {0}, {0}}, c.element());
  });
  t.add({"addr"}, addR);
  t.add({"_addmm_activation"}, addMmActivation);
  t.add({"_trilinear"}, trilinear);
  t.add({"linalg_cholesky_ex"}, choleskyFactor);
  t.add({"cholesky"}, [](Call &c) -> Results { return choleskyFactor(c).terms[0]; });
  t.add({"linalg_cross"}, cross);
}

} // namespace sojourn::decompose
