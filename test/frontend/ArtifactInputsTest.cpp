// SPDX-License-Identifier: Apache-2.0
// Goal: an input that a compiled step was not compiled for is refused before anything runs, and the text says which
// one, what it is and what was expected.
#include "frontend/ahead/Artifact.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdio>
#include <filesystem>
#include <random>

namespace {

using namespace sojourn;

/// A step of a matrix, classes and a number; it keeps a sum.
class ArtifactInputs : public testing::Test {
protected:
  void SetUp() override {
    const auto seed = std::random_device{}();
    std::printf("seed %u\n", seed);
    torch::manual_seed(seed);
    Offline offline;
    at::Tensor sum;
    auto step = [&](const std::vector<at::Tensor> &given) {
      sum.add_(given[0].sum() * given[2].item<double>() + given[1].sum());
      publishLater({sum});
    };
    artifact = compile(offline, [&] { sum = torch::zeros({}, at::device(offline.device()).dtype(at::kDouble)); }, step,
                       {{{2, 3}, at::kDouble}, {{2}, at::kLong}, {{}, at::kDouble, /*number=*/true}});
    owner.emplace(local());
    run.emplace(artifact, *owner);
  }
  void TearDown() override {
    run.reset();
    owner->close();
  }

  std::string thrown(const std::vector<at::Tensor> &inputs) {
    try {
      run->step(inputs);
    } catch (const Error &error) {
      return error.text();
    }
    return "nothing was thrown";
  }

  /// Refused with this text, after which the run goes on as if nothing had been.
  void expectRefused(const std::vector<at::Tensor> &inputs, const std::string &text) {
    const auto before = owner->counters();
    EXPECT_NE(thrown(inputs).find(text), std::string::npos) << thrown(inputs);
    EXPECT_EQ(owner->counters()["round_trips"], before.at("round_trips"));
    const double factor = torch::rand({}, at::kDouble).item<double>();
    expected += (x.sum() * factor + y.sum()).item<double>();
    const double found = run->step({x, y, at::scalar_tensor(factor, at::kDouble)}).at(0).item<double>();
    EXPECT_NEAR(found, expected, 1e-12);
  }

  Artifact artifact;
  std::optional<Owner> owner;
  std::optional<ArtifactRun> run;
  at::Tensor x = torch::randn({2, 3}, at::kDouble), y = torch::randint(0, 9, {2}, at::kLong),
             rate = torch::rand({}, at::kDouble);
  double expected = 0;
};

TEST_F(ArtifactInputs, Counts) {
  expectRefused({}, "the compiled step takes 3 inputs, got 0");
  expectRefused({x, y}, "the compiled step takes 3 inputs, got 2");
  expectRefused({x, y, rate, rate}, "the compiled step takes 3 inputs, got 4");
}

TEST_F(ArtifactInputs, ShapesAndTypes) {
  const std::string expected = ", but the step was compiled for Double[2, 3] on cpu";
  expectRefused({x.t(), y, rate}, "input 0 is Double[3, 2] on cpu" + expected);
  expectRefused({x.unsqueeze(0), y, rate}, "input 0 is Double[1, 2, 3] on cpu" + expected);
  expectRefused({x[0], y, rate}, "input 0 is Double[3] on cpu" + expected);
  expectRefused({x.to(at::kFloat), y, rate}, "input 0 is Float[2, 3] on cpu" + expected);
  expectRefused({x, y.to(at::kInt), rate}, "input 1 is Int[2] on cpu, but the step was compiled for Long[2] on cpu");
  expectRefused({y, x, rate}, "input 0 is Long[2] on cpu" + expected);
  expectRefused({x, y, rate.to(at::kFloat)},
                "input 2 is Float[] on cpu, but the step was compiled for Double[] on cpu");
  expectRefused({x, y, rate.unsqueeze(0)},
                "input 2 is Double[1] on cpu, but the step was compiled for Double[] on cpu");
}

TEST_F(ArtifactInputs, Places) {
  const std::string expected = ", but the step was compiled for Double[2, 3] on cpu";
  expectRefused({x.to(at::kMeta), y, rate}, "input 0 is Double[2, 3] on meta" + expected);
  const at::Tensor remote = step([&] { return x.to(owner->device()); });
  expectRefused({remote, y, rate},
                "input 0 is Double[2, 3] on owner:" + std::to_string(owner->device().index()) + expected);
}

TEST_F(ArtifactInputs, NoTensorsAndOtherLayouts) {
  EXPECT_NE(thrown({at::Tensor(), y, rate}).find("input 0 is "), std::string::npos) << thrown({at::Tensor(), y, rate});
  EXPECT_NE(thrown({x.to_sparse(), y, rate}).find("input 0 is "), std::string::npos)
      << thrown({x.to_sparse(), y, rate});
}

/// A file with such a name could not be read again.
TEST_F(ArtifactInputs, NamesThatNoFileHas) {
  const auto path = std::filesystem::temp_directory_path() / "sojourn-names.artifact";
  for (const std::string &name : {std::string(129, 'n'), std::string("a\nb"), std::string("\xc3\xa9")}) {
    artifact.inputs[1].name = name;
    try {
      artifact.save(path);
      ADD_FAILURE() << "saved";
    } catch (const Error &error) {
      EXPECT_NE(
          std::string(error.what())
              .find("input 1 has a name that is too long or not printable (" + std::to_string(name.size()) + " bytes)"),
          std::string::npos)
          << error.what();
    }
  }
  artifact.inputs[1].name = std::string(128, 'n');
  artifact.save(path);
  EXPECT_EQ(Artifact::load(path).inputs.at(1).name, artifact.inputs[1].name);
  std::filesystem::remove(path);
}

/// The second of several steps, of which none runs.
TEST_F(ArtifactInputs, OneOfSeveralSteps) {
  const auto before = owner->counters();
  EXPECT_THROW(run->steps({{x, y, rate}, {x, y.to(at::kInt), rate}}), Error);
  EXPECT_EQ(owner->counters()["round_trips"], before.at("round_trips"));
}

/// Views with other strides, and lazy conjugates and negatives, are the values that they show.
TEST_F(ArtifactInputs, ViewsAreTheirValues) {
  const at::Tensor turned = torch::randn({3, 2}, at::kDouble).t();
  const at::Tensor lazy = torch::randn({2, 3}, at::kComplexDouble).conj();
  double sum = 0;
  for (const at::Tensor &each : {turned, at::imag(lazy), at::_neg_view(x), x[0].expand({2, 3})}) {
    sum += (each.sum() * rate + y.sum()).item<double>();
    EXPECT_NEAR(run->step({each, y, rate}).at(0).item<double>(), sum, 1e-12);
  }
}

} // namespace
