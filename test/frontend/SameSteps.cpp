// SPDX-License-Identifier: Apache-2.0
// Goal: the same ops give the same program bytes, from C++ as from Python, with data and without. This program records
// the steps of same_steps_support.py again; with SOJOURN_DUMP it leaves their programs, which test_ahead_bytes.py
// compares.
//   same-steps dense                     # at an owner in this process, three steps on random data
//   same-steps dense --ahead FILE        # without data, to a file
#include "frontend/ahead/Artifact.h"

#include <torch/torch.h>

#include <CLI/CLI.hpp>

#include <functional>
#include <iostream>
#include <map>

namespace {

using Tensors = std::vector<at::Tensor>;

/// A step and what it keeps from one call to the next.
class Step {
public:
  virtual ~Step() = default;
  virtual void init(c10::Device device) = 0;
  virtual Tensors step(const Tensors &inputs) = 0;
  std::vector<sojourn::Spec> inputs;

protected:
  /// Weights that need no random numbers.
  static at::Tensor weight(c10::Device device, at::IntArrayRef sizes) {
    return torch::linspace(-1, 1, c10::multiply_integers(sizes), device).reshape(sizes);
  }
  static void descend(const at::Tensor &loss, const Tensors &weights) {
    const Tensors gradients = torch::autograd::grad({loss}, weights);
    torch::NoGradGuard guard;
    for (size_t i = 0; i < weights.size(); ++i) {
      weights[i].sub_(gradients[i] * 0.1);
    }
  }
};

/// Two linear layers, by the optimizer of libtorch.
class Dense : public Step {
public:
  Dense() { inputs = {{{5, 3}, at::kFloat}, {{5}, at::kLong}}; }
  void init(c10::Device device) override {
    first_ = weight(device, {4, 3}).requires_grad_();
    bias_ = torch::zeros({4}, device).requires_grad_();
    second_ = weight(device, {2, 4}).requires_grad_();
    optimizer_.emplace(Tensors{first_, bias_, second_}, torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01));
  }
  Tensors step(const Tensors &inputs) override {
    optimizer_->zero_grad();
    at::Tensor hidden = torch::relu(torch::linear(inputs[0], first_, bias_));
    at::Tensor loss = torch::cross_entropy_loss(torch::linear(hidden, second_), inputs[1]);
    loss.backward();
    optimizer_->step();
    return {loss.detach(), first_.detach()};
  }

private:
  at::Tensor first_, bias_, second_;
  std::optional<torch::optim::SGD> optimizer_;
};

/// Convolution, batch norm with its buffers, pooling, dropout.
class Pictures : public Step {
public:
  Pictures() { inputs = {{{2, 2, 6, 6}, at::kFloat}, {{2}, at::kLong}}; }
  void init(c10::Device device) override {
    kernel_ = weight(device, {3, 2, 3, 3}).requires_grad_();
    scale_ = torch::ones({3}, device).requires_grad_();
    mean_ = torch::zeros({3}, device);
    variance_ = torch::ones({3}, device);
    head_ = weight(device, {4, 27}).requires_grad_();
  }
  Tensors step(const Tensors &inputs) override {
    at::Tensor y = torch::conv2d(inputs[0], kernel_, {}, 1, 1);
    y = torch::batch_norm(y, scale_, {}, mean_, variance_, true, 0.1, 1e-5, false);
    y = torch::dropout(torch::max_pool2d(torch::relu(y), {2, 2}), 0.25, true);
    at::Tensor loss = torch::cross_entropy_loss(torch::linear(y.flatten(1), head_), inputs[1]);
    descend(loss, {kernel_, scale_, head_});
    return {loss.detach(), mean_ * 1};
  }

private:
  at::Tensor kernel_, scale_, mean_, variance_, head_;
};

/// Embedding, attention, layer norm, GELU.
class Words : public Step {
public:
  Words() { inputs = {{{2, 5}, at::kLong}, {{2, 5}, at::kLong}}; }
  void init(c10::Device device) override {
    words_ = weight(device, {7, 8}).requires_grad_();
    mix_ = weight(device, {24, 8}).requires_grad_();
    scale_ = torch::ones({8}, device).requires_grad_();
  }
  Tensors step(const Tensors &inputs) override {
    at::Tensor x = torch::layer_norm(torch::embedding(words_, inputs[0]), {8}, scale_);
    Tensors parts;
    for (const at::Tensor &part : torch::linear(x, mix_).split(8, 2)) {
      parts.push_back(part.view({2, 5, 2, 4}).transpose(1, 2));
    }
    at::Tensor y = torch::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true);
    y = x + torch::gelu(y.transpose(1, 2).reshape({2, 5, 8}));
    at::Tensor loss = torch::cross_entropy_loss(torch::matmul(y, words_.t()).flatten(0, 1), inputs[1].flatten());
    descend(loss, {words_, mix_, scale_});
    return {loss.detach()};
  }

