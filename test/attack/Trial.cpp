// SPDX-License-Identifier: Apache-2.0
// Runs in several worlds (see Trial.h).
#include "test/attack/Trial.h"

#include "runtime/Buffer.h"
#include "runtime/privacy/PoissonDraw.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <cstring>

using namespace sojourn;
using namespace sojourn::attack;
using runtime::Binding;
using runtime::HostTensor;

static constexpr size_t kOtherTables = 6;
static constexpr double kAlmost = 1 + 1e-9; ///< norms are added up in f64

static std::span<int64_t> numbers(const HostTensor &tensor) {
  return {static_cast<int64_t *>(tensor.buffer->data()), static_cast<size_t>(tensor.type.numel())};
}
static std::span<const double> doubles(const HostTensor &tensor) {
  return {static_cast<const double *>(tensor.buffer->data()), static_cast<size_t>(tensor.type.numel())};
}
static HostTensor copyOf(const HostTensor &tensor) {
  HostTensor copy{tensor.type, runtime::BufferPool::global().allocate(tensor.type.bytes())};
  std::memcpy(copy.buffer->data(), tensor.buffer->data(), tensor.type.bytes());
  return copy;
}
static bool isDraw(const CoinSpec &coin) { return coin.kind == CoinSpec::Kind::Draw; }

Trial::Trial(uint64_t seed) : dice(seed ^ 0x7A3D), seed(seed) {
  Dice apart(seed ^ 0x51DE); // attacks of found/ are as they were found, when there was no wide table
  for (const TableShape &shape : tableShapes()) {
    contents.push_back(std::make_unique<Contents>(shape, shape.name == "wide" ? apart : dice));
    firstTables[shape.name] = contents.back().get();
  }
}

void Trial::enter(WorldKind kind) {
  world = kind;
  next = 0;
  setPoison(kind == WorldKind::First ? 0x40 : kind == WorldKind::Neighbour ? 0xff : 0x01);
  if (kind != WorldKind::Neighbour) {
    return;
  }
  // One row that was read, if any was; of two lists that name it, the more often the better.
  const Contents *table = contents[dice.below(2)].get();
  for (const auto &each : contents) {
    if (findShape(each->dataset().name())->isPrivate && !each->read().empty() &&
        (table->read().empty() || dice.chance(0.5))) {
      table = each.get();
    }
  }
  int64_t row = dice.between(0, table->rows() - 1);
  if (!table->read().empty()) {
    row = std::next(table->read().begin(), static_cast<long>(dice.below(table->read().size())))->first;
  }
  neighbour = std::make_unique<Contents>(*table, row, dice);
  secondTables = firstTables;
  secondTables[table->dataset().name()] = neighbour.get();
}

std::vector<Binding> Trial::bind(llvm::ArrayRef<Binding> bindings, const Tables &tables,
                                 const std::vector<HostTensor> *coins) const {
  std::vector<Binding> bound(bindings.begin(), bindings.end());
  for (Binding &binding : bound) {
    if (const auto *dataset = dynamic_cast<const owner::Dataset *>(binding.table)) {
      auto found = tables.find(dataset->name());
      binding.table = found == tables.end() ? binding.table : found->second;
    }
  }
  if (coins) {
    size_t first = bound.size() - coins->size();
    for (auto [number, coin] : llvm::enumerate(*coins)) {
      bound[first + number] = {coin, nullptr};
    }
  }
  return bound;
}

Values Trial::run(const runtime::Executable &executable, const Instrumented *program, llvm::ArrayRef<Binding> bindings,
                  runtime::RunOptions options) {
  options.threads = 1;
  const Tables &tables = world == WorldKind::Neighbour ? secondTables : firstTables;
  if (!program) {
    return runReally(executable, bind(bindings, tables), options);
  }
  if (program->missed > 0) {
    fail("tool", "noise of a private program was not found after its lowering");
  }
  if (world == WorldKind::First) {
    return runFirst(executable, *program, bindings, options);
  }
  std::vector<HostTensor> coins;
  if (next < transcripts.size()) {
    coins = transcripts[next++].coins;
    coins = world == WorldKind::Redrawn ? redrawn(*program, std::move(coins), 2 * seed + 1) : coins;
  }
  auto values = runReally(executable, bind(bindings, tables, coins.empty() ? nullptr : &coins), options);
  if (values) {
    values->resize(program->results);
  }
  return values;
}

