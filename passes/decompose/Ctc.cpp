// SPDX-License-Identifier: Apache-2.0
// Connectionist temporal classification (Graves et al. 2006): the forward and backward recursions over time, unrolled,
// for all sequences at once. Lengths are known when it is compiled.
#include "passes/decompose/Call.h"

namespace sojourn::decompose {
namespace {

/// Unrolled steps of time: programs grow with them.
constexpr int64_t kSteps = 4096;

/// What both directions need. T steps, N sequences, S = 2 * (longest target) + 1 states: blanks between labels.
struct Alignment {
  Term logProbs;        ///< [T, N, C]
  Term labels;          ///< [N, S], i64
  Term emission;        ///< [T, N, S]: logProbs of the labels
  Term inputs, targets; ///< lengths [N, 1], i64
  Term state;           ///< 0 ... S - 1, [N, S]
  int64_t steps, count, states;

  Term at(int64_t step, Term x) const { return squeeze(sliceDim(x, 0, step, step + 1), 0); }
  Term none() const { return full(*emission.emitter, {count, states}, -kInfinity, emission.element()); }
  /// The last label and the blank behind it.
  Term isLast() const {
    Term end = broadcastTo(targets + targets, {count, states});
    return eq(state, end) | (eq(state, end - 1.0) & broadcastTo(targets > 0.0, {count, states}));
  }
  /// x of the state `by` further on (before, where negative), -infinity where there is none.
  Term shifted(Term x, int64_t by) const {
    if (std::abs(by) >= states) {
      return none();
    }
    Term rest = by > 0 ? sliceDim(x, 1, by, states) : sliceDim(x, 1, 0, states + by);
    Term outside = full(*x.emitter, {count, std::abs(by)}, -kInfinity, x.element());
    return by > 0 ? concat({rest, outside}, 1) : concat({outside, rest}, 1);
  }
  /// Whether a state may be reached from the one two before it: their labels differ.
  Term skips() const {
    if (states <= 2) {
      return full(*labels.emitter, {count, states}, 0, labels.emitter->builder.getI1Type());
    }
    Term differ = ne(sliceDim(labels, 1, 2, states), sliceDim(labels, 1, 0, states - 2));
    return concat({full(*labels.emitter, {count, 2}, 0, differ.element()), differ}, 1);
  }
};

Term vectorOf(Call &c, Dims values) {
  llvm::SmallVector<Term, 8> entries;
  for (int64_t value : values) {
    entries.push_back(reshape(constantInt(c.emitter, value, c.i64()), {1, 1}));
  }
  return concat(entries, 0);
}

/// [N, longest]: labels, and blanks behind them.
Term padded(Call &c, Term targets, Dims lengths, int64_t longest, int64_t blank) {
  const auto count = static_cast<int64_t>(lengths.size());
  targets = convert(targets, c.i64());
  if (targets.rank() == 2) {
    return sliceDim(targets, 1, 0, longest);
  }
  llvm::SmallVector<Term, 8> rows;
  int64_t begin = 0;
  for (int64_t length : lengths) {
    Term row = sliceDim(targets, 0, begin, begin + length);
    row = concat({row, full(c.emitter, {longest - length}, static_cast<double>(blank), c.i64())}, 0);
    rows.push_back(reshape(row, {1, longest}));
    begin += length;
  }
  return rows.empty() ? full(c.emitter, {count, longest}, 0, c.i64()) : concat(rows, 0);
}

Alignment alignment(Call &c) {
  Alignment a;
  a.logProbs = c.in("log_probs");
  const Shape inputs = c.ints("input_lengths"), targets = c.ints("target_lengths");
  const int64_t blank = c.integer("blank");
  a.steps = a.logProbs.dim(0);
  a.count = a.logProbs.dim(1);
  if (a.steps > kSteps) {
    refuse("is unrolled over " + llvm::Twine(a.steps) + " steps of time, expected at most " + llvm::Twine(kSteps));
  }
  int64_t longest = 0;
  for (int64_t length : targets) {
    longest = std::max(longest, length);
  }
  a.states = 2 * longest + 1;
  a.inputs = vectorOf(c, inputs);
  a.targets = vectorOf(c, targets);
  Term blanks = full(c.emitter, {a.count, longest + 1, 1}, static_cast<double>(blank), c.i64());
  Term between = padded(c, c.in("targets"), targets, longest, blank);
  between = concat({between, full(c.emitter, {a.count, 1}, static_cast<double>(blank), c.i64())}, 1);
  Term pairs = concat({blanks, reshape(between, {a.count, longest + 1, 1})}, 2);
  a.labels = sliceDim(reshape(pairs, {a.count, a.states + 1}), 1, 0, a.states);
  a.state = iota(c.emitter, {a.count, a.states}, 1, c.i64());
  Term along = broadcastDims(a.labels, Shape{a.steps, a.count, a.states}, Shape{1, 2});
  a.emission = takeAlong(a.logProbs, along, 2);
  return a;
}

/// log(exp(x) + exp(y) + exp(z)), -infinity where all are.
Term logSum(Term x, Term y, Term z) {
  Term large = max(max(x, y), z);
  large = select(eq(large, -kInfinity), 0.0, large);
  return log(exp(x - large) + exp(y - large) + exp(z - large)) + large;
}

Term over(Term a, Dims shape) { return broadcastTo(a, shape); }

Results forward(Call &c) {
  const Alignment a = alignment(c);
  const Shape shape{a.count, a.states};
  Term none = a.none(), skips = a.skips();
  Term isFirst = eq(a.state, 0.0) | (eq(a.state, 1.0) & over(a.targets > 0.0, shape));
  llvm::SmallVector<Term, 8> alphas;
  for (int64_t step = 0; step < a.steps; ++step) {
    Term emission = a.at(step, a.emission);
    if (step == 0) {
      alphas.push_back(select(isFirst, emission, none));
      continue;
    }
    Term before = alphas.back();
    Term next = logSum(before, a.shifted(before, -1), select(skips, a.shifted(before, -2), none)) + emission;
    // A sequence that has ended stays as it is.
    alphas.push_back(select(over(a.inputs > static_cast<double>(step), shape), next, before));
  }
  Term ended = alphas.empty() ? none : select(a.isLast(), alphas.back(), none);
  Term large = amax(ended, {1}, /*keep=*/true);
  large = select(eq(large, -kInfinity), 0.0, large);
  Term loss = -(log(sum(exp(ended - over(large, shape)), {1}, /*keep=*/true)) + large);
  // Nothing was heard: certain where nothing was to be.
  Term silent = select(eq(a.targets, 0.0), constantLike(loss, 0.0), constantLike(loss, kInfinity));
  loss = select(eq(a.inputs, 0.0), silent, loss);
  llvm::SmallVector<Term, 8> rows;
  for (Term alpha : alphas) {
    rows.push_back(reshape(alpha, {a.count, 1, a.states}));
  }
  Term logAlpha = rows.empty() ? full(c.emitter, {a.count, 0, a.states}, 0, none.element()) : concat(rows, 1);
  return {reshape(loss, {a.count}), logAlpha};
}

Results backward(Call &c) {
  const Alignment a = alignment(c);
  const Shape shape{a.count, a.states};
  Term none = a.none(), skips = a.skips(), isLast = a.isLast();
  Term logAlpha = transpose(c.in("log_alpha"), {1, 0, 2});
  Term loss = reshape(c.in("neg_log_likelihood"), {a.count, 1}), gradient = reshape(c.in("grad"), {a.count, 1});
  llvm::SmallVector<Term, 8> posteriors(static_cast<size_t>(a.steps));
  Term after = none;
  // Whether the state two further on may be reached.
  Term canSkip = eq(a.shifted(convert(skips, none.element()), 2), 1.0);
  for (int64_t step = a.steps; step-- > 0;) {
    Term emission = a.at(step, a.emission);
    Term before = logSum(after, a.shifted(after, 1), select(canSkip, a.shifted(after, 2), none)) + emission;
    Term end = select(isLast, emission, none), last = a.inputs - 1.0;
    const auto now = static_cast<double>(step);
    after = select(over(eq(last, now), shape), end, select(over(last > now, shape), before, none));
    Term found = exp(a.at(step, logAlpha) + after + over(loss, shape) - emission);
    posteriors[static_cast<size_t>(step)] = reshape(found, {1, a.count, a.states});
  }
  Term zeros = full(c.emitter, a.logProbs.shape(), 0, a.logProbs.element());
  if (a.steps == 0) {
    return zeros;
  }
  Term along = broadcastDims(a.labels, Shape{a.steps, a.count, a.states}, Shape{1, 2});
  Term expected = putAlong(zeros, along, concat(posteriors, 0), 2, "add");
  Term result = (exp(a.logProbs) - expected) * over(reshape(gradient, {1, a.count, 1}), a.logProbs.shape());
  Term infinite = over(reshape(eq(loss, kInfinity), {1, a.count, 1}), a.logProbs.shape());
  const double unknown = c.boolean("zero_infinity") ? 0.0 : std::numeric_limits<double>::quiet_NaN();
  result = select(infinite, unknown, result);
  Term time = iota(c.emitter, a.logProbs.shape(), 0, c.i64());
  Term heard = time < over(reshape(a.inputs, {1, a.count, 1}), a.logProbs.shape());
  return select(heard, result, 0.0);
}

} // namespace

void addCtc(Table &t) {
  t.add({"_ctc_loss"}, forward);
  t.add({"_ctc_loss_backward"}, backward);
}

} // namespace sojourn::decompose
