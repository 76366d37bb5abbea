// SPDX-License-Identifier: Apache-2.0
// Nanoseconds per value and core of the owner's noise, and the cost of its tables and of a draw of
// rows: build/tools/bench-noise.
#include "runtime/privacy/DiscreteGaussian.h"
#include "runtime/privacy/DiscreteLaplace.h"
#include "runtime/privacy/GaussianTable.h"
#include "runtime/privacy/PoissonDraw.h"

#include <benchmark/benchmark.h>
#include <cmath>
#include <vector>

namespace sojourn::privacy {

static constexpr uint64_t kSigma = 3 << 19;

static void perValue(benchmark::State &state, size_t values) {
  const auto all = static_cast<double>(state.iterations()) * static_cast<double>(values);
  state.counters["per_value"] = benchmark::Counter(all, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

static void coins(benchmark::State &state) {
  Coins coins = Coins::forTests(1);
  std::vector<uint8_t> out(static_cast<size_t>(state.range(0)) * kCoinBlock);
  for (auto _ : state) {
    coins.fill({CoinUse::noise, 0}, 0, out);
    benchmark::DoNotOptimize(out.data());
  }
  perValue(state, out.size() / kCoinBlock);
}
BENCHMARK(coins)->Arg(1)->Arg(8)->Arg(128)->Arg(1024);

template <auto fill>
static void gaussian(benchmark::State &state) {
  Coins coins = Coins::forTests(1);
  std::vector<int64_t> out(static_cast<size_t>(state.range(0)));
  uint64_t first = 0;
  for (auto _ : state) {
    fill(coins, 0, kSigma, first, out);
    first += out.size();
    benchmark::DoNotOptimize(out.data());
  }
  perValue(state, out.size());
}
BENCHMARK(gaussian<fillDiscreteGaussian>)->Name("gaussian/table")->Arg(64)->Arg(1 << 16);
BENCHMARK(gaussian<fillDiscreteGaussianByRejection>)->Name("gaussian/rejection")->Arg(1 << 12);

static void laplace(benchmark::State &state) {
  Coins coins = Coins::forTests(1);
  std::vector<int64_t> out(1 << 12);
  for (auto _ : state) {
    fillDiscreteLaplace(coins, 0, {kSigma}, 0, out);
    benchmark::DoNotOptimize(out.data());
  }
  perValue(state, out.size());
}
BENCHMARK(laplace);

/// Another sigma each time, so that the cache does not help.
static void table(benchmark::State &state) {
  uint64_t sigma = kSigma;
  for (auto _ : state) {
    benchmark::DoNotOptimize(gaussianTable(++sigma));
  }
}
BENCHMARK(table)->Unit(benchmark::kMicrosecond);

/// Rows of the table, expected size, capacity.
static void draw(benchmark::State &state) {
  Coins coins = Coins::forTests(1);
  auto plan = PoissonDraw::plan(state.range(0), state.range(1), state.range(2));
  const PoissonDraw &poisson = std::get<PoissonDraw>(plan);
  std::vector<int64_t> slots(static_cast<size_t>(state.range(2)));
  uint32_t index = 0;
  for (auto _ : state) {
    poisson.draw(coins, index++, slots);
    benchmark::DoNotOptimize(slots.data());
  }
  perValue(state, slots.size());
}
BENCHMARK(draw)
    ->Args({455, 64, 136})
    ->Args({60000, 256, 384})
    ->Args({1 << 30, 4096, 4672})
    ->Unit(benchmark::kMicrosecond);

} // namespace sojourn::privacy

BENCHMARK_MAIN();
