// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and plain recurrent networks over a whole sequence, as `_cudnn_rnn` defines them: layers, directions, and
// their gradient. What the inputs of all steps contribute is one product; so is each weight's gradient.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

enum Mode : int64_t { kRelu = 0, kTanh = 1, kLstm = 2, kGru = 3 };

using Terms = SmallVector<Term, 4>;

struct Weights {
  Term input, hidden, inputBias, hiddenBias; ///< biases may be absent
};

/// A network's arguments. States [layers x directions, batch, hidden].
class Network {
public:
  explicit Network(Call &c)
      : mode(c.integer("mode")), layers(c.integer("num_layers")), directions(c.boolean("bidirectional") ? 2 : 1),
        hidden(c.integer("hidden_size")), x(c.in("input")), hx(c.in("hx")), cx(c.in("cx")), all_(c.list("weight")),
        each_(static_cast<size_t>(c.integer("weight_stride0"))) {
    // What is recorded has none of these.
    if (c.integer("proj_size") != 0 || c.boolean("batch_first") || !c.ints("batch_sizes").empty() || mode < kRelu ||
        mode > kGru || (each_ != 2 && each_ != 4) || all_.size() != static_cast<size_t>(layers * directions) * each_) {
      refuse("expected dense sequences, time first, without projection, and all weights of all layers");
    }
  }

  Weights weights(int64_t place) const {
    const size_t first = static_cast<size_t>(place) * each_;
    return {all_[first], all_[first + 1], each_ > 2 ? all_[first + 2] : Term(), each_ > 2 ? all_[first + 3] : Term()};
  }
  int64_t length() const { return x.dim(0); }
  /// Of the steps of a direction, the one that is taken as the `step`-th.
  int64_t time(int64_t step, int64_t direction) const { return direction == 0 ? step : length() - 1 - step; }

  int64_t mode, layers, directions, hidden;
  Term x, hx, cx;

private:
  Terms all_;
  size_t each_;
};

Term entry(Term x, int64_t i) { return squeeze(sliceDim(x, 0, i, i + 1), 0); }

/// [entries, ...] of these.
Term stack(ArrayRef<Term> entries) {
  Terms lines;
  for (Term each : entries) {
    lines.push_back(unsqueeze(each, 0));
  }
  return concat(lines, 0);
}

/// [steps, batch, width] as [steps * batch, width].
Term flat(Term x) { return reshape(x, {x.dim(0) * x.dim(1), x.dim(2)}); }

Term plus(Term a, Term b) { return !a ? b : !b ? a : a + b; }
Term tanhSlope(Term y) { return 1.0 - y * y; }
Term logisticSlope(Term y) { return (1.0 - y) * y; }

/// [steps * batch, width] with the steps and rows of `like`.
Term unflat(Term x, Term like) { return reshape(x, {like.dim(0), like.dim(1), x.dim(1)}); }

/// What the gradient needs of a step, and what the step gives: its last entry is the output, before it (LSTM) the cell.
///   LSTM: input, forget, cell and output gate, cell, output. GRU: reset, update, new, hidden part of new, output.
Terms cell(const Network &net, Term given, Term own, Term h, Term c) {
  if (net.mode == kLstm) {
    auto gates = chunk(own + given, 4, 1);
    Term in = logistic(gates[0]), forget = logistic(gates[1]), fresh = tanh(gates[2]), out = logistic(gates[3]);
    Term state = forget * c + in * fresh;
    return {in, forget, fresh, out, state, out * tanh(state)};
  }
  if (net.mode == kGru) {
    auto i = chunk(given, 3, 1), o = chunk(own, 3, 1);
    Term reset = logistic(i[0] + o[0]), update = logistic(i[1] + o[1]), fresh = tanh(i[2] + reset * o[2]);
    return {reset, update, fresh, o[2], fresh + update * (h - fresh)};
  }
  Term sum = own + given;
  return {net.mode == kTanh ? tanh(sum) : max(sum, 0.0)};
}

