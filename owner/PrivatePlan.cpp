// SPDX-License-Identifier: Apache-2.0
// Rewriting and planning programs on private tables; their coins (see PrivatePlan.h).
#include "owner/PrivatePlan.h"

#include "dialect/rows/Support.h"
#include "owner/RequestError.h"
#include "passes/privacy/Inputs.h"
#include "passes/privacy/Privacy.h"
#include "passes/privacy/RowLists.h"
#include "runtime/Team.h"
#include "runtime/privacy/DiscreteGaussian.h"
#include "runtime/privacy/DiscreteLaplace.h"
#include "runtime/privacy/PoissonDraw.h"
#include "runtime/privacy/Rdp.h"
#include "runtime/privacy/Tail.h"

#include "mlir/IR/MLIRContext.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>

namespace sojourn::owner {

using llvm::Twine;
using runtime::Element;

std::string PrivateTerms::key() const {
  std::string text;
  llvm::raw_string_ostream out(text);
  auto number = [&](double value) { out << llvm::format("%a ", value); };
  for (bool isPublic : publicArguments) {
    out << isPublic;
  }
  for (const Table &table : tables) {
    out << "|" << table.isPrivate << ' ' << table.rows;
    for (const Column &column : table.columns) {
      out << ";" << column.name.size() << ":" << column.name << static_cast<int>(column.element);
      if (column.bounds) {
        number(column.bounds->lower);
        number(column.bounds->upper);
      }
    }
  }
  out << "|" << perLayer << lossIsSum << " ";
  for (double value : {noiseMultiplier, clip, metricBound, metricShare}) {
    number(value);
  }
  for (const Release &release : releases) {
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
      size_t results = 0; // and sorted copies of them
      for (const runtime::ResultSpec &spec : program->results()) {
        results += 2 * spec.type.bytes();
      }
      lists = std::max(lists,
                       program->arenaBytes() + threads * program->scratchBytes() + program->libraryBytes() + results);
    }
  }
  size_t run = executable->arenaBytes() + threads * executable->scratchBytes() + executable->libraryBytes() + coinBytes;
  return std::max(run, lists);
}

size_t PrivatePlan::bytes() const {
  size_t lists = (fixedLists ? fixedLists->planBytes() : 0) + (sentLists ? sentLists->planBytes() : 0);
  return sizeof(*this) + executable->planBytes() + lists + report.size() + 256 * (sites.size() + coins.size());
}

/// Of the plans of one program, and of all.
static constexpr size_t kPlansMost = 16, kBytesMost = size_t{1} << 30;
static std::atomic<size_t> cachedBytes = 0;

PrivatePlans::~PrivatePlans() { clear(); }

void PrivatePlans::clear() {
  for (const auto &[terms, plan] : known) {
    cachedBytes -= plan->bytes();
  }
  known.clear();
}

std::shared_ptr<const PrivatePlan> PrivatePlans::find(const std::string &terms) {
  std::lock_guard lock(mutex);
  auto found = known.find(terms);
  return found == known.end() ? nullptr : found->second;
}

