// SPDX-License-Identifier: Apache-2.0
// Goal: the owner serves steps on any engine. Method: an owner on a reference interpreter beside one on the CPU, with
// the same requests; ops and traits that the interpreter lacks.
#include "owner/worker/Service.h"
#include "test/owner/Support.h"
#include "test/runtime/engine/ReferenceEngine.h"

using namespace sojourn;
using namespace sojourn::owner;
using namespace sojourn::owner::test;

namespace {

/// A step of logistic regression on the open table's columns "a" and "n": the gradient of two weights and a bias, a
/// step downhill, and the loss.
runtime::EncodedProgram trainProgram() {
  return encode(moduleText(
      R"((%w: tensor<2x1xf32> {sojourn.kind = "state"}, %b: tensor<1xf32> {sojourn.kind = "state"},
          %y: tensor<4x1xf32> {sojourn.kind = "upload"},
          %t: !sojourn.table<4, "a" : f64, "n" : i64> {sojourn.kind = "table"})
       -> (tensor<2x1xf32> {sojourn.result = "commit", sojourn.target = 0 : i64},
           tensor<1xf32> {sojourn.result = "commit", sojourn.target = 1 : i64},
           tensor<f32> {sojourn.result = "publish"}))",
      R"(
    %i = sojourn.iota dim = 0 : tensor<4xi64>
    %rows = sojourn.read_rows %t, %i, columns = ["a", "n"]
      : !sojourn.table<4, "a" : f64, "n" : i64>, tensor<4xi64> -> tensor<4x2xf32>
    %scale = sojourn.constant 0.0625 : f32
    %x = sojourn.mul %rows, %scale : tensor<4x2xf32>, tensor<f32>
    %p = sojourn.dot %x, %w, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]
      : tensor<4x2xf32>, tensor<2x1xf32> -> tensor<4x1xf32>
    %bias = sojourn.broadcast %b, dims = [1] : tensor<1xf32> -> tensor<4x1xf32>
    %logit = sojourn.add %p, %bias : tensor<4x1xf32>, tensor<4x1xf32>
    %one = sojourn.constant 1.0 : f32
    %minus = sojourn.neg %logit : tensor<4x1xf32>
    %e = sojourn.exp %minus : tensor<4x1xf32>
    %below = sojourn.add %e, %one : tensor<4x1xf32>, tensor<f32>
    %q = sojourn.div %one, %below : tensor<f32>, tensor<4x1xf32>
    %r = sojourn.sub %q, %y : tensor<4x1xf32>, tensor<4x1xf32>
    %xt = sojourn.transpose %x, perm = [1, 0] : tensor<4x2xf32>
    %gw = sojourn.dot %xt, %r, lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0]
      : tensor<2x4xf32>, tensor<4x1xf32> -> tensor<2x1xf32>
    %gb = sojourn.reduce_sum %r, dims = [0] : tensor<4x1xf32>
    %rate = sojourn.constant 0.125 : f32
    %dw = sojourn.mul %gw, %rate : tensor<2x1xf32>, tensor<f32>
    %db = sojourn.mul %gb, %rate : tensor<1xf32>, tensor<f32>
    %w2 = sojourn.sub %w, %dw : tensor<2x1xf32>, tensor<2x1xf32>
    %b2 = sojourn.sub %b, %db : tensor<1xf32>, tensor<1xf32>
    %lq = sojourn.log %q : tensor<4x1xf32>
    %nq = sojourn.sub %one, %q : tensor<f32>, tensor<4x1xf32>
    %lnq = sojourn.log %nq : tensor<4x1xf32>
    %half = sojourn.constant 0.5 : f32
    %yes = sojourn.compare "gt" %y, %half : tensor<4x1xf32>, tensor<f32>
    %each = sojourn.select %yes, %lq, %lnq : tensor<4x1xi1>, tensor<4x1xf32>, tensor<4x1xf32>
    %sum = sojourn.reduce_sum %each, dims = [0, 1] : tensor<4x1xf32>
    %quarter = sojourn.constant -0.25 : f32
    %loss = sojourn.mul %sum, %quarter : tensor<f32>, tensor<f32>
    return %w2, %b2, %loss : tensor<2x1xf32>, tensor<1xf32>, tensor<f32>)"));
}

