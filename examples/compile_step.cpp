// SPDX-License-Identifier: Apache-2.0
// Compiles a training step of a torch::nn module to a file: no data, no owner, no Python.
//   compile-step train.sojourn [--batch 64] [--features 30] [--classes 2]
#include "frontend/ahead/Artifact.h"

#include <torch/torch.h>

#include <CLI/CLI.hpp>

#include <iostream>

namespace {

/// An ordinary module; its parameters are made on the device they shall live on.
struct Net : torch::nn::Module {
  Net(int64_t features, int64_t hidden, int64_t classes, c10::Device device) {
    auto parameter = [&](const char *name, at::IntArrayRef sizes, double bound) {
      return register_parameter(name, torch::empty(sizes, device).uniform_(-bound, bound));
    };
    double first = 1 / std::sqrt(static_cast<double>(features)), second = 1 / std::sqrt(static_cast<double>(hidden));
    weight1 = parameter("weight1", {hidden, features}, first);
    bias1 = parameter("bias1", {hidden}, first);
    weight2 = parameter("weight2", {classes, hidden}, second);
    bias2 = parameter("bias2", {classes}, second);
  }
  torch::Tensor forward(const torch::Tensor &x) {
    return torch::linear(torch::relu(torch::linear(x, weight1, bias1)), weight2, bias2);
  }
  torch::Tensor weight1, bias1, weight2, bias2;
};

} // namespace

int main(int argc, char **argv) {
  CLI::App app{
      "Compiles a training step (two linear layers, cross entropy, SGD with momentum) to a file, without data"};
  std::string path;
  int64_t batch = 64, features = 30, hidden = 64, classes = 2;
  double rate = 0.1, momentum = 0.9;
  app.add_option("file", path, "file to write")->required();
  app.add_option("--batch", batch, "rows of a batch")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--features", features, "columns of a row")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--hidden", hidden, "hidden units")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--classes", classes, "classes")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--rate", rate, "learning rate")->capture_default_str();
  bool scheduled = false;
  app.add_flag("--scheduled", scheduled, "take the learning rate as a third input, one number per step");
  app.add_option("--momentum", momentum, "momentum")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    sojourn::Offline offline;
    std::shared_ptr<Net> net;
    std::unique_ptr<torch::optim::SGD> optimizer;
    auto init = [&] {
      net = std::make_shared<Net>(features, hidden, classes, offline.device());
      optimizer =
          std::make_unique<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(rate).momentum(momentum));
    };
    auto step = [&](const std::vector<at::Tensor> &inputs) {
      if (scheduled) {
        for (auto &group : optimizer->param_groups()) {
          static_cast<torch::optim::SGDOptions &>(group.options()).lr(inputs[2].item<double>());
        }
      }
      optimizer->zero_grad();
      torch::Tensor loss = torch::cross_entropy_loss(net->forward(inputs[0]), inputs[1]);
      loss.backward();
      optimizer->step();
      std::vector<at::Tensor> out{loss};
      for (const at::Tensor &parameter : net->parameters()) {
        out.push_back(parameter);
      }
      sojourn::publishLater(out);
    };
    std::vector<sojourn::Spec> inputs{{{batch, features}, at::kFloat}, {{batch}, at::kLong}};
    if (scheduled) {
      inputs.push_back({{}, at::kDouble, /*number=*/true});
    }
    sojourn::Artifact artifact = sojourn::compile(offline, init, step, inputs);
    artifact.save(path);
    std::cout << path << ": init " << artifact.calls[0].step.program.size() << " bytes, first step "
              << artifact.calls[1].step.program.size() << " bytes, steady step "
              << artifact.calls[2].step.program.size() << " bytes\n";
  } catch (const c10::Error &error) {
    std::cerr << "compile-step: " << error.what_without_backtrace() << "\n";
    return 1;
  }
  return 0;
}
