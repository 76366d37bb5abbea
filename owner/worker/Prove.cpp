// SPDX-License-Identifier: Apache-2.0
// Proofs of programs on private tables (see Worker.h).
#include "dialect/CoreForm.h"
#include "dialect/rows/Support.h"
#include "owner/RequestError.h"
#include "owner/worker/ProgramCode.h"
#include "owner/worker/Worker.h"
#include "passes/Price.h"
#include "passes/privacy/Inputs.h"
#include "passes/privacy/Privacy.h"
#include "runtime/Program.h"
#include "runtime/Stop.h"
#include "runtime/privacy/DiscreteGaussian.h"
#include "runtime/privacy/DiscreteLaplace.h"
#include "runtime/privacy/PoissonDraw.h"
#include "runtime/terms/Charges.h"
#include "runtime/terms/Options.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace sojourn::owner {

using llvm::Twine;
using runtime::CoinInfo;
using runtime::Element;
using runtime::TableCharge;

namespace {

RowInputs inputsOf(mlir::func::FuncOp step, const PrivateTerms &terms) {
  std::vector<TableFacts> tables(terms.tables.size());
  for (size_t index = 0; index < tables.size(); ++index) {
    tables[index].isPrivate = terms.tables[index].isPrivate;
    tables[index].rows = terms.tables[index].rows;
    for (const PrivateTerms::Column &column : terms.tables[index].columns) {
      auto &bounds = tables[index].columns[column.name];
      if (column.bounds) {
        bounds = {column.bounds->low, column.bounds->high};
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

/// Adds the cost of the sites of one draw to each of its tables.
llvm::Error addCharges(const PrivacyPlan &from, const DrawUse &draw, const PrivateTerms &terms,
                       runtime::Verdict &verdict) {
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
    auto known = llvm::find_if(verdict.charges, [&](const TableCharge &charge) { return charge.argument == argument; });
    if (known == verdict.charges.end()) {
      verdict.charges.push_back({argument, charges.step, charges.beside, charges.besideReplaced});
    } else {
      known->step = known->step + charges.step;
      known->beside = known->beside + charges.beside;
      known->besideReplaced = known->besideReplaced + charges.besideReplaced;
    }
  }
  return llvm::Error::success();
}

PrivacyOptions optionsOf(const ProgramCode &program, const PrivateTerms &terms) {
  PrivacyOptions options = terms::optionsOf(terms, program.published);
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

static void setMemory(const PrivateCode &code, runtime::Verdict &verdict) {
  verdict.memory = code.step->runMemory();
  for (const CoinInfo &coin : verdict.coins) {
    verdict.memory.arena += coin.type.bytes();
  }
  for (const auto *program : {code.fixedLists.get(), code.sentLists.get()}) { // checked and gone before the step runs
    if (program) {
      runtime::RunMemory memory = program->runMemory();
      for (const runtime::ResultSpec &spec : program->results()) {
        memory.arena += 3 * spec.type.bytes(); // sorted copies of them, and what merging takes
      }
      auto &most = verdict.listMemory;
      most = {std::max(most.arena, memory.arena), std::max(most.scratch, memory.scratch),
              std::max(most.library, memory.library)};
    }
  }
}

llvm::Expected<ProvedProgram> Worker::prove(const ProgramCode &program, const PrivateTerms &terms,
                                            const PriceLimits &limits) const {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = runtime::decodeProgram(context, textOf(*program.program), textOf(*program.debug));
  if (!module) {
    return module.takeError();
  }
  FirstError refusal(context, &runtime::describeLocation);
  auto step = (*module)->lookupSymbol<mlir::func::FuncOp>(kStepName);
  ProvedProgram proved;
  auto code = std::make_shared<PrivateCode>();
  runtime::Verdict verdict;
  mlir::FailureOr<PrivacyPlan> rewritten = makePrivate(**module, inputsOf(step, terms), optionsOf(program, terms));
  if (runtime::isStopped()) {
    return requestError(wire::ErrorCode_Stopped, "the step was stopped while its program was made private");
  }
  if (mlir::failed(rewritten)) {
    return requestError(wire::ErrorCode_Refused, refusal.text(), "", refusal.location());
  }
  for (const DrawUse &draw : rewritten->draws) {
    verdict.isSampled |= draw.isSampled && !draw.sites.empty();
    if (llvm::Error error = addCharges(*rewritten, draw, terms, verdict)) {
      return error;
    }
  }
  for (const ReleaseSite &site : rewritten->sites) {
    verdict.spendsInStep |= !site.isBeside;
    verdict.sites.push_back({.what = site.what,
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
    verdict.coins.push_back({.kind = kind,
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
  for (auto [source, lists] :
       {std::pair(&rewritten->fixedLists, &code->fixedLists), {&rewritten->sentLists, &code->sentLists}}) {
    if (*source) {
      auto prepared = engine.prepare(**source);
      if (!prepared) {
        return prepared.takeError();
      }
      *lists = std::move(*prepared);
    }
  }
  for (auto [isReleased, isTainted, tables] :
       llvm::zip_equal(rewritten->released, rewritten->tainted, rewritten->tables)) {
    verdict.results.push_back({isReleased, isTainted, tables});
  }
  code->forms = std::move(rewritten->forms);
  llvm::transform(code->forms, std::back_inserter(proved.errors), fixedError);
  verdict.notes = rewritten->notes;
  verdict.moduleDigest = runtime::hashModule(**module);
  verdict.operations = priceOf(**module).operations;
  for (const CoinInfo &coin : verdict.coins) {
    constexpr uint64_t kPerCoin = 64; // operations in whose time one is drawn
    verdict.operations += kPerCoin * static_cast<uint64_t>(coin.type.numel());
  }
  auto prepared = engine.prepare(**module);
  if (!prepared) {
    return prepared.takeError();
  }
  if (llvm::Error error = checkLibraryCalls(**module, **prepared, limits)) {
    return error;
  }
  code->step = std::move(*prepared);
  code->coins = verdict.coins;
  setMemory(*code, verdict);
  for (const auto *each : {code->step.get(), code->fixedLists.get(), code->sentLists.get()}) {
    proved.codeBytes += each ? each->bytes() : 0;
  }
  proved.verdict = runtime::writeVerdict(verdict);
  proved.digest = verdict.moduleDigest;
  proved.code = std::move(code);
  return proved;
}

} // namespace sojourn::owner