/// Keeps an upload of this shape.
runtime::EncodedProgram keep(const std::string &type) {
  return encode(
      moduleText("(%x: " + type + " {sojourn.kind = \"upload\"}) -> (" + type + " {sojourn.result = \"keep\"})",
                 "    return %x : " + type));
}

StepRequest requestOf(std::vector<Upload> uploads, std::vector<uint64_t> results = {}) {
  StepRequest request;
  request.uploads = std::move(uploads);
  request.results = std::move(results);
  return request;
}

/// Losses of a training of 20 steps.
std::vector<float> train(Owner &owner) {
  registerNumbers(owner, "numbers", Policy::open);
  Client client(owner);
  EXPECT_EQ(client.run(keep("tensor<2x1xf32>"), requestOf({f32({2, 1}, {0.5f, -0.25f})}, {1})).error(), "");
  EXPECT_EQ(client.run(keep("tensor<1xf32>"), requestOf({f32({1}, {0.125f})}, {2})).error(), "");
  const runtime::EncodedProgram program = trainProgram();
  std::vector<float> losses;
  for (int step = 0; step < 20; ++step) {
    StepRequest request = requestOf({f32({4, 1}, {0, 0, 1, 1})});
    request.states = {1, 2};
    request.tables = {"numbers"};
    Reply reply = client.run(program, request);
    if (!reply.error().empty()) {
      ADD_FAILURE() << reply.error();
      return {};
    }
    losses.push_back(values<float>(reply.published(0))[0]);
  }
  return losses;
}

} // namespace

TEST(Engines, TrainingOnAReferenceInterpreter) {
  World world, other;
  runtime::test::ReferenceEngine engine;
  Environment environment = other.environment();
  environment.worker = workersOn(engine);
  Owner cpu(world.environment()), reference(environment);
  const std::vector<float> expected = train(cpu), found = train(reference);
  EXPECT_EQ(engine.runs, 22u);
  ASSERT_EQ(expected.size(), 20u);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t step = 0; step < expected.size(); ++step) {
    EXPECT_NEAR(found[step], expected[step], 1e-5) << step;
  }
  EXPECT_LT(found.back(), 0.9f * found.front()) << "it learns";
}

TEST(Engines, AnOpWithoutAKernelIsNamedWhenTheProgramIsPlanned) {
  World world;
  runtime::test::ReferenceEngine engine;
  Environment environment = world.environment();
  environment.worker = workersOn(engine);
  Owner owner(environment);
  Client client(owner);
  const runtime::EncodedProgram program = encode(
      moduleText("(%x: tensor<3xf32> {sojourn.kind = \"upload\"}) -> (tensor<3xf32> {sojourn.result = \"publish\"})",
                 "    %y = sojourn.neg %x : tensor<3xf32>\n    %z = sojourn.erf %y : tensor<3xf32>\n"
                 "    return %z : tensor<3xf32>"));
  Reply reply = client.run(program, requestOf({f32({3}, {1, 2, 3})}));
  EXPECT_EQ(reply.error(), "Unsupported: the engine 'reference' of this owner has no kernel for 'erf'");
  EXPECT_EQ(reply.asError().op()->str(), "erf");
  EXPECT_EQ(reply.asError().location()->str(), "train.py:4:10");
  EXPECT_EQ(engine.runs, 0u);
}

/// Proofs rest on each trait.
TEST(Engines, PrivateTablesNeedTheTraitsOfProofs) {
  for (runtime::EngineTrait trait : runtime::kEngineTraits) {
    World world;
    runtime::test::ReferenceEngine engine;
    engine.lacked = trait;
    Environment environment = world.environment();
    environment.worker = workersOn(engine);
    Owner owner(environment);
    registerNumbers(owner, "numbers", Policy::privateOnly);
    Client client(owner);
    StepRequest request;
    request.tables = {"numbers"};
    Reply reply = client.run(sumProgram(), request);
    EXPECT_EQ(reply.error(),
              "Refused: the required noise is not known: it rests on " + runtime::textOf(trait).str() +
                  ", which the engine 'reference' does not guarantee: it computes in float64; run private steps on the "
                  "engine 'cpu'");
    EXPECT_EQ(engine.runs, 0u);
  }
}