/// Gradients of a step: by what the input gives, by what the hidden state gives, and by the states before.
struct CellGradient {
  Term given, own, h, c;
};

CellGradient cellGradient(const Network &net, const Terms &kept, Term gh, Term gc, Term h, Term c) {
  if (net.mode == kLstm) {
    Term in = kept[0], forget = kept[1], fresh = kept[2], out = kept[3], squashed = tanh(kept[4]);
    gc = plus(gh * out * tanhSlope(squashed), gc);
    Term gates = concat({gc * fresh * logisticSlope(in), gc * c * logisticSlope(forget), gc * in * tanhSlope(fresh),
                         gh * squashed * logisticSlope(out)},
                        1);
    return {gates, gates, Term(), gc * forget};
  }
  if (net.mode == kGru) {
    Term reset = kept[0], update = kept[1], fresh = kept[2], own = kept[3];
    Term gfresh = gh * (1.0 - update) * tanhSlope(fresh);
    Term gupdate = gh * (h - fresh) * logisticSlope(update);
    Term greset = gfresh * own * logisticSlope(reset);
    return {concat({greset, gupdate, gfresh}, 1), concat({greset, gupdate, gfresh * reset}, 1), gh * update, Term()};
  }
  Term y = kept.back();
  Term gates = net.mode == kTanh ? gh * tanhSlope(y) : select(y <= 0.0, 0.0, gh);
  return {gates, gates, Term(), Term()};
}

int64_t keptParts(const Network &net) { return net.mode == kLstm ? 6 : net.mode == kGru ? 5 : 1; }

Results forward(Call &c) {
  Network net(c);
  Terms hy, cy, reserve;
  Term x = net.x;
  for (int64_t layer = 0; layer < net.layers; ++layer) {
    Terms outputs;
    for (int64_t direction = 0; direction < net.directions; ++direction) {
      const int64_t place = layer * net.directions + direction;
      Weights w = net.weights(place);
      // Steps and rows stay dims of their own: rows are told apart by that.
      Term given = unflat(matmul(flat(x), transposeLast(w.input), x.element()), x);
      // The hidden bias of a GRU's new gate is behind a product.
      Term early = net.mode == kGru ? w.inputBias : plus(w.inputBias, w.hiddenBias);
      given = plus(given, early);
      Term late = net.mode == kGru ? w.hiddenBias : Term();
      Term turned = transposeLast(w.hidden), h = entry(net.hx, place), state;
      if (net.cx) {
        state = entry(net.cx, place);
      }
      Terms lines(static_cast<size_t>(net.length())), kept(lines);
      for (int64_t step = 0; step < net.length(); ++step) {
        const int64_t t = net.time(step, direction);
        Term own = plus(matmul(h, turned, x.element()), late);
        Terms parts = cell(net, entry(given, t), own, h, state);
        h = parts.back();
        if (net.mode == kLstm) {
          state = parts[4];
        }
        lines[static_cast<size_t>(t)] = h;
        kept[static_cast<size_t>(t)] = parts.size() == 1 ? h : concat(parts, 1);
      }
      outputs.push_back(stack(lines));
      hy.push_back(h);
      cy.push_back(state);
      if (c.wants(3)) {
        reserve.push_back(stack(kept));
      }
    }
    x = concat(outputs, 2);
  }
  return {x, stack(hy), net.mode == kLstm ? stack(cy) : Term(), c.wants(3) ? stack(reserve) : Term(), Term()};
}

/// One direction of a layer, backwards in time.
class Direction {
public:
  Direction(Call &c, const Network &net, int64_t place)
      : net_(net), place_(place), direction_(place % net.directions), w_(net.weights(place)) {
    Term kept = entry(c.in("reserve"), place);
    for (int64_t t = 0; t < net.length(); ++t) {
      Term line = entry(kept, t);
      kept_.push_back(keptParts(net) == 1 ? Terms{line} : Terms(chunk(line, keptParts(net), 1)));
    }
  }

  /// Outputs of all steps [length, batch, hidden], as they were.
  Term output() const {
    Terms lines;
    for (const Terms &parts : kept_) {
      lines.push_back(parts.back());
    }
    return stack(lines);
  }