Values Trial::runFirst(const runtime::Executable &executable, const Instrumented &program,
                       llvm::ArrayRef<Binding> bindings, const runtime::RunOptions &options) {
  std::vector<HostTensor> coins, drawn;
  for (size_t number = 0; number < program.coins.size(); ++number) {
    drawn.push_back(bindings[bindings.size() - program.coins.size() + number].tensor);
    coins.push_back(copyOf(drawn.back()));
    draws |= isDraw(program.coins[number]);
  }
  // Noised values as they would be: noise on what was added up. A sum may be made of what was noised before.
  std::vector<HostTensor> first;
  for (size_t round = 0; round <= std::min<size_t>(program.sites.size(), 3); ++round) {
    auto values = runReally(executable, bind(bindings, firstTables, &coins), options);
    if (!values) {
      return values.takeError();
    }
    first = std::move(*values);
    bool isSame = true;
    for (auto [number, sum] : llvm::enumerate(program.sums)) {
      auto units = doubles(first[program.results + number]);
      auto noise = numbers(drawn[sum.coin]), noised = numbers(coins[sum.coin]);
      for (size_t k = 0; k < noised.size(); ++k) {
        double value = units[units.size() == 1 ? 0 : k];
        // What is no number whatever the rows are (a public factor is none) is seen below.
        double kept = std::isnan(value) ? 0 : std::clamp(value, -0x1p60, 0x1p60);
        int64_t whole = std::llround(kept) + noise[k];
        isSame &= noised[k] == whole;
        noised[k] = whole;
      }
    }
    if (isSame) {
      break;
    }
  }
  transcripts.push_back({coins});
  std::vector<Binding> bound = bind(bindings, firstTables, &coins);
  if (!found) {
    // The last round's sums belong to the coins before it.
    auto values = runReally(executable, bound, options);
    if (!values) {
      return values.takeError();
    }
    first = std::move(*values);
    compareNeighbours(executable, program, bound, options, first);
    compareDraws(executable, program, bound, options, first);
  }
  first.resize(program.results);
  return first;
}

std::vector<HostTensor> Trial::redrawn(const Instrumented &program, std::vector<HostTensor> coins, uint64_t key) const {
  privacy::Coins secret = privacy::Coins::forTests(key);
  uint32_t number = 0;
  for (auto [spec, coin] : llvm::zip(program.coins, coins)) {
    if (isDraw(spec)) {
      auto plan = privacy::PoissonDraw::plan(spec.rows, spec.expected, coin.type.numel());
      coin = copyOf(coin);
      std::get<privacy::PoissonDraw>(plan).draw(secret, number++, numbers(coin));
    }
  }
  return coins;
}

void Trial::compareNeighbours(const runtime::Executable &executable, const Instrumented &program,
                              llvm::ArrayRef<Binding> bindings, const runtime::RunOptions &options,
                              llvm::ArrayRef<HostTensor> first) {
  for (const Binding &binding : bindings) {
    const auto *table = dynamic_cast<const Contents *>(binding.table);
    if (!table || !table->shape().isPrivate || table->read().empty()) {
      continue;
    }
    using Reading = std::pair<const int64_t, size_t>;
    auto most = std::max_element(table->read().begin(), table->read().end(),
                                 [](const Reading &a, const Reading &b) { return a.second < b.second; });
    auto any = std::next(table->read().begin(), static_cast<long>(dice.below(table->read().size())));
    auto rerun = [&](const Contents &other, double times, const std::string &change) {
      setPoison(static_cast<uint8_t>(dice.word()));
      llvm::SmallVector<unsigned> changed;
      auto second = runReally(executable, replaced(bindings, *table, other, changed), options);
      if (!second) {
        fail("error", "a run fails where " + change + ": " + llvm::toString(second.takeError()));
        return;
      }
      compare(program, first, *second, times, change, changed);
    };
    for (int64_t row : {most->first, any->first}) {
      rerun(Contents(*table, row, dice), 2,
            "row " + std::to_string(row) + " of '" + table->shape().name + "' becomes another one");
    }
    // Neighbours of neighbours: what one row must not change, all rows must not. Runs cost little beside the proof.
    for (size_t k = 0; k < kOtherTables; ++k) {
      rerun(Contents(table->shape(), dice), 2 * static_cast<double>(table->rows()),
            "all rows of '" + table->shape().name + "' become others");
    }
  }
}