private:
  at::Tensor words_, mix_, scale_;
};

/// States that change places, views and writes, results of several types, a number.
class Places : public Step {
public:
  Places() { inputs = {{{4, 3}, at::kDouble}, {{}, at::kDouble, /*number=*/true}}; }
  void init(c10::Device device) override {
    near_ = torch::zeros({4, 3}, at::device(device).dtype(at::kDouble));
    far_ = torch::ones({4, 3}, at::device(device).dtype(at::kDouble));
    count_ = torch::zeros({}, at::device(device).dtype(at::kLong));
  }
  Tensors step(const Tensors &inputs) override {
    const at::Tensor &x = inputs[0];
    std::swap(near_, far_);
    near_.mul_(inputs[1].item<double>());
    near_.slice(0, 1, 3).add_(x.slice(0, 0, 2));
    near_.t()[1].copy_(far_.select(1, 2));
    count_ += 1;
    at::Tensor joined = torch::cat({near_, torch::where(x > 0, x, far_)}, 1).cumsum(0);
    auto [values, places] = joined.topk(2, 1);
    return {joined, values, places, (near_ < far_).any(1), count_ * 1, joined.to(at::kFloat).std(0)};
  }

private:
  at::Tensor near_, far_, count_;
};

/// torch's own layers of recurrent units.
class Recurrent : public Step {
public:
  Recurrent() { inputs = {{{2, 4, 3}, at::kFloat}, {{2}, at::kLong}}; }
  void init(c10::Device device) override {
    weights_ = {weight(device, {20, 3}), weight(device, {20, 5}), torch::zeros({20}, device),
                torch::zeros({20}, device)};
    weights_.push_back(weight(device, {3, 5}));
    for (at::Tensor &each : weights_) {
      each.requires_grad_();
    }
  }
  Tensors step(const Tensors &inputs) override {
    const Tensors layer(weights_.begin(), weights_.begin() + 4);
    at::Tensor zero = torch::zeros({1, 2, 5}, inputs[0].device());
    at::Tensor y = std::get<0>(torch::lstm(inputs[0], {zero, zero}, layer, true, 1, 0.0, true, false, true));
    at::Tensor loss = torch::cross_entropy_loss(torch::linear(y.select(1, 3), weights_[4]), inputs[1]);
    descend(loss, weights_);
    return {loss.detach()};
  }

private:
  Tensors weights_;
};

template <class Kind>
std::unique_ptr<Step> make() {
  return std::make_unique<Kind>();
}

const std::map<std::string, std::function<std::unique_ptr<Step>()>> kSteps = {{"dense", make<Dense>},
                                                                              {"pictures", make<Pictures>},
                                                                              {"words", make<Words>},
                                                                              {"places", make<Places>},
                                                                              {"recurrent", make<Recurrent>}};

void compileTo(const std::string &path, Step &step) {
  sojourn::Offline offline;
  sojourn::compile(
      offline, [&] { step.init(offline.device()); },
      [&](const Tensors &inputs) { sojourn::publishLater(step.step(inputs)); }, step.inputs)
      .save(path);
}

void trace(Step &step) {
  sojourn::Owner owner = sojourn::local();
  sojourn::step([&] { step.init(owner.device()); });
  for (int i = 0; i < 3; ++i) {
    sojourn::step([&] {
      Tensors inputs;
      for (const sojourn::Spec &spec : step.inputs) {
        at::Tensor value =
            spec.dtype == at::kLong ? torch::randint(0, 2, spec.sizes, at::kLong) : torch::rand(spec.sizes, spec.dtype);
        inputs.push_back(spec.number ? value : value.to(owner.device()));
      }
      sojourn::publishLater(step.step(inputs));
    });
  }
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app{"Records a step in C++, whose program is compared with that of Python"};
  std::string name, path;
  app.add_option("step", name, "which step")->required()->check(CLI::IsMember(kSteps));
  app.add_option("--ahead", path, "compile it without data to this file (default: run it at an owner in this process)");
  CLI11_PARSE(app, argc, argv);
  try {
    std::unique_ptr<Step> step = kSteps.at(name)();
    path.empty() ? trace(*step) : compileTo(path, *step);
  } catch (const c10::Error &error) {
    std::cerr << "same-steps: " << error.what_without_backtrace() << "\n";
    return 1;
  }
  return 0;
}
