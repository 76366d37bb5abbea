// SPDX-License-Identifier: Apache-2.0
// The fused cells of LSTM and GRU that autograd records on accelerators, as
// ATen's CUDA kernels define them.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

Term total(Call &c, StringRef gates, StringRef bias) {
  Term x = c.wide(gates);
  Term b = c.wide(bias);
  return b ? x + b : x;
}

/// 1 - y^2, the slope of tanh at its result.
Term tanhSlope(Term y) { return 1.0 - y * y; }
Term logisticSlope(Term y) { return (1.0 - y) * y; }

/// Gates in the order input, forget, cell, output; the workspace keeps them
/// activated for the gradient.
Results lstmCell(Call &c) {
  Term gates = total(c, "input_gates", "input_bias") + total(c, "hidden_gates", "hidden_bias");
  auto parts = chunk(gates, 4, gates.rank() - 1);
  Term in = logistic(parts[0]), forget = logistic(parts[1]);
  Term cell = tanh(parts[2]), out = logistic(parts[3]);
  Term cy = forget * c.wide("cx") + in * cell;
  return {out * tanh(cy), cy, concat({in, forget, cell, out}, gates.rank() - 1)};
}

struct LstmGradient {
  Term gates, cx;
};

LstmGradient lstmGradient(Call &c, Term in, Term forget, Term cell, Term out) {
  Term gh = c.wide("grad_hy");
  Term gc = c.wide("grad_cy");
  Term cx = c.wide("cx");
  Term squashed = tanh(c.wide("cy"));
  Term gout;
  if (gh) {
    Term through = gh * out * tanhSlope(squashed);
    gc = gc ? through + gc : through;
    gout = gh * squashed * logisticSlope(out);
  } else {
    gout = full(c.emitter, cx.shape(), 0, cx.element());
  }
  Term gates = concat({gc * cell * logisticSlope(in), gc * cx * logisticSlope(forget), gc * in * tanhSlope(cell), gout},
                      cx.rank() - 1);
  return {gates, gc * forget};
}

Results lstmCellBackward(Call &c) {
  Term workspace = c.wide("workspace");
  auto parts = chunk(workspace, 4, workspace.rank() - 1);
  auto [gates, cx] = lstmGradient(c, parts[0], parts[1], parts[2], parts[3]);
  Term bias = c.boolean("has_bias") ? sum(gates, {0}) : Term();
  if (c.base.ends_with("_impl")) {
    return {gates, cx, bias};
  }
  return {gates, gates, cx, bias, bias};
}

/// The same from the gates before activation.
Results lstmDifferentiable(Call &c) {
  Term gates = total(c, "input_gates", "input_bias") + total(c, "hidden_gates", "hidden_bias");
  auto parts = chunk(gates, 4, gates.rank() - 1);
  auto [g, cx] = lstmGradient(c, logistic(parts[0]), logistic(parts[1]), tanh(parts[2]), logistic(parts[3]));
  Term bias = c.has("input_bias") ? sum(g, {0}) : Term();
  return {g, g, cx, bias, bias};
}

/// Gates in the order reset, input (update), new; the workspace keeps reset,
/// input, new, the old state and the hidden part of new.
Results gruCell(Call &c) {
  Term input = total(c, "input_gates", "input_bias");
  Term hidden = total(c, "hidden_gates", "hidden_bias");
  int64_t dim = input.rank() - 1;
  auto i = chunk(input, 3, dim), h = chunk(hidden, 3, dim);
  Term hx = c.wide("hx");
  Term reset = logistic(i[0] + h[0]);
  Term update = logistic(i[1] + h[1]);
  Term fresh = tanh(i[2] + reset * h[2]);
  return {fresh + update * (hx - fresh), concat({reset, update, fresh, hx, h[2]}, dim)};
}

Results gruCellBackward(Call &c) {
  Term g = c.wide("grad_hy");
  Term workspace = c.wide("workspace");
  int64_t dim = workspace.rank() - 1;
  auto parts = chunk(workspace, 5, dim);
  Term reset = parts[0], update = parts[1], fresh = parts[2];
  Term hx = parts[3], hidden = parts[4];
  Term gupdate = g * (hx - fresh) * logisticSlope(update);
  Term gfresh = g * (1.0 - update) * tanhSlope(fresh);
  Term greset = gfresh * hidden * logisticSlope(reset);
  Term gi = concat({greset, gupdate, gfresh}, dim);
  Term gh = concat({greset, gupdate, gfresh * reset}, dim);
  bool bias = c.boolean("has_bias");
  return {gi, gh, g * update, bias ? sum(gi, {0}) : Term(), bias ? sum(gh, {0}) : Term()};
}

} // namespace

void addRecurrent(Table &t) {
  t.add({"_thnn_fused_lstm_cell"}, lstmCell);
  t.add({"_thnn_fused_lstm_cell_backward", "_thnn_fused_lstm_cell_backward_impl"}, lstmCellBackward);
  t.add({"_thnn_differentiable_lstm_cell_backward"}, lstmDifferentiable);
  t.add({"_thnn_fused_gru_cell"}, gruCell);
  t.add({"_thnn_fused_gru_cell_backward"}, gruCellBackward);
}

} // namespace sojourn::decompose
