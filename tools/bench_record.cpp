// SPDX-License-Identifier: Apache-2.0
// Cost of recording one op from C++: google-benchmark program used by tools/bench.
#include "frontend/ahead/Artifact.h"
#include "frontend/session/Session.h"

#include <benchmark/benchmark.h>
#include <torch/torch.h>

namespace {

constexpr int kOpsPerTrace = 1024;

/// Records `op` over and over; the open trace is dropped every so often, outside the timing.
template <class Op>
void record(benchmark::State &state, Op op) {
  sojourn::Offline offline;
  at::Tensor x = torch::rand({64, 64}, offline.device()), y = torch::rand({64, 64}, offline.device());
  at::Tensor keep = op(x, y);
  auto session = offline.session();
  c10::InferenceMode noAutograd;
  int recorded = 0;
  session->recording().mark();
  for (auto _ : state) {
    benchmark::DoNotOptimize(op(x, y));
    if (++recorded == kOpsPerTrace) {
      state.PauseTiming();
      session->recording().rollback(sojourn::frontend::reasonOf("the benchmark starts over"));
      recorded = 0;
      state.ResumeTiming();
    }
  }
  session->recording().rollback(sojourn::frontend::reasonOf("the benchmark ended"));
}

void add(benchmark::State &state) {
  record(state, [](const at::Tensor &x, const at::Tensor &y) { return at::add(x, y); });
}
void mm(benchmark::State &state) {
  record(state, [](const at::Tensor &x, const at::Tensor &y) { return at::mm(x, y); });
}
void transpose(benchmark::State &state) {
  record(state, [](const at::Tensor &x, const at::Tensor &) { return x.t(); });
}
void relu(benchmark::State &state) {
  record(state, [](const at::Tensor &x, const at::Tensor &) { return at::relu(x); });
}

BENCHMARK(add);
BENCHMARK(mm);
BENCHMARK(transpose);
BENCHMARK(relu);

} // namespace

BENCHMARK_MAIN();
