// SPDX-License-Identifier: Apache-2.0
// nn.LSTM, nn.GRU and nn.RNN as one op (and one for the gradient) where ATen composes about twelve of each time step.
// The op is the one that CUDA records: `_cudnn_rnn`, whose schema says all that a network of this kind is.
#include "frontend/recording/Autograd.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_cudnn_rnn.h>
#include <ATen/ops/_cudnn_rnn_backward.h>
#include <ATen/ops/gru_native.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/rnn_relu_native.h>
#include <ATen/ops/rnn_tanh_native.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace sojourn::frontend {

namespace {

using at::Tensor;
using at::TensorList;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Outputs = std::tuple<Tensor, Tensor, Tensor>;

enum Mode : int64_t { kRelu = 0, kTanh = 1, kLstm = 2, kGru = 3 }; ///< as `_cudnn_rnn` numbers them

/// What a network is apart from its tensors.
struct Network {
  int64_t mode, layers;
  bool hasBiases, isBidirectional;

  int64_t gates() const { return mode == kLstm ? 4 : mode == kGru ? 3 : 1; }
  int64_t directions() const { return isBidirectional ? 2 : 1; }
  int64_t perDirection() const { return hasBiases ? 4 : 2; }
};

/// A step, of what input and hidden state give [batch, gates x hidden]: the new state, and the cell's.
std::pair<Tensor, Tensor> step(const Network &net, const Tensor &given, const Tensor &own, const Tensor &h,
                               const Tensor &c) {
  if (net.mode == kRelu || net.mode == kTanh) {
    return {net.mode == kTanh ? at::tanh(given + own) : at::relu(given + own), Tensor()};
  }
  if (net.mode == kGru) {
    auto i = given.chunk(3, 1), o = own.chunk(3, 1);
    Tensor update = at::sigmoid(i[1] + o[1]), fresh = at::tanh(i[2] + at::sigmoid(i[0] + o[0]) * o[2]);
    return {fresh + update * (h - fresh), Tensor()};
  }
  auto gates = (given + own).chunk(4, 1);
  Tensor state = at::sigmoid(gates[1]) * c + at::sigmoid(gates[0]) * at::tanh(gates[2]);
  return {at::sigmoid(gates[3]) * at::tanh(state), state};
}

/// The same in ops that differentiate in every mode; ATen's composition is of fused cells, which do not.
Outputs composed(const Network &net, const Tensor &input, const Tensor &hx, const Tensor &cx, TensorList params) {
  Tensor x = input;
  variable_list hy, cy;
  for (int64_t layer = 0; layer < net.layers; ++layer) {
    variable_list outputs;
    for (int64_t direction = 0; direction < net.directions(); ++direction) {
      const int64_t place = layer * net.directions() + direction;
      TensorList w = params.slice(static_cast<size_t>(place * net.perDirection()));
      auto bias = [&](size_t at) { return net.hasBiases ? std::optional<Tensor>(w[at]) : std::nullopt; };
      variable_list lines = at::linear(x, w[0], bias(2)).unbind(0);
      Tensor h = hx.select(0, place), c = cx.defined() ? cx.select(0, place) : Tensor();
      for (size_t i = 0; i < lines.size(); ++i) {
        Tensor &line = lines[direction == 0 ? i : lines.size() - 1 - i];
        std::tie(h, c) = step(net, line, at::linear(h, w[1], bias(3)), h, c);
        line = h;
      }
      outputs.push_back(at::stack(lines));
      hy.push_back(h);
      cy.push_back(c);
    }
    x = net.isBidirectional ? at::cat(outputs, 2) : outputs[0];
  }
  return {x, at::stack(hy), net.mode == kLstm ? at::stack(cy) : Tensor()};
}

std::optional<Tensor> given(const Tensor &tensor) {
  return tensor.defined() ? std::optional<Tensor>(tensor) : std::nullopt;
}

/// Output, last states, and what the gradient needs of them (if `train`).
std::tuple<Outputs, Tensor> run(const Network &net, const Tensor &x, const Tensor &hx, const Tensor &cx,
                                TensorList params, bool train) {
  at::AutoDispatchBelowADInplaceOrView below;
  auto [output, hy, cy, reserve, weights] = at::_cudnn_rnn(
      x, params, net.perDirection(), std::nullopt, hx, given(cx), net.mode, hx.size(2), /*proj_size=*/0, net.layers,
      /*batch_first=*/false, /*dropout=*/0.0, train, net.isBidirectional, /*batch_sizes=*/{}, std::nullopt);
  return {Outputs(output, hy, cy), reserve};
}

class Recurrent : public torch::autograd::Function<Recurrent> {
public:
  static variable_list forward(AutogradContext *context, const Tensor &x, const Tensor &hx,
                               const std::optional<Tensor> &state, TensorList params, int64_t mode, int64_t layers,
                               bool hasBiases, bool isBidirectional) {
    Network net{mode, layers, hasBiases, isBidirectional};
    Tensor cx = state.value_or(Tensor());
    auto [outputs, reserve] = run(net, x, hx, cx, params, /*train=*/true);
    auto &[output, hy, cy] = outputs;
    variable_list saved{x, hx, cx, reserve};
    saved.insert(saved.end(), params.begin(), params.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["net"] = std::vector<int64_t>{mode, layers, hasBiases, isBidirectional};
    context->set_materialize_grads(false);
    return mode == kLstm ? variable_list{output, hy, cy} : variable_list{output, hy};
  }

  static variable_list backward(AutogradContext *context, variable_list grads) {
    variable_list saved = context->get_saved_variables();
    auto word = context->saved_data["net"].toIntVector();
    Network net{word[0], word[1], word[2] != 0, word[3] != 0};
    const Tensor &x = saved[0], &hx = saved[1], &cx = saved[2], &reserve = saved[3];
    TensorList params = TensorList(saved).slice(4);
    grads.resize(3);
    variable_list result;
    if (at::GradMode::is_enabled()) {
      result = differentiable(net, x, hx, cx, params, grads);
    } else {
      std::array<bool, 4> mask{true, true, net.mode == kLstm, true};
      // The reserve holds outputs and states; the arguments for them are there for cuDNN.
      auto [gx, gh, gc, ofParams] =
          at::_cudnn_rnn_backward(x, params, net.perDirection(), reserve, hx, given(cx), reserve, given(grads[0]),
                                  given(grads[1]), given(grads[2]), net.mode, hx.size(2), 0, net.layers, false, 0.0,
                                  true, net.isBidirectional, {}, std::nullopt, reserve, mask);
      result = {gx, gh, gc};
      result.insert(result.end(), ofParams.begin(), ofParams.end());
    }
    result.resize(result.size() + 4); // of what is no tensor
    return result;
  }

private:
  /// With a graph of its own: through the ops that the network is composed of.
  static variable_list differentiable(const Network &net, const Tensor &x, const Tensor &hx, const Tensor &cx,
                                      TensorList params, const variable_list &grads) {
    // Inputs may be one another's: each gets a place in the graph of its own, where its gradient ends.
    variable_list of, given, inputs{x, hx, cx};
    inputs.insert(inputs.end(), params.begin(), params.end());
    for (Tensor &input : inputs) {
      input = input.defined() ? input.view_as(input) : input;
    }
    auto [output, hy, cy] = composed(net, inputs[0], inputs[1], inputs[2], TensorList(inputs).slice(3));
    const Tensor *results[] = {&output, &hy, &cy};
    for (size_t i = 0; i < 3; ++i) {
      if (grads[i].defined()) {
        of.push_back(*results[i]);
        given.push_back(grads[i]);
      }
    }
    variable_list wanted;
    for (const Tensor &input : inputs) {
      if (input.defined() && input.requires_grad()) {
        wanted.push_back(input);
      }
    }
    variable_list found =
        torch::autograd::grad(of, wanted, given, /*retain_graph=*/true, /*create_graph=*/true, /*allow_unused=*/true);
    variable_list result;
    size_t next = 0;
    for (const Tensor &input : inputs) {
      result.push_back(input.defined() && input.requires_grad() ? found[next++] : Tensor());
    }
    return result;
  }
};

/// One op will do: plain tensors of one type that fit one another. All else, errors included, is ATen's.
bool isPlain(const Network &net, const Tensor &x, const Tensor &hx, const Tensor &cx, TensorList params) {
  auto fits = [&](const Tensor &tensor, at::IntArrayRef sizes) {
    return tensor.device() == x.device() && tensor.scalar_type() == x.scalar_type() && tensor.sizes() == sizes;
  };
  const auto type = x.scalar_type();
  if (x.dim() != 3 || hx.dim() != 3 || x.size(0) == 0 || (type != at::kFloat && type != at::kDouble) ||
      at::autocast::is_autocast_enabled(at::kPrivateUse1) ||
      static_cast<int64_t>(params.size()) != net.layers * net.directions() * net.perDirection()) {
    return false;
  }
  const int64_t hidden = hx.size(2);
  const std::array<int64_t, 3> state{net.layers * net.directions(), x.size(1), hidden};
  if (!fits(hx, state) || (net.mode == kLstm && !fits(cx, state))) {
    return false;
  }
  for (size_t at = 0; at < params.size(); ++at) {
    const size_t kind = at % static_cast<size_t>(net.perDirection());
    const bool isFirst = static_cast<int64_t>(at) < net.directions() * net.perDirection();
    const int64_t rows = net.gates() * hidden, width = isFirst ? x.size(2) : hidden * net.directions();
    if (!(kind >= 2 ? fits(params[at], {rows}) : fits(params[at], {rows, kind == 0 ? width : hidden}))) {
      return false;
    }
  }
  return true;
}

Outputs apply(const Network &net, const Tensor &x, const Tensor &hx, const Tensor &cx, TensorList params) {
  variable_list all{x, hx, cx.defined() ? cx : hx};
  all.insert(all.end(), params.begin(), params.end());
  const bool differentiates = std::any_of(all.begin(), all.end(), [](const Tensor &t) { return t.requires_grad(); });
  if (std::any_of(all.begin(), all.end(), needsOps)) {
    return composed(net, x, hx, cx, params);
  }
  if (!at::GradMode::is_enabled() || !differentiates) {
    return std::get<0>(run(net, x, hx, cx, params, /*train=*/false));
  }
  variable_list results =
      Recurrent::apply(x, hx, given(cx), params, net.mode, net.layers, net.hasBiases, net.isBidirectional);
  results.resize(3);
  return {results[0], results[1], results[2]};
}

/// Dropout stands between layers: then each is an op of its own.
Outputs network(Network net, const Tensor &input, const Tensor &hx, const Tensor &cx, TensorList params, double dropout,
                bool batchFirst) {
  Tensor x = batchFirst ? input.transpose(0, 1) : input;
  Outputs result;
  if (dropout == 0 || net.layers == 1) {
    result = apply(net, x, hx, cx, params);
  } else {
    const int64_t layers = std::exchange(net.layers, 1), states = net.directions();
    const size_t each = static_cast<size_t>(states * net.perDirection());
    variable_list hy, cy;
    for (int64_t layer = 0; layer < layers; ++layer) {
      auto part = [&](const Tensor &all) { return all.defined() ? all.narrow(0, layer * states, states) : Tensor(); };
      auto [output, h, c] = apply(net, x, part(hx), part(cx), params.slice(static_cast<size_t>(layer) * each, each));
      x = layer + 1 < layers ? at::dropout(output, dropout, /*train=*/true) : output;
      hy.push_back(h);
      cy.push_back(c);
    }
    result = {x, at::cat(hy), net.mode == kLstm ? at::cat(cy) : Tensor()};
  }
  if (batchFirst) {
    std::get<0>(result).transpose_(0, 1);
  }
  return result;
}

Outputs lstm(const Tensor &input, TensorList hx, TensorList params, bool hasBiases, int64_t layers, double dropout,
             bool train, bool isBidirectional, bool batchFirst) {
  Network net{kLstm, layers, hasBiases, isBidirectional};
  // Shapes are looked at time first; of a tensor of other rank ATen says what is wrong.
  if (input.dim() != 3 || hx.size() != 2 ||
      !isPlain(net, batchFirst ? input.transpose(0, 1) : input, hx[0], hx[1], params)) {
    return at::native::lstm(input, hx, params, hasBiases, layers, dropout, train, isBidirectional, batchFirst);
  }
  return network(net, input, hx[0], hx[1], params, train ? dropout : 0, batchFirst);
}

using Plain = std::tuple<Tensor, Tensor>(const Tensor &, const Tensor &, TensorList, bool, int64_t, double, bool, bool,
                                         bool);

template <int64_t mode, Plain *function>
std::tuple<Tensor, Tensor> plain(const Tensor &input, const Tensor &hx, TensorList params, bool hasBiases,
                                 int64_t layers, double dropout, bool train, bool isBidirectional, bool batchFirst) {
  Network net{mode, layers, hasBiases, isBidirectional};
  if (input.dim() != 3 || !isPlain(net, batchFirst ? input.transpose(0, 1) : input, hx, Tensor(), params)) {
    return function(input, hx, params, hasBiases, layers, dropout, train, isBidirectional, batchFirst);
  }
  auto [output, hy, cy] = network(net, input, hx, Tensor(), params, train ? dropout : 0, batchFirst);
  return {output, hy};
}

void implement(torch::Library &library) {
  library.impl("lstm.input", lstm);
  library.impl("gru.input", plain<kGru, at::native::gru>);
  library.impl("rnn_tanh.input", plain<kTanh, at::native::rnn_tanh>);
  library.impl("rnn_relu.input", plain<kRelu, at::native::rnn_relu>);
}

} // namespace

} // namespace sojourn::frontend

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) { sojourn::frontend::implement(library); }

// Under inference_mode nothing arrives above.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) { sojourn::frontend::implement(library); }
