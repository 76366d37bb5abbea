// SPDX-License-Identifier: Apache-2.0
// The fused LSTM and GRU cells that nn.LSTMCell and nn.GRUCell record on devices other than the CPU, and whole
// networks of them. CUDA's kernels define their outputs; the CPU has none.
#include "frontend/shapes/Rules.h"

namespace sojourn::frontend::shapes {

namespace {

/// Factors of the hidden size in the gates and in the saved workspace.
constexpr int64_t kLstmGates = 4, kGruGates = 3, kGruWorkspace = 5;

void checkCell(Arguments args, int64_t factor) {
  const Tensor &input = tensorAt(args, 0), &hidden = tensorAt(args, 1), &state = tensorAt(args, 2);
  const Tensor &inputBias = tensorAt(args, 3), &hiddenBias = tensorAt(args, 4);
  TORCH_CHECK(input.dim() == 2, "expected input_gates to be 2-D, got ", input.dim(), "-D");
  TORCH_CHECK(input.sizes() == hidden.sizes(), "expected hidden_gates of size ", input.sizes(), ", got ",
              hidden.sizes());
  TORCH_CHECK(state.dim() == 2 && state.sizes()[0] == input.sizes()[0] && state.sizes()[1] * factor == input.sizes()[1],
              "expected gates of size [", state.dim() > 0 ? state.sizes()[0] : 0, ", ", factor,
              " x hidden] for a state of size ", state.sizes(), ", got ", input.sizes());
  TORCH_CHECK(inputBias.defined() == hiddenBias.defined(), "expected both biases or none");
  TORCH_CHECK(!inputBias.defined() || (inputBias.numel() == input.sizes()[1] && hiddenBias.numel() == input.sizes()[1]),
              "expected biases of ", input.sizes()[1], " elements");
}

/// (input_gates, hidden_gates, cx, input_bias, hidden_bias) -> (hy, cy, workspace)
void lstmCell(const ShapeRule &, Arguments args, Outputs &out) {
  checkCell(args, kLstmGates);
  const Tensor &gates = tensorAt(args, 0), &state = tensorAt(args, 2);
  append(out, state.sizes());
  append(out, state.sizes());
  append(out, gates.sizes());
}

/// (grad_hy, grad_cy, cx, cy, workspace, has_bias) -> (grad_gates, grad_cx, grad_bias)
void lstmCellBackward(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &state = tensorAt(args, 2), &workspace = tensorAt(args, 4);
  append(out, workspace.sizes());
  append(out, state.sizes());
  if (args[5].toBool()) {
    append(out, {workspace.size(1)});
  } else {
    appendUndefined(out);
  }
}

/// (input_gates, hidden_gates, hx, input_bias, hidden_bias) -> (hy, workspace)
void gruCell(const ShapeRule &, Arguments args, Outputs &out) {
  checkCell(args, kGruGates);
  const Tensor &state = tensorAt(args, 2);
  append(out, state.sizes());
  append(out, {state.size(0), state.size(1) * kGruWorkspace});
}

/// (grad_hy, workspace, has_bias) -> (grad_input_gates, grad_hidden_gates, grad_hx, two biases)
void gruCellBackward(const ShapeRule &, Arguments args, Outputs &out) {
  const Tensor &grad = tensorAt(args, 0), &workspace = tensorAt(args, 1);
  int64_t gates = workspace.size(1) / kGruWorkspace * kGruGates;
  append(out, {workspace.size(0), gates});
  append(out, {workspace.size(0), gates});
  append(out, grad.sizes());
  for (int i = 0; i < 2; ++i) {
    if (args[2].toBool()) {
      append(out, {gates});
    } else {
      appendUndefined(out);
    }
  }
}

enum Mode : int64_t { kRelu = 0, kTanh = 1, kLstm = 2, kGru = 3 };

/// Per hidden unit and step, what a network's gradient needs (passes/decompose/RecurrentNetworks.cpp).
constexpr int64_t kReserve[] = {1, 1, 6, 5};

/// Positions of what both ops have; the gradient has three more arguments before `mode`.
struct NetworkArguments {
  size_t hx, mode;
};

void checkNetwork(Arguments args, NetworkArguments at, bool isTraining) {
  int64_t mode = intAt(args, at.mode).value_or(-1);
  TORCH_CHECK(mode >= kRelu && mode <= kGru, "expected a mode from 0 (relu) to 3 (GRU), got ", mode);
  TORCH_CHECK(intAt(args, at.mode + 2) == 0 && !boolAt(args, at.mode + 4) && dimsAt(args, at.mode + 8).empty() &&
                  (!isTraining || args[at.mode + 5].toDouble() == 0),
              "recurrent networks are recorded time first, without projection, packed sequences and dropout");
  TORCH_CHECK(tensorAt(args, 0).dim() == 3 && tensorAt(args, at.hx).dim() == 3,
              "expected an input and a state of 3 dims, got ", tensorAt(args, 0).dim(), " and ",
              tensorAt(args, at.hx).dim());
}

/// (input, weight[], weight_stride0, weight_buf, hx, cx, mode, hidden_size, proj_size, num_layers, batch_first,
/// dropout, train, bidirectional, batch_sizes, dropout_state) -> (output, hy, cy, reserve, weight_buf)
void network(const ShapeRule &, Arguments args, Outputs &out) {
  const bool isTraining = boolAt(args, 12);
  checkNetwork(args, {4, 6}, isTraining);
  const Tensor &x = tensorAt(args, 0), &hx = tensorAt(args, 4);
  const int64_t mode = *intAt(args, 6);
  append(out, {x.size(0), x.size(1), hx.size(2) * (boolAt(args, 13) ? 2 : 1)});
  append(out, hx.sizes());
  mode == kLstm ? (void)append(out, hx.sizes()) : appendUndefined(out);
  isTraining ? (void)append(out, {hx.size(0), x.size(0), x.size(1), kReserve[mode] * hx.size(2)})
             : appendUndefined(out);
  appendUndefined(out);
}

/// (input, weight[], weight_stride0, weight_buf, hx, cx, output, grad_output, grad_hy, grad_cy, mode, ..., reserve,
/// output_mask) -> (grad_input, grad_hx, grad_cx, grad_weight[])
void networkBackward(const ShapeRule &, Arguments args, Outputs &out) {
  checkNetwork(args, {4, 10}, /*isTraining=*/true);
  const Tensor &hx = tensorAt(args, 4);
  append(out, tensorAt(args, 0).sizes());
  append(out, hx.sizes());
  *intAt(args, 10) == kLstm ? (void)append(out, hx.sizes()) : appendUndefined(out);
  for (const c10::IValue &weight : listAt(args, 1)) {
    append(out, weight.toTensor().sizes());
  }
}

const RuleEntry kRules[] = {
    {"_cudnn_rnn", network},
    {"_cudnn_rnn_backward", networkBackward},
    {"_thnn_fused_lstm_cell", lstmCell},
    {"_thnn_fused_lstm_cell_backward_impl", lstmCellBackward},
    {"_thnn_fused_gru_cell", gruCell},
    {"_thnn_fused_gru_cell_backward", gruCellBackward},
};

} // namespace

c10::ArrayRef<RuleEntry> recurrentRules() { return kRules; }

} // namespace sojourn::frontend::shapes