std::vector<Binding> Trial::replaced(llvm::ArrayRef<Binding> bindings, const Contents &table, const Contents &other,
                                     llvm::SmallVector<unsigned> &changed) {
  std::vector<Binding> bound(bindings.begin(), bindings.end());
  for (auto [number, each] : llvm::enumerate(bound)) {
    if (each.table == &table) {
      each.table = &other;
      changed.push_back(static_cast<unsigned>(number));
    }
  }
  return bound;
}

void Trial::compareDraws(const runtime::Executable &executable, const Instrumented &program,
                         llvm::ArrayRef<Binding> bindings, const runtime::RunOptions &options,
                         llvm::ArrayRef<HostTensor> first) {
  size_t lists = static_cast<size_t>(llvm::count_if(program.coins, isDraw));
  if (lists == 0) {
    return;
  }
  std::vector<HostTensor> coins;
  for (const Binding &binding : bindings.take_back(program.coins.size())) {
    coins.push_back(binding.tensor);
  }
  auto rerun = [&](const std::vector<HostTensor> &other, double times, const std::string &change) {
    setPoison(static_cast<uint8_t>(dice.word()));
    auto second = runReally(executable, bind(bindings, {}, &other), options);
    if (!second) {
      fail("error", "a run fails where " + change + ": " + llvm::toString(second.takeError()));
      return;
    }
    compare(program, first, *second, times, change, {});
  };
  rerun(redrawn(program, coins, dice.word()), std::numeric_limits<double>::infinity(), "other rows are drawn");
  if (lists > 1) {
    return; // which draws a person is in is not known here
  }
  size_t draw = static_cast<size_t>(llvm::find_if(program.coins, isDraw) - program.coins.begin());
  std::vector<size_t> full;
  for (auto [slot, row] : llvm::enumerate(numbers(coins[draw]))) {
    if (row >= 0) {
      full.push_back(slot);
    }
  }
  if (!full.empty()) {
    coins[draw] = copyOf(coins[draw]);
    numbers(coins[draw])[full[dice.below(full.size())]] = -1;
    rerun(coins, 1, "a row that was drawn is gone");
  }
}

void Trial::compare(const Instrumented &program, llvm::ArrayRef<HostTensor> first, llvm::ArrayRef<HostTensor> second,
                    double times, const std::string &change, llvm::ArrayRef<unsigned> changedTables) {
  ++compared;
  std::vector<double> moved(program.sites.size());
  for (auto [number, sum] : llvm::enumerate(program.sums)) {
    auto a = doubles(first[program.results + number]), b = doubles(second[program.results + number]);
    for (size_t k = 0; k < a.size(); ++k) {
      // Bits, for a NaN carries some.
      bool isSame = std::memcmp(&a[k], &b[k], sizeof(double)) == 0;
      double difference = isSame ? 0 : std::abs(a[k] - b[k]);
      if (!(difference < std::numeric_limits<double>::infinity())) {
        if (times < std::numeric_limits<double>::infinity()) { // other rows of a draw may be others altogether
          fail("sum", change + ": the sum of " + program.sites[sum.site].what + " becomes, or was, no finite number");
        }
        return;
      }
      moved[sum.site] += program.sites[sum.site].isLaplace ? difference : difference * difference;
    }
  }
  for (auto [number, site] : llvm::enumerate(program.sites)) {
    double norm = site.isLaplace ? moved[number] : std::sqrt(moved[number]);
    if (norm > times * site.sensitivity * kAlmost) {
      fail("sensitivity",
           llvm::formatv("{0}: the sum of {1} moves by {2} units of its grid, and {3} times {4} are charged", change,
                         site.what, norm, times, site.sensitivity)
               .str());
    }
    bool isPaid = llvm::any_of(changedTables, [&](unsigned table) { return llvm::is_contained(site.tables, table); });
    if (norm > 0 && !changedTables.empty() && !isPaid) {
      fail("unpaid", change + ": the sum of " + site.what + " moves, and that table is not charged for it");
    }
  }
  for (size_t result = 0; result < program.results; ++result) {
    if (program.released[result] &&
        std::memcmp(first[result].buffer->data(), second[result].buffer->data(), first[result].type.bytes()) != 0) {
      fail("released", change + ": result " + std::to_string(result) +
                           " differs where all that was noised is the same, and it is called public");
    }
  }
}

void Trial::fail(const std::string &property, const std::string &text) {
  if (!found) {
    found = {property, text};
  }
}
