// SPDX-License-Identifier: Apache-2.0
// Reductions of runs along a dimension, given by their lengths or by where they start and end: each position finds the
// number of its run, and is gathered there.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {

namespace {

struct Segments {
  Term data;    ///< [..., positions, ...]
  Term number;  ///< of each position's run, in data's shape; out of range in none
  Term lengths; ///< of the runs, in the shape of the result
  int64_t axis;
};

/// With as many dims behind as `shape` has more, and as wide.
Term behind(Term x, Dims shape) {
  Shape padded(x.shape());
  padded.resize(shape.size(), 1);
  return broadcastTo(reshape(x, padded), shape);
}

Segments segmentsOf(Call &c, Term data, Dims shape) {
  Segments s;
  s.data = data;
  s.axis = wrapDim(c.integer("axis"), data.rank());
  int64_t count = shape[s.axis];
  Term ends, starts;
  if (Term lengths = c.in("lengths")) {
    ends = cumulative("cumsum", toIndex(lengths), s.axis);
    starts = ends - toIndex(lengths);
  } else {
    Term offsets = toIndex(c.in("offsets"));
    starts = sliceDim(offsets, s.axis, 0, count);
    ends = sliceDim(offsets, s.axis, 1, count + 1);
  }
  s.lengths = behind(ends - starts, shape);
  // Before a position lie as many ends as runs.
  Shape line(data.shape().take_front(static_cast<size_t>(s.axis) + 1));
  Term none = full(c.emitter, line, 0, c.i64());
  Term number = putAlong(none, ends, full(c.emitter, ends.shape(), 1, c.i64()), s.axis, "add");
  number = cumulative("cumsum", number, s.axis);
  Term isBefore = iota(c.emitter, line, s.axis, c.i64()) < broadcastTo(sliceDim(starts, s.axis, 0, 1), line);
  s.number = behind(select(isBefore, -1.0, number), data.shape());
  return s;
}

/// Extremes have two names.
StringRef reductionOf(Call &c) {
  StringRef reduce = c.string("reduce");
  return reduce == "amax" || reduce == "amin" ? reduce.drop_front() : reduce;
}

/// What each run's reduction starts from.
Term initialOf(Call &c, Type element, StringRef reduce) {
  double neutral = reduce == "prod" ? 1 : reduce == "max" ? -kInfinity : reduce == "min" ? kInfinity : 0;
  return c.number("initial", element, neutral);
}

Results reduceSegments(Call &c) {
  Term data = c.wide("data");
  StringRef reduce = reductionOf(c);
  Shape shape(c.shape());
  Term initial = broadcastTo(initialOf(c, data.element(), reduce), shape);
  if (product(shape) == 0) {
    return initial;
  }
  if (data.numel() == 0) {
    return reduce == "mean" && !c.has("initial") ? initial + std::numeric_limits<double>::quiet_NaN() : initial;
  }
  Segments s = segmentsOf(c, data, shape);
  StringRef kind =
      llvm::StringSwitch<StringRef>(reduce).Case("prod", "mul").Case("max", "max").Case("min", "min").Default("add");
  Term y = putAlong(initial, s.number, data, s.axis, kind);
  if (reduce != "mean") {
    return y;
  }
  Term counts = convert(s.lengths, y.element());
  Term empty = c.has("initial") ? initial : initial + std::numeric_limits<double>::quiet_NaN();
  return select(counts > 0.0, y / counts, empty);
}

/// The product of the others: of the result where it is not 0 or NaN, else of what is left without one such factor.
Term productGradient(Call &c, const Segments &s, Term y, Term initial, Dims shape) {
  auto ofRun = [&](Term x) { return takeAlong(x, s.number, s.axis); };
  Term isBad = eq(s.data, 0.0) | isNan(s.data);
  Term zeros = full(c.emitter, shape, 0, s.data.element());
  Term bad = putAlong(zeros, s.number, convert(isBad, zeros.element()), s.axis, "add");
  Term good = putAlong(broadcastTo(initial, shape), s.number, select(isBad, 1.0, s.data), s.axis, "mul");
  Term others = select(eq(ofRun(bad), 1.0), ofRun(good), 0.0);
  return select(isBad, others, ofRun(y) / s.data);
}

Results reduceSegmentsGradient(Call &c) {
  Term data = c.wide("data"), grad = c.wide("grad"), y = c.wide("output");
  if (data.numel() == 0 || grad.numel() == 0) {
    return full(c.emitter, data.shape(), 0, data.element());
  }
  StringRef reduce = reductionOf(c);
  Shape shape(y.shape());
  Segments s = segmentsOf(c, data, shape);
  auto ofRun = [&](Term x) { return takeAlong(x, s.number, s.axis); };
  Term g = ofRun(grad);
  if (reduce == "mean") {
    return g / max(convert(ofRun(s.lengths), g.element()), 1.0);
  }
  if (reduce == "prod") {
    return g * productGradient(c, s, y, initialOf(c, data.element(), reduce), shape);
  }
  if (reduce == "sum") {
    return g;
  }
  Term isChosen = eq(data, ofRun(y)) | isNan(data);
  Term zeros = full(c.emitter, shape, 0, data.element());
  Term count = putAlong(zeros, s.number, convert(isChosen, data.element()), s.axis, "add");
  // As eager has it: equal elements share a gradient above 0, and each gets one below.
  Term shared = select(g > 0.0, g / max(ofRun(count), 1.0), g);
  return select(isChosen, shared, 0.0);
}

} // namespace

void addSegments(Table &t) {
  t.add({"segment_reduce"}, reduceSegments);
  t.add({"_segment_reduce_backward"}, reduceSegmentsGradient);
}

} // namespace sojourn::decompose