void PrivatePlans::insert(const std::string &terms, std::shared_ptr<const PrivatePlan> plan) {
  std::lock_guard lock(mutex);
  if (known.size() >= kPlansMost) {
    clear();
  }
  size_t bytes = plan->bytes();
  if (cachedBytes + bytes <= kBytesMost && known.try_emplace(terms, std::move(plan)).second) {
    cachedBytes += bytes;
  }
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

/// Gaussian noise where a row may become any other: not sampled, its sensitivity doubles; sampled it costs no more than
/// that, and no more than two steps by way of the null row.
privacy::Charge replacedGaussian(double rate, double rho) {
  privacy::Charge whole = privacy::gaussian(4 * rho);
  privacy::Charge steps = privacy::replaceOne(privacy::sampledGaussian(rate, rho));
  for (size_t k = 0; k < whole.rdp.size(); ++k) {
    whole.rdp[k] = std::min(whole.rdp[k], steps.rdp[k]);
  }
  return whole;
}

/// What the sites of one draw cost each of its tables.
llvm::Error addCharges(const PrivacyPlan &from, const DrawUse &draw, const PrivateTerms &terms, PrivatePlan &plan) {
  if (draw.sites.empty()) {
    return llvm::Error::success();
  }
  double rate = 1, failures = 0x1p-70; // distances of the samplers: 2^-110 a value, 2^-109 a draw
  if (draw.isSampled) {
    auto sampled = privacy::PoissonDraw::plan(draw.rows, draw.expected, draw.slots);
    if (auto *reason = std::get_if<std::string>(&sampled)) {
      return requestError(wire::ErrorCode_Malformed, "a draw of rows: " + *reason);
    }
    const auto &poisson = std::get<privacy::PoissonDraw>(sampled);
    rate = poisson.probability();
    if (poisson.overflowMass() > 2 * privacy::kOverflowMax) {
      return requestError(wire::ErrorCode_Refused, "a batch of expected size " + Twine(draw.expected) + " of " +
                                                       Twine(draw.rows) + " rows has only " + Twine(draw.slots) +
                                                       " slots: too many draws would not fit");
    }
    failures += poisson.overflowMass();
  }
  // Of one draw what releases cost adds up before it is amplified, also where one was chosen by another, as the second
  // of two updates is: given the sample they compose as Gaussian mechanisms do (Dong, Roth, Su 2022, corollary 3.3), so
  // both outcomes are made of one Gaussian of the summed rho, with the row or without it (Blackwell), and so are their
  // mixtures over the row's coin. Noise on the grid, in its turn, is made of continuous noise: rounded with discrete
  // noise of variance 8 around it, that of variance s^2 - 8 gives the grid's of s^2 up to a factor of 1 + 4 exp(-16
  // pi^2), less than 2^-220 (the sum of a Gaussian over a shifted grid hardly depends on the shift). Prove.cpp counts
  // the 8; the factor is far below what samplers are off by, `failures`.
  double stepRho = 0, besideRho = 0;
  privacy::Charge beside, besideReplaced;
  for (size_t number : draw.sites) {
    const ReleaseSite &site = from.sites[number];
    if (site.isLaplace) {
      beside = beside + privacy::pure(site.cost);
      besideReplaced = besideReplaced + privacy::pure(2 * site.cost);
    } else {
      (site.isBeside ? besideRho : stepRho) += site.cost;
    }
  }
  // Of a step the whole part is charged, whatever it published: its price is known before the program is.
  if (stepRho > 0) {
    stepRho = std::max(stepRho, 1 / (2 * terms.noiseMultiplier * terms.noiseMultiplier));
  }
  privacy::Charge step;
  if (stepRho > 0) {
    step = privacy::sampledGaussian(rate, stepRho) + privacy::failure(failures);
  }
  if (besideRho > 0) { // one batch, one charge: what the beside ones add to it
    auto added = [&](auto cost) { return cost(stepRho + besideRho) - cost(stepRho); };
    beside = beside + added([&](double rho) { return privacy::sampledGaussian(rate, rho); });
    besideReplaced = besideReplaced + added([&](double rho) { return replacedGaussian(rate, rho); });
  }
  if (beside != privacy::Charge{}) {
    beside = beside + privacy::failure(failures);
    besideReplaced = besideReplaced + privacy::failure(failures);
  }
  for (unsigned argument : draw.tables) {
    auto known = llvm::find_if(plan.charges, [&](const TableCharge &charge) { return charge.argument == argument; });
    if (known == plan.charges.end()) {
      plan.charges.push_back({argument, step, beside, besideReplaced});
    } else {
      known->step = known->step + step;
      known->beside = known->beside + beside;
      known->besideReplaced = known->besideReplaced + besideReplaced;
    }
  }
  return llvm::Error::success();
}

PrivacyOptions optionsOf(const Plan &plan, const PrivateTerms &terms) {
  PrivacyOptions options;
  options.noiseMultiplier = terms.noiseMultiplier;
  options.clip = terms.clip;
  options.perLayer = terms.perLayer;
  options.lossIsMean = !terms.lossIsSum;
  options.metricShare = terms.metricShare;
  options.metricBound = terms.metricBound;
  size_t published = 0;
  unsigned prices = 0;
  auto results = plan.executable->results();
  for (unsigned index = 0; index < results.size(); ++index) {
    if (results[index].kind != StepResult::Publish || published >= terms.releases.size()) {
      continue;
    }
    const PrivateTerms::Release &release = terms.releases[published++];
    PrivacyOptions::Publish &publish = options.publishes[index];
    prices += !release.continues;
    publish.price = prices;
    if (release.bound > 0) {
      publish.bound = release.bound;
    }
    if (release.rho > 0) {
      publish.rho = release.rho;
    }
    if (release.laplaceEpsilon > 0) {
      publish.laplaceEpsilon = release.laplaceEpsilon;
    }
  }
  return options;
}

} // namespace

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
  made->notes = rewritten->notes;
  made->report = describeSites(*made, terms);
  auto executable = runtime::Executable::create(**module);
  if (!executable) {
    return executable.takeError();
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
      if (namesRowTwice({rows, list.type.bytes() / sizeof(int64_t)})) {
        return requestError(wire::ErrorCode_Refused,
                            "a private table would be read at row numbers that name a row twice; each row counts once: "
                            "take batches of the table, or all of its rows",
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
