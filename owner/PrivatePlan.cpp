// SPDX-License-Identifier: Apache-2.0
// Rewriting and planning programs on private tables; their coins (see PrivatePlan.h).
#include "owner/PrivatePlan.h"

#include "dialect/CoreForm.h"
#include "dialect/rows/Support.h"
#include "owner/RequestError.h"
#include "owner/Shares.h"
#include "passes/privacy/Inputs.h"
#include "passes/privacy/Privacy.h"
#include "passes/privacy/RowLists.h"
#include "runtime/Stop.h"
#include "runtime/Team.h"
#include "runtime/privacy/DiscreteGaussian.h"
#include "runtime/privacy/DiscreteLaplace.h"
#include "runtime/privacy/PoissonDraw.h"
#include "runtime/terms/Charges.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/ScopeExit.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>

namespace sojourn::owner {

using llvm::Twine;
using runtime::Element;

std::string PrivateTerms::key() const {
  std::string text;
  llvm::raw_string_ostream out(text);
  // Of fixed width; what may be there or not comes after a count, so that no two terms have one text.
  auto number = [&](double value) { out.write(reinterpret_cast<const char *>(&value), sizeof(value)); };
  for (bool isPublic : publicArguments) {
    out << isPublic;
  }
  for (const Table &table : tables) {
    out << "|" << table.isPrivate << ' ' << table.rows;
    for (const Column &column : table.columns) {
      out << ";" << column.name.size() << ":" << column.name << static_cast<int>(column.element)
          << (column.bounds ? '=' : '-');
      if (column.bounds) {
        number(column.bounds->lower);
        number(column.bounds->upper);
      }
    }
  }
  out << "|" << perLayer << lossIsSum << ' ' << releases.size() << ' ' << slots.size() << ' ';
  for (double value : {noiseMultiplier, clip, metricBound, metricShare}) {
    number(value);
  }
  for (const terms::Release &release : releases) {
    number(release.bound);
    number(release.rho);
    number(release.laplaceEpsilon);
    out << release.continues << ' ';
  }
  for (uint64_t word : slots) {
    out << word << ' ';
  }
  for (size_t index = 0; index < extents.size(); ++index) {
    if (extents[index]) {
      out << '|' << index << ' ';
      number(extents[index]->low);
      number(extents[index]->high);
    }
  }
  return text;
}

size_t PrivatePlan::runBytes(unsigned threads) const {
  size_t coinBytes = 0;
  for (const CoinInfo &coin : coins) {
    coinBytes += coin.type.bytes();
  }
  size_t lists = 0; // checked and gone before the step runs
  for (const auto *program : {fixedLists.get(), sentLists.get()}) {
    if (program) {
      size_t results = 0; // sorted copies of them, and what merging takes
      for (const runtime::ResultSpec &spec : program->results()) {
        results += 3 * spec.type.bytes();
      }
      lists = std::max(lists, program->runMemory().bytes(threads) + results);
    }
  }
  size_t run = executable->runMemory().bytes(threads) + coinBytes;
  return std::max(run, lists);
}

size_t PrivatePlan::bytes() const {
  size_t lists = (fixedLists ? fixedLists->planBytes() : 0) + (sentLists ? sentLists->planBytes() : 0);
  return sizeof(*this) + executable->planBytes() + lists + report.size() + 256 * (sites.size() + coins.size());
}

/// Of the plans of one program, and of all.
static constexpr size_t kPlansMost = 16, kBytesMost = size_t{1} << 30, kRefusalsMost = 64,
                        kLastTermsBytes = size_t{16} << 10;

namespace {
/// Bytes of the plans of all programs.
class CachedBytes {
public:
  /// Whether there is room.
  bool take(const std::string &account, size_t bytes) {
    std::lock_guard lock(mutex);
    const bool fits = bytes <= shares.left() && shares.used(account) + bytes <= shares.share(account);
    if (fits) {
      shares.add(account, bytes);
    }
    return fits;
  }
  void giveBack(const std::string &account, size_t bytes) {
    std::lock_guard lock(mutex);
    shares.remove(account, bytes);
  }

private:
  std::mutex mutex;
  Shares shares{kBytesMost};
};
/// Never destroyed: plans may be, when the process ends.
CachedBytes &cachedBytes = *new CachedBytes;
} // namespace

PrivatePlans::~PrivatePlans() { clear(); }

void PrivatePlans::clear() {
  for (const auto &[terms, entry] : known) {
    cachedBytes.giveBack(entry.account, entry.plan->bytes());
  }
  known.clear();
  last = nullptr;
  lastTerms = {};
}

llvm::Expected<std::shared_ptr<const PrivatePlan>> PrivatePlans::find(const std::string &terms) {
  {
    std::lock_guard lock(mutex);
    if (last && terms == lastTerms) {
      return last;
    }
  }
  const runtime::ProgramHash key = runtime::hashProgram(terms);
  std::lock_guard lock(mutex);
  if (auto found = refused.find(key); found != refused.end()) {
    return llvm::make_error<RequestError>(found->second);
  }
  auto found = known.find(key);
  if (found == known.end()) {
    return nullptr;
  }
  if (terms.size() <= kLastTermsBytes) {
    lastTerms = terms;
    last = found->second.plan;
  }
  return found->second.plan;
}

void PrivatePlans::refuse(const std::string &terms, const RequestError &error) {
  const runtime::ProgramHash key = runtime::hashProgram(terms);
  std::lock_guard lock(mutex);
  if (refused.size() >= kRefusalsMost) {
    refused.clear();
  }
  refused.try_emplace(key, error);
}

void PrivatePlans::insert(const std::string &terms, std::shared_ptr<const PrivatePlan> plan,
                          const std::string &account) {
  const runtime::ProgramHash key = runtime::hashProgram(terms);
  std::lock_guard lock(mutex);
  const size_t bytes = plan->bytes();
  if (known.count(key) || !cachedBytes.take(account, bytes)) {
    return;
  }
  llvm::scope_exit undo([&] { cachedBytes.giveBack(account, bytes); });
  if (known.size() >= kPlansMost) {
    clear();
  }
  known.try_emplace(key, Entry{std::move(plan), account});
  undo.release();
}

namespace {

RowInputs inputsOf(mlir::func::FuncOp step, const PrivateTerms &terms) {
  std::vector<TableFacts> tables(terms.tables.size());
  for (size_t index = 0; index < tables.size(); ++index) {
    tables[index].isPrivate = terms.tables[index].isPrivate;
    tables[index].rows = terms.tables[index].rows;
    for (const Column &column : terms.tables[index].columns) {
      auto &bounds = tables[index].columns[column.name];
      if (column.bounds) {
        bounds = {column.bounds->lower, column.bounds->upper};
      }
    }
  }
  RowInputs inputs = sojourn::inputsOf(
      step, [&](unsigned index) { return index < terms.publicArguments.size() && terms.publicArguments[index]; },
      [&](unsigned index) { return index < tables.size() ? &tables[index] : nullptr; });
  setSlots(step, terms.slots, inputs);
  for (unsigned index = 0; index < terms.extents.size() && index < inputs.arguments.size(); ++index) {
    if (terms.extents[index] && terms.publicArguments[index]) {
      setExtent(step, index, terms.extents[index]->low, terms.extents[index]->high, inputs);
    }
  }
  return inputs;
}

/// What the sites of one draw cost each of its tables.
llvm::Error addCharges(const PrivacyPlan &from, const DrawUse &draw, const PrivateTerms &terms, PrivatePlan &plan) {
  if (draw.sites.empty()) {
    return llvm::Error::success();
  }
  terms::Draw drawn{draw.isSampled, draw.rows, draw.expected, draw.slots};
  auto rate = terms::rateOf(drawn);
  if (!rate) {
    return requestError(wire::ErrorCode_Malformed, rate.error());
  }
  if (std::string refusal = terms::checkSlots(drawn, *rate); !refusal.empty()) {
    return requestError(wire::ErrorCode_Refused, refusal);
  }
  std::vector<terms::SiteCost> sites;
  for (size_t number : draw.sites) {
    const ReleaseSite &site = from.sites[number];
    sites.push_back({site.cost, site.isBeside, site.isLaplace});
  }
  terms::DrawCharges charges = terms::chargesOf(*rate, sites, terms.noiseMultiplier);
  for (unsigned argument : draw.tables) {
    auto known = llvm::find_if(plan.charges, [&](const TableCharge &charge) { return charge.argument == argument; });
    if (known == plan.charges.end()) {
      plan.charges.push_back({argument, charges.step, charges.beside, charges.besideReplaced});
    } else {
      known->step = known->step + charges.step;
      known->beside = known->beside + charges.beside;
      known->besideReplaced = known->besideReplaced + charges.besideReplaced;
    }
  }
  return llvm::Error::success();
}

PrivacyOptions optionsOf(const Plan &plan, const PrivateTerms &terms) {
  std::vector<std::optional<unsigned>> published;
  unsigned next = 0;
  for (const runtime::ResultSpec &result : plan.facts.results) {
    published.push_back(result.kind == StepResult::Publish ? std::optional(next++) : std::nullopt);
  }
  PrivacyOptions options = terms::optionsOf(terms, published);
  options.isStopped = &runtime::isStopped;
  return options;
}

} // namespace

/// Nothing where an argument of the step changes it; NaN where it is not known.
static std::optional<double> fixedError(const std::optional<NoiseForm> &form) {
  bool asks = false;
  const auto deviations = form ? form->deviations([&](unsigned) {
    asks = true;
    return std::optional<std::vector<double>>();
  })
                               : std::nullopt;
  if (asks) {
    return std::nullopt;
  }
  return deviations ? *llvm::max_element(*deviations) : std::numeric_limits<double>::quiet_NaN();
}

llvm::Expected<std::shared_ptr<const PrivatePlan>> makePrivatePlan(const Plan &plan, const PrivateTerms &terms,
                                                                   const PriceLimits &limits) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = runtime::decodeProgram(context, plan.program, plan.debug);
  if (!module) {
    return module.takeError();
  }
  FirstError refusal(context, &runtime::describeLocation);
  auto step = (*module)->lookupSymbol<mlir::func::FuncOp>(kStepName);
  auto made = std::make_shared<PrivatePlan>();
  mlir::FailureOr<PrivacyPlan> rewritten = makePrivate(**module, inputsOf(step, terms), optionsOf(plan, terms));
  if (runtime::isStopped()) {
    return requestError(wire::ErrorCode_Stopped, "the step was stopped while its program was made private");
  }
  if (mlir::failed(rewritten)) {
    return requestError(wire::ErrorCode_Refused, refusal.text(), "", refusal.location());
  }
  for (const DrawUse &draw : rewritten->draws) {
    made->isSampled |= draw.isSampled && !draw.sites.empty();
    if (llvm::Error error = addCharges(*rewritten, draw, terms, *made)) {
      return error;
    }
  }
  for (const ReleaseSite &site : rewritten->sites) {
    made->spendsInStep |= !site.isBeside;
    made->sites.push_back({.what = site.what,
                           .op = site.op,
                           .location = runtime::describeLocation(site.location),
                           .isBeside = site.isBeside,
                           .isLaplace = site.isLaplace,
                           .bound = site.bound,
                           .sensitivity = site.sensitivity,
                           .cost = site.cost,
                           .exponent = site.exponent,
                           .scale = site.scale,
                           .coordinates = site.coordinates,
                           .result = site.result,
                           .tables = site.tables});
    // Samplers stop the process beyond their bounds.
    bool isDrawable = site.scale >= 1 &&
                      static_cast<uint64_t>(site.scale) <= (site.isLaplace ? privacy::kLaplaceMax : privacy::kSigmaMax);
    if (!isDrawable) {
      return requestError(
          wire::ErrorCode_Refused,
          "the noise of the " + site.what + " would be " + Twine(site.scale) +
              " units of its grid, more than can be drawn; release fewer numbers at once, or with less noise",
          "", runtime::describeLocation(site.location));
    }
  }
  for (const CoinSpec &coin : rewritten->coins) {
    auto kind = coin.kind == CoinSpec::Kind::Draw       ? CoinInfo::Kind::draw
                : coin.kind == CoinSpec::Kind::Gaussian ? CoinInfo::Kind::gaussian
                                                        : CoinInfo::Kind::laplace;
    made->coins.push_back({.kind = kind,
                           .type = {Element::i64, {coin.shape.begin(), coin.shape.end()}},
                           .rows = coin.rows,
                           .expected = coin.expected,
                           .scale = coin.scale,
                           .site = coin.site});
    if (coin.kind != CoinSpec::Kind::Draw) {
      continue;
    }
    auto draw = privacy::PoissonDraw::plan(coin.rows, coin.expected, coin.shape[0]);
    if (auto *reason = std::get_if<std::string>(&draw)) {
      return requestError(wire::ErrorCode_Malformed, "a draw of rows: " + *reason);
    }
  }
  // Norms and blocks per row cost, too.
  if (std::optional<PriceExcess> excess = findExcess(**module, limits)) {
    return requestError(wire::ErrorCode_Limit, "made private, " + excess->message,
                        excess->op->getName().stripDialect().str(), runtime::describeLocation(excess->op->getLoc()));
  }
  for (auto [program, lists] :
       {std::pair(&rewritten->fixedLists, &made->fixedLists), {&rewritten->sentLists, &made->sentLists}}) {
    if (*program) {
      auto executable = runtime::Executable::create(**program);
      if (!executable) {
        return executable.takeError();
      }
      *lists = std::move(*executable);
    }
  }
  made->released = rewritten->released;
  made->tables = rewritten->tables;
  made->tainted = rewritten->tainted;
  made->forms = std::move(rewritten->forms);
  llvm::transform(made->forms, std::back_inserter(made->errors), fixedError);
  made->notes = rewritten->notes;
  made->report = describeSites(*made, terms);
  made->operations = priceOf(**module).operations;
  for (const CoinInfo &coin : made->coins) {
    constexpr uint64_t kPerCoin = 64; // operations in whose time one is drawn
    made->operations += kPerCoin * static_cast<uint64_t>(coin.type.numel());
  }
  auto executable = runtime::Executable::create(**module);
  if (!executable) {
    return executable.takeError();
  }
  if (llvm::Error error = checkLibraryCalls(**module, **executable, limits)) {
    return error;
  }
  made->executable = std::move(*executable);
  return made;
}

