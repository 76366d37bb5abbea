// SPDX-License-Identifier: Apache-2.0
// Terms: reductions, scans, sorting, contraction, indexing, windows, random
// numbers.
#include "passes/decompose/MakeOp.h"
#include "dialect/ContractionOps.h"
#include "dialect/IndexOps.h"
#include "dialect/ReductionOps.h"
#include "dialect/SourceOps.h"
#include "dialect/WindowOps.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace mlir;

namespace sojourn::decompose {
namespace {

/// An op whose result type is among the arguments.
template <typename OpType, typename... Args>
OpType typedOp(Emitter *e, Type type, Args &&...args) {
  return OpType::create(e->builder, e->location, type, std::forward<Args>(args)...);
}

template <typename OpType>
Term reduce(Term x, Dims dims, bool keep) {
  if (dims.empty()) {
    return x;
  }
  Shape kept(x.shape());
  for (int64_t dim : dims) {
    x.dim(dim); // there is one
    kept[wrapDim(dim, x.rank())] = 1;
  }
  Term y = {makeOp<OpType>(x.emitter, x.value, dims)->getResult(0), x.emitter};
  return keep ? reshape(y, kept) : y;
}

/// Of truth values a sum is whether any holds, a product whether all do; `neutral` of none.
template <typename OpType>
Term reduceTruth(Term x, Dims dims, bool keep, bool neutral) {
  auto isEmpty = [&](int64_t dim) { return x.dim(dim) == 0; };
  if (llvm::none_of(dims, isEmpty)) {
    return reduce<OpType>(x, dims, keep);
  }
  Shape shape;
  for (int64_t dim = 0; dim < x.rank(); ++dim) {
    bool isReduced = llvm::any_of(dims, [&](int64_t other) { return wrapDim(other, x.rank()) == dim; });
    if (!isReduced || keep) {
      shape.push_back(isReduced ? 1 : x.dim(dim));
    }
  }
  return full(*x.emitter, shape, neutral, x.element());
}

/// The same of values that meet at one place.
StringRef putKind(Term x, StringRef kind) {
  return !x.isBool() ? kind : kind == "add" ? "max" : kind == "mul" ? "min" : kind;
}

std::pair<Term, Term> both(Operation *op, Emitter *e) { return {{op->getResult(0), e}, {op->getResult(1), e}}; }

} // namespace

Term sum(Term x, Dims dims, bool keep) {
  return x.isBool() ? reduceTruth<ReduceMaxOp>(x, dims, keep, false) : reduce<ReduceSumOp>(x, dims, keep);
}
Term prod(Term x, Dims dims, bool keep) {
  return x.isBool() ? reduceTruth<ReduceMinOp>(x, dims, keep, true) : reduce<ReduceProdOp>(x, dims, keep);
}
Term amax(Term x, Dims dims, bool keep) { return reduce<ReduceMaxOp>(x, dims, keep); }
Term amin(Term x, Dims dims, bool keep) { return reduce<ReduceMinOp>(x, dims, keep); }

Term mean(Term x, Dims dims, bool keep) {
  int64_t count = 1;
  for (int64_t dim : dims) {
    count *= x.dim(dim);
  }
  return sum(x, dims, keep) / static_cast<double>(count);
}

Term centeredSquares(Term x, Term keptMean, Dims dims, bool keep) {
  return sum(squaredMagnitude(x - keptMean), dims, keep);
}

Term argmax(Term x, int64_t dim) { return {makeOp<ArgMaxOp>(x.emitter, x.value, dim)->getResult(0), x.emitter}; }
Term argmin(Term x, int64_t dim) { return {makeOp<ArgMinOp>(x.emitter, x.value, dim)->getResult(0), x.emitter}; }

Term cumulative(StringRef kind, Term x, int64_t dim) {
  if (x.rank() == 0) {
    return x;
  }
  Operation *op = nullptr;
  if (kind == "cumsum") {
    op = makeOp<CumSumOp>(x.emitter, x.value, dim);
  } else if (kind == "cumprod") {
    op = makeOp<CumProdOp>(x.emitter, x.value, dim);
  } else if (kind == "cummax") {
    op = makeOp<CumMaxOp>(x.emitter, x.value, dim);
  } else if (kind == "cummin") {
    op = makeOp<CumMinOp>(x.emitter, x.value, dim);
  } else {
    op = makeOp<CumLogSumExpOp>(x.emitter, x.value, dim);
  }
  return {op->getResult(0), x.emitter};
}

std::pair<Term, Term> sort(Term x, int64_t dim, bool descending) {
  return both(makeOp<SortOp>(x.emitter, x.value, dim, descending), x.emitter);
}

std::pair<Term, Term> topk(Term x, int64_t dim, int64_t k, bool largest) {
  return both(makeOp<TopKOp>(x.emitter, x.value, dim, k, largest), x.emitter);
}

Term adjointOf(Term x) { return conj(transposeLast(x)); }

Term transposeLast(Term x) {
  Shape perm = allDims(x);
  std::swap(perm.back(), perm[perm.size() - 2]);
  return transpose(x, perm);
}

std::pair<Term, Term> cholesky(Term x) { return both(makeOp<CholeskyOp>(x.emitter, x.value), x.emitter); }

Term triangularSolve(Term a, Term b, bool lower, bool unit) {
  auto op = TriangularSolveOp::create(a.emitter->builder, a.emitter->location, b.type(), a.value, b.value, lower, unit);
  return {op.getResult(), a.emitter};
}

Lu lu(Term x) {
  auto op = makeOp<LuOp>(x.emitter, x.value);
  auto at = [&](unsigned i) { return Term{op->getResult(i), x.emitter}; };
  return {at(0), at(1), at(2), at(3)};
}

Ldl ldl(Term x, bool hermitian) {
  auto op = makeOp<LdlOp>(x.emitter, x.value, hermitian);
  auto at = [&](unsigned i) { return Term{op->getResult(i), x.emitter}; };
  return {at(0), at(1), at(2)};
}

Term ldlSolve(Term factors, Term pivots, Term b, bool hermitian) {
  Emitter *e = b.emitter;
  return {LdlSolveOp::create(e->builder, e->location, b.type(), factors.value, pivots.value, b.value, hermitian)
              .getResult(),
          e};
}

std::pair<Term, Term> qr(Term x, bool full) { return both(makeOp<QrOp>(x.emitter, x.value, full), x.emitter); }

std::pair<Term, Term> eigh(Term x) { return both(makeOp<EighOp>(x.emitter, x.value), x.emitter); }

Svd svd(Term x, bool full) {
  auto op = makeOp<SvdOp>(x.emitter, x.value, full);
  auto at = [&](unsigned i) { return Term{op->getResult(i), x.emitter}; };
  return {at(0), at(1), at(2)};
}

Shape allDims(Term x) {
  Shape dims(x.rank());
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

Term dot(Term a, Term b, const DotDims &dims, Type element) {
  Shape shape;
  for (int64_t dim : dims.lhsBatch) {
    shape.push_back(a.dim(dim));
  }
  auto addFree = [&](Term x, Dims batch, Dims contract) {
    for (int64_t dim = 0; dim < x.rank(); ++dim) {
      if (!llvm::is_contained(batch, dim) && !llvm::is_contained(contract, dim)) {
        shape.push_back(x.dim(dim));
      }
    }
  };
  addFree(a, dims.lhsBatch, dims.lhsContract);
  addFree(b, dims.rhsBatch, dims.rhsContract);
  auto type = RankedTensorType::get(shape, element);
  return {typedOp<DotOp>(a.emitter, type, a.value, b.value, ArrayRef<int64_t>(dims.lhsBatch),
                         ArrayRef<int64_t>(dims.rhsBatch), ArrayRef<int64_t>(dims.lhsContract),
                         ArrayRef<int64_t>(dims.rhsContract))
              ->getResult(0),
          a.emitter};
}

Term matmul(Term a, Term b, Type element) {
  DotDims dims;
  for (int64_t i = 0; i + 2 < a.rank(); ++i) {
    dims.lhsBatch.push_back(i);
    dims.rhsBatch.push_back(i);
  }
  dims.lhsContract = {a.rank() - 1};
  dims.rhsContract = {b.rank() - 2};
  return dot(a, b, dims, element);
}

Term contractDim(Term x, Term m, int64_t dim) {
  Term y = dot(x, m, {{}, {}, {dim}, {1}}, x.element());
  return moveDim(y, y.rank() - 1, dim);
}

Term take(Term x, Term index, int64_t dim) {
  return {makeOp<TakeOp>(x.emitter, x.value, index.value, dim)->getResult(0), x.emitter};
}

Term takeAlong(Term x, Term index, int64_t dim) {
  return {makeOp<TakeAlongOp>(x.emitter, x.value, index.value, dim)->getResult(0), x.emitter};
}

Term put(Term x, Term index, Term update, int64_t dim, StringRef kind) {
  return {makeOp<PutOp>(x.emitter, x.value, index.value, update.value, dim, putKind(x, kind))->getResult(0), x.emitter};
}

Term putAlong(Term x, Term index, Term update, int64_t dim, StringRef kind) {
  return {makeOp<PutAlongOp>(x.emitter, x.value, index.value, update.value, dim, putKind(x, kind))->getResult(0),
          x.emitter};
}

Term conv(Term x, Term w, const Window &window) {
  return {makeOp<ConvOp>(x.emitter, x.value, w.value, ArrayRef<int64_t>(window.stride),
                         ArrayRef<int64_t>(window.padding), ArrayRef<int64_t>(window.dilation), window.groups)
              ->getResult(0),
          x.emitter};
}

Term convGradInput(Term g, Term w, const Window &window, Dims shape) {
  return {typedOp<ConvGradInputOp>(g.emitter, g.type().clone(shape), g.value, w.value, ArrayRef<int64_t>(window.stride),
                                   ArrayRef<int64_t>(window.padding), ArrayRef<int64_t>(window.dilation), window.groups)
              ->getResult(0),
          g.emitter};
}

Term convGradWeight(Term g, Term x, const Window &window, Dims shape) {
  return {typedOp<ConvGradWeightOp>(g.emitter, g.type().clone(shape), g.value, x.value,
                                    ArrayRef<int64_t>(window.stride), ArrayRef<int64_t>(window.padding),
                                    ArrayRef<int64_t>(window.dilation), window.groups)
              ->getResult(0),
          g.emitter};
}

Term poolSum(Term x, Dims size, Dims stride, Dims padding) {
  Shape dilation(size.size(), 1);
  return {makeOp<PoolSumOp>(x.emitter, x.value, size, stride, padding, ArrayRef<int64_t>(dilation))->getResult(0),
          x.emitter};
}

std::pair<Term, Term> poolMax(Term x, Dims size, const Window &window) {
  return both(makeOp<PoolMaxOp>(x.emitter, x.value, size, ArrayRef<int64_t>(window.stride),
                                ArrayRef<int64_t>(window.padding), ArrayRef<int64_t>(window.dilation)),
              x.emitter);
}

Term draw(Draw kind, Term seed, Dims shape, Type element, int64_t stream) {
  auto type = RankedTensorType::get(shape, element);
  Emitter *e = seed.emitter;
  switch (kind) {
  case Draw::bits: return {typedOp<RngBitsOp>(e, type, seed.value, stream)->getResult(0), e};
  case Draw::uniform: return {typedOp<RngUniformOp>(e, type, seed.value, stream)->getResult(0), e};
  case Draw::normal: return {typedOp<RngNormalOp>(e, type, seed.value, stream)->getResult(0), e};
  }
  llvm_unreachable("every kind of draw is handled");
}

} // namespace sojourn::decompose