  /// By the outputs (may be absent) and the last states (the same).
  void run(Term outputs, Term gh, Term gc) {
    Terms given(kept_.size()), own(kept_.size()), before(kept_.size());
    for (int64_t step = net_.length() - 1; step >= 0; --step) {
      const size_t t = static_cast<size_t>(net_.time(step, direction_));
      const Terms *last = step > 0 ? &kept_[static_cast<size_t>(net_.time(step - 1, direction_))] : nullptr;
      before[t] = last ? last->back() : entry(net_.hx, place_);
      Term state = net_.mode != kLstm ? Term() : last ? (*last)[4] : entry(net_.cx, place_);
      Term total = plus(outputs ? entry(outputs, static_cast<int64_t>(t)) : Term(), gh);
      if (!total) {
        total = full(*before[t].emitter, before[t].shape(), 0, before[t].element());
      }
      CellGradient found = cellGradient(net_, kept_[t], total, gc, before[t], state);
      given[t] = found.given;
      own[t] = found.own;
      gh = plus(matmul(found.own, w_.hidden, total.element()), found.h);
      gc = found.c;
    }
    given_ = stack(given);
    own_ = net_.mode == kGru ? stack(own) : given_;
    before_ = stack(before);
    h = gh;
    c = gc;
  }

  /// By the input [length, batch, width].
  Term input(Term x) const { return unflat(matmul(flat(given_), w_.input, x.element()), x); }
  /// By the weights, in their order.
  void weights(Term x, Terms &out) const {
    out.push_back(matmul(transposeLast(flat(given_)), flat(x), x.element()));
    out.push_back(matmul(transposeLast(flat(own_)), flat(before_), x.element()));
    if (w_.inputBias) {
      out.push_back(sum(given_, {0, 1}));
      out.push_back(sum(own_, {0, 1}));
    }
  }

  Term h, c; ///< by the first states

private:
  const Network &net_;
  int64_t place_, direction_;
  Weights w_;
  SmallVector<Terms> kept_;
  Term given_, own_, before_;
};

Results backward(Call &c) {
  Network net(c);
  std::vector<Direction> all;
  for (int64_t place = 0; place < net.layers * net.directions; ++place) {
    all.emplace_back(c, net, place);
  }
  auto stateGradient = [&](StringRef name, int64_t place) { return c.has(name) ? entry(c.in(name), place) : Term(); };
  Term outputs = c.in("grad_output");
  std::vector<Terms> weights(all.size());
  for (int64_t layer = net.layers - 1; layer >= 0; --layer) {
    Term x = net.x, next;
    if (layer > 0) {
      Terms below;
      for (int64_t direction = 0; direction < net.directions; ++direction) {
        below.push_back(all[static_cast<size_t>((layer - 1) * net.directions + direction)].output());
      }
      x = concat(below, 2);
    }
    for (int64_t direction = 0; direction < net.directions; ++direction) {
      const int64_t place = layer * net.directions + direction;
      Direction &each = all[static_cast<size_t>(place)];
      Term part = outputs ? sliceDim(outputs, 2, direction * net.hidden, (direction + 1) * net.hidden) : Term();
      each.run(part, stateGradient("grad_hy", place), stateGradient("grad_cy", place));
      next = plus(next, each.input(x));
      each.weights(x, weights[static_cast<size_t>(place)]);
    }
    outputs = next;
  }
  Terms gh, gc;
  for (const Direction &each : all) {
    gh.push_back(each.h);
    gc.push_back(each.c);
  }
  Terms results{outputs, stack(gh), net.mode == kLstm ? stack(gc) : Term()};
  for (const Terms &each : weights) {
    results.append(each.begin(), each.end());
  }
  return results;
}

} // namespace

void addRecurrentNetworks(Table &t) {
  t.add({"_cudnn_rnn"}, forward);
  t.add({"_cudnn_rnn_backward"}, backward);
}

} // namespace sojourn::decompose
