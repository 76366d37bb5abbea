// SPDX-License-Identifier: Apache-2.0
// Draws of rows and noise (see Coins.h).
#include "owner/worker/Coins.h"

#include "runtime/Team.h"
#include "runtime/privacy/Coins.h"
#include "runtime/privacy/DiscreteGaussian.h"
#include "runtime/privacy/DiscreteLaplace.h"
#include "runtime/privacy/PoissonDraw.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>

namespace sojourn::owner {

using runtime::CoinInfo;

static std::atomic<int64_t> coinNanoseconds = 0;

double coinSeconds() { return 1e-9 * static_cast<double>(coinNanoseconds.load()); }

std::vector<runtime::Binding> drawCoins(llvm::ArrayRef<CoinInfo> specs, unsigned threads,
                                        std::span<const uint64_t> context) {
  /// Values that one thread draws at a time.
  constexpr size_t kValuesPerTask = 8192;
  auto begin = std::chrono::steady_clock::now();
  privacy::Coins coins =
      privacy::Coins::fromSystem({reinterpret_cast<const uint8_t *>(context.data()), context.size_bytes()});
  std::vector<runtime::Binding> bindings;
  std::vector<std::function<void()>> tasks;
  uint32_t draws = 0, sites = 0;
  for (const CoinInfo &coin : specs) {
    size_t count = coin.type.bytes() / sizeof(int64_t);
    auto buffer = runtime::BufferPool::global().allocate(coin.type.bytes());
    std::span<int64_t> values(static_cast<int64_t *>(buffer->data()), count);
    if (coin.kind == CoinInfo::Kind::draw) {
      auto draw = privacy::PoissonDraw::plan(coin.rows, coin.expected, static_cast<int64_t>(count));
      std::get<privacy::PoissonDraw>(draw).draw(coins, draws++, values); // planned before, so it can be
    } else if (coin.kind == CoinInfo::Kind::laplace) {
      privacy::fillDiscreteLaplace(coins, sites++, {static_cast<uint64_t>(coin.scale)}, 0, values);
    } else {
      // A value is the same whoever draws it.
      for (size_t first = 0; first < count; first += kValuesPerTask) {
        tasks.emplace_back([&coins, site = sites, scale = static_cast<uint64_t>(coin.scale), first,
                            part = values.subspan(first, std::min(kValuesPerTask, count - first))] {
          privacy::fillDiscreteGaussian(coins, site, scale, first, part);
        });
      }
      ++sites;
    }
    bindings.push_back({{coin.type, std::move(buffer)}, nullptr});
  }
  runtime::runTasks(tasks.size(), threads, [&](size_t task) { tasks[task](); });
  coinNanoseconds += std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  return bindings;
}

} // namespace sojourn::owner