llvm::Error checkRowLists(const PrivatePlan &plan, llvm::ArrayRef<runtime::Binding> bindings,
                          const runtime::RunOptions &options) {
  auto check = [&](const runtime::Executable &program, llvm::ArrayRef<runtime::Binding> arguments) -> llvm::Error {
    auto lists = program.run(arguments, options);
    if (!lists) {
      return lists.takeError();
    }
    for (auto [list, spec] : llvm::zip(*lists, program.results())) {
      const auto *rows = static_cast<const int64_t *>(list.buffer->data());
      const auto isTwice = namesRowTwice({rows, list.type.bytes() / sizeof(int64_t)},
                                         [&] { return options.stop != nullptr && options.stop->load(); });
      if (!isTwice) {
        return requestError(wire::ErrorCode_Stopped, "the step was stopped", spec.op, spec.location);
      }
      if (*isTwice) {
        return requestError(wire::ErrorCode_Refused,
                            "this step would read a private table at duplicate row numbers; each row counts once: take "
                            "batches of the table, or all of its rows",
                            spec.op, spec.location);
      }
    }
    return llvm::Error::success();
  };
  if (plan.fixedLists && !plan.areFixedListsChecked) {
    if (llvm::Error error = check(*plan.fixedLists, {})) {
      return error;
    }
    plan.areFixedListsChecked = true;
  }
  return plan.sentLists ? check(*plan.sentLists, bindings) : llvm::Error::success();
}

static std::atomic<int64_t> coinNanoseconds = 0;

double coinSeconds() { return 1e-9 * static_cast<double>(coinNanoseconds.load()); }

std::vector<runtime::Binding> drawCoins(const PrivatePlan &plan, unsigned threads, std::span<const uint64_t> context) {
  /// Values that one thread draws at a time.
  constexpr size_t kValuesPerTask = 8192;
  auto begin = std::chrono::steady_clock::now();
  privacy::Coins coins =
      privacy::Coins::fromSystem({reinterpret_cast<const uint8_t *>(context.data()), context.size_bytes()});
  std::vector<runtime::Binding> bindings;
  std::vector<std::function<void()>> tasks;
  uint32_t draws = 0, sites = 0;
  for (const CoinInfo &coin : plan.coins) {
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
