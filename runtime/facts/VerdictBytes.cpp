// SPDX-License-Identifier: Apache-2.0
// Verdicts to bytes and back. What is read may come from a process that a program has taken over: each rule is checked.
#include "runtime/Error.h"
#include "runtime/Limits.h"
#include "runtime/facts/ReadBytes.h"
#include "runtime/facts/Verdict.h"
#include "runtime/facts/Verdict_generated.h"
#include "runtime/privacy/DiscreteGaussian.h"
#include "runtime/privacy/DiscreteLaplace.h"
#include "runtime/privacy/PoissonDraw.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace sojourn::runtime {

namespace wire = sojourn_wire;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::uoffset_t;
using llvm::Twine;

/// Bytes of one text of a verdict.
static constexpr size_t kTextMost = size_t{1} << 16;
/// Releases, coins, and notes of a verdict.
static constexpr size_t kListMost = size_t{1} << 17;
/// Receipts hold sensitivities as integers of 64 bits.
static constexpr double kSensitivityMost = 0x1p62;
/// Of one coin.
static constexpr int64_t kCoinElements =
    std::min(limits::kValueElements, limits::kValueBytes / static_cast<int64_t>(sizeof(int64_t)));

size_t Verdict::bytes() const {
  size_t total = sizeof(*this) + results.size() * sizeof(ResultVerdict) + charges.size() * sizeof(TableCharge) +
                 coins.size() * sizeof(CoinInfo);
  for (const ResultVerdict &result : results) {
    total += result.tables ? result.tables->size() * sizeof(unsigned) : 0;
  }
  for (const SiteInfo &site : sites) {
    total +=
        sizeof(site) + site.what.size() + site.op.size() + site.location.size() + site.tables.size() * sizeof(unsigned);
  }
  for (const std::string &note : notes) {
    total += sizeof(note) + note.size();
  }
  return total;
}

static std::vector<uint64_t> numbersOf(const privacy::Charge &charge) {
  std::vector<uint64_t> numbers(charge.rdp.begin(), charge.rdp.end());
  numbers.push_back(charge.delta);
  return numbers;
}

std::string writeVerdict(const Verdict &verdict) {
  FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<wire::CoinVerdict>> coins;
  for (const CoinInfo &coin : verdict.coins) {
    coins.push_back(wire::CreateCoinVerdict(builder, static_cast<uint8_t>(coin.kind),
                                            builder.CreateVector(coin.type.dims.data(), coin.type.dims.size()),
                                            coin.rows, coin.expected, coin.scale, coin.site));
  }
  std::vector<flatbuffers::Offset<wire::SiteVerdict>> sites;
  for (const SiteInfo &site : verdict.sites) {
    auto what = builder.CreateString(site.what), op = builder.CreateString(site.op),
         location = builder.CreateString(site.location);
    auto tables = builder.CreateVector(site.tables);
    sites.push_back(wire::CreateSiteVerdict(builder, what, op, location, site.isBeside, site.isLaplace, site.bound,
                                            site.sensitivity, site.cost, site.exponent, site.scale, site.coordinates,
                                            site.result ? static_cast<int64_t>(*site.result) : -1, tables));
  }
  std::vector<flatbuffers::Offset<wire::ResultVerdict>> results;
  for (const ResultVerdict &result : verdict.results) {
    auto tables = result.tables ? builder.CreateVector(*result.tables) : 0;
    results.push_back(
        wire::CreateResultVerdict(builder, result.isReleased, result.isTainted, result.tables.has_value(), tables));
  }
  std::vector<flatbuffers::Offset<wire::ChargeVerdict>> charges;
  for (const TableCharge &charge : verdict.charges) {
    auto step = builder.CreateVector(numbersOf(charge.step)), beside = builder.CreateVector(numbersOf(charge.beside)),
         replaced = builder.CreateVector(numbersOf(charge.besideReplaced));
    charges.push_back(wire::CreateChargeVerdict(builder, charge.argument, step, beside, replaced));
  }
  auto coinList = builder.CreateVector(coins);
  auto siteList = builder.CreateVector(sites);
  auto resultList = builder.CreateVector(results);
  auto chargeList = builder.CreateVector(charges);
  auto notes = builder.CreateVectorOfStrings(verdict.notes);
  auto digest = builder.CreateVector(verdict.moduleDigest.data(), verdict.moduleDigest.size());
  auto memoryOf = [](const RunMemory &memory) {
    return wire::MemoryVerdict(memory.arena, memory.scratch, memory.library);
  };
  const wire::MemoryVerdict memory = memoryOf(verdict.memory), listMemory = memoryOf(verdict.listMemory);
  flatbuffers::Offset<wire::Refusal> refusal;
  if (const auto &found = verdict.refusal) {
    auto message = builder.CreateString(found->message), op = builder.CreateString(found->op),
         location = builder.CreateString(found->location);
    refusal = wire::CreateRefusal(builder, found->code, message, op, location);
  }
  builder.Finish(wire::CreateVerdict(builder, coinList, siteList, resultList, chargeList, notes, verdict.isSampled,
                                     verdict.spendsInStep, verdict.operations, &memory, &listMemory, digest, refusal),
                 wire::VerdictIdentifier());
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
}

namespace {

class Reader {
public:
  Reader(const wire::Verdict &from, const ProgramFacts &facts) : from(from), facts(facts) {}
  llvm::Expected<Verdict> read();

private:
  llvm::Error wrong(const Twine &text) {
    return makeError(ErrorCode::Malformed, ("the verdict on a program is malformed: " + text).str());
  }
  bool isTable(uint64_t argument) const {
    return argument < facts.args.size() && facts.args[argument].kind == StepArg::Table;
  }
  /// Numbers of table arguments, ascending.
  bool areTables(llvm::ArrayRef<unsigned> tables) const {
    return llvm::all_of(tables, [&](unsigned table) { return isTable(table); }) &&
           std::ranges::adjacent_find(tables, std::greater_equal<>()) == tables.end();
  }
  llvm::Error readCharge(size_t index, const wire::ChargeVerdict *charge, TableCharge &into);
  llvm::Error readSite(size_t index, const wire::SiteVerdict *site, SiteInfo &into);
  llvm::Error readCoin(size_t index, const wire::CoinVerdict *coin, CoinInfo &into);
  llvm::Error readResult(size_t index, const wire::ResultVerdict *result, ResultVerdict &into);
  llvm::Error readRefusal(const wire::Refusal &refusal);

  const wire::Verdict &from;
  const ProgramFacts &facts;
  Texts texts;
  Verdict verdict;
};

/// Of the orders and delta; nothing where their number is another one.
std::optional<privacy::Charge> chargeOf(const flatbuffers::Vector<uint64_t> *numbers) {
  privacy::Charge charge;
  if (sizeOf(numbers) != charge.rdp.size() + 1) {
    return std::nullopt;
  }
  for (size_t order = 0; order < charge.rdp.size(); ++order) {
    charge.rdp[order] = numbers->Get(static_cast<uoffset_t>(order));
  }
  charge.delta = numbers->Get(static_cast<uoffset_t>(charge.rdp.size()));
  return charge;
}

llvm::Error Reader::readCharge(size_t index, const wire::ChargeVerdict *charge, TableCharge &into) {
  auto step = chargeOf(charge->step()), beside = chargeOf(charge->beside()),
       replaced = chargeOf(charge->beside_replaced());
  const bool isKnown = llvm::any_of(llvm::ArrayRef(verdict.charges).take_front(index),
                                    [&](const TableCharge &other) { return other.argument == charge->argument(); });
  if (!step || !beside || !replaced || !isTable(charge->argument()) || isKnown) {
    return wrong("charge " + Twine(index) + " is of argument " + Twine(charge->argument()) +
                 ", expected a table without another charge, and each divergence");
  }
  into = {charge->argument(), *step, *beside, *replaced};
  return llvm::Error::success();
}

llvm::Error Reader::readSite(size_t index, const wire::SiteVerdict *site, SiteInfo &into) {
  const std::string what = "release " + std::to_string(index);
  if (sizeOf(site->tables()) > limits::kTables) {
    return wrong(what + " is paid by " + Twine(sizeOf(site->tables())) + " tables");
  }
  into = {.what = "",
          .op = "",
          .location = "",
          .isBeside = site->is_beside(),
          .isLaplace = site->is_laplace(),
          .bound = site->bound(),
          .sensitivity = site->sensitivity(),
          .cost = site->cost(),
          .exponent = site->exponent(),
          .scale = site->scale(),
          .coordinates = site->coordinates(),
          .result = std::nullopt,
          .tables = listOf(site->tables())};
  if (site->result() >= 0) {
    into.result = static_cast<unsigned>(site->result());
  }
  const bool isResult =
      site->result() == -1 || (site->result() >= 0 && static_cast<uint64_t>(site->result()) < facts.results.size() &&
                               facts.results[static_cast<size_t>(site->result())].kind == StepResult::Publish);
  if (!isResult) {
    return wrong(what + " is of result " + Twine(site->result()) + ", expected a published one or none (-1)");
  }
  if (!texts.take(site->what(), kTextMost, into.what) || !texts.take(site->op(), kTextMost, into.op) ||
      !texts.take(site->location(), kTextMost, into.location)) {
    return wrong(what + " has too long a text");
  }
  auto isPositive = [](double number) { return std::isfinite(number) && number > 0; };
  // Samplers stop the process beyond these scales.
  const uint64_t scaleMost = into.isLaplace ? privacy::kLaplaceMax : privacy::kSigmaMax;
  if (!isPositive(into.bound) || !isPositive(into.sensitivity) || into.sensitivity > kSensitivityMost ||
      !(into.cost > 0) || into.scale < 1 || static_cast<uint64_t>(into.scale) > scaleMost || into.coordinates < 0 ||
      into.exponent < -1'000 || into.exponent > 1'000) {
    return wrong(what + " has an invalid bound, sensitivity, cost or noise");
  }
  auto pays = [&](unsigned table) {
    return llvm::any_of(verdict.charges, [&](const TableCharge &charge) {
      // Some orders of `beside` may be 0: it is a difference of two rounded costs.
      return charge.argument == table && (into.isBeside ? charge.beside : charge.step) != privacy::Charge{};
    });
  };
  if (into.tables.empty() || !areTables(into.tables) || !llvm::all_of(into.tables, pays)) {
    return wrong(what + " is not paid by each of its tables");
  }
  return llvm::Error::success();
}

llvm::Error Reader::readCoin(size_t index, const wire::CoinVerdict *coin, CoinInfo &into) {
  const std::string what = "coin " + std::to_string(index);
  if (coin->kind() > static_cast<uint8_t>(CoinInfo::Kind::laplace) || sizeOf(coin->dims()) > limits::kRank) {
    return wrong(what + " has kind " + Twine(unsigned(coin->kind())) + " and rank " + Twine(sizeOf(coin->dims())));
  }
  into.kind = static_cast<CoinInfo::Kind>(coin->kind());
  into.type.element = Element::i64;
  int64_t count = 1;
  for (int64_t size : listOf(coin->dims())) {
    if (size < 0 || size > limits::kDimension || llvm::MulOverflow(count, std::max<int64_t>(size, 1), count) ||
        count > kCoinElements) {
      return wrong(what + " has size " + Twine(size));
    }
    into.type.dims.push_back(size);
  }
  into.rows = coin->rows();
  into.expected = coin->expected();
  into.scale = coin->scale();
  into.site = coin->site();
  if (into.kind == CoinInfo::Kind::draw) {
    const bool isDraw = into.type.rank() == 1 && into.expected >= 1 && into.expected <= into.rows &&
                        into.rows <= limits::kTableRows && into.expected <= into.type.dims[0] &&
                        into.type.dims[0] <= privacy::kDrawCapacityMax;
    return isDraw ? llvm::Error::success()
                  : wrong(what + " draws " + Twine(into.expected) + " of " + Twine(into.rows) + " rows into " +
                          Twine(count) + " slots");
  }
  const bool isOfSite = into.site < verdict.sites.size() && into.scale == verdict.sites[into.site].scale &&
                        (into.kind == CoinInfo::Kind::laplace) == verdict.sites[into.site].isLaplace;
  return isOfSite ? llvm::Error::success()
                  : wrong(what + " is noise of release " + Twine(into.site) + " of " + Twine(verdict.sites.size()) +
                          ", expected its kind and scale");
}

llvm::Error Reader::readResult(size_t index, const wire::ResultVerdict *result, ResultVerdict &into) {
  if (sizeOf(result->tables()) > limits::kTables) {
    return wrong("result " + Twine(index) + " holds " + Twine(sizeOf(result->tables())) + " tables");
  }
  into.isReleased = result->is_released();
  into.isTainted = result->is_tainted();
  if (into.isReleased && into.isTainted) {
    return wrong("result " + Twine(index) + " would be released with rows that no noise covers");
  }
  if (result->knows_tables()) {
    into.tables = listOf(result->tables());
  }
  if (!areTables(into.tables.value_or(std::vector<unsigned>())) ||
      (!result->knows_tables() && sizeOf(result->tables()))) {
    return wrong("result " + Twine(index) + " holds arguments that are not tables, or not ascending");
  }
  return llvm::Error::success();
}

llvm::Error Reader::readRefusal(const wire::Refusal &refusal) {
  if (sizeOf(from.results()) + sizeOf(from.charges()) + sizeOf(from.sites()) + sizeOf(from.coins()) +
          sizeOf(from.notes()) !=
      0) {
    return wrong("a refusal beside results, charges, releases, coins or notes");
  }
  Refusal &into = verdict.refusal.emplace();
  into.code = refusal.code();
  if (!texts.take(refusal.message(), limits::kStringBytes, into.message) ||
      !texts.take(refusal.op(), kTextMost, into.op) || !texts.take(refusal.location(), kTextMost, into.location)) {
    return wrong("too long a refusal");
  }
  return into.message.empty() ? wrong("a refusal without a reason") : llvm::Error::success();
}

llvm::Expected<Verdict> Reader::read() {
  if (from.refusal()) {
    if (llvm::Error error = readRefusal(*from.refusal())) {
      return error;
    }
    return std::move(verdict);
  }
  if (sizeOf(from.results()) != facts.results.size()) {
    return wrong(Twine(sizeOf(from.results())) + " results, the program has " + Twine(facts.results.size()));
  }
  if (sizeOf(from.charges()) > limits::kTables || sizeOf(from.sites()) > kListMost ||
      sizeOf(from.coins()) > kListMost || sizeOf(from.notes()) > kListMost) {
    return wrong(Twine(sizeOf(from.charges())) + " charges, " + Twine(sizeOf(from.sites())) + " releases, " +
                 Twine(sizeOf(from.coins())) + " coins and " + Twine(sizeOf(from.notes())) + " notes");
  }
  verdict.charges.resize(sizeOf(from.charges()));
  verdict.sites.resize(sizeOf(from.sites()));
  verdict.coins.resize(sizeOf(from.coins()));
  verdict.results.resize(sizeOf(from.results()));
  for (uoffset_t index = 0; index < verdict.charges.size(); ++index) {
    if (llvm::Error error = readCharge(index, from.charges()->Get(index), verdict.charges[index])) {
      return error;
    }
  }
  for (uoffset_t index = 0; index < verdict.sites.size(); ++index) {
    if (llvm::Error error = readSite(index, from.sites()->Get(index), verdict.sites[index])) {
      return error;
    }
  }
  for (uoffset_t index = 0; index < verdict.coins.size(); ++index) {
    if (llvm::Error error = readCoin(index, from.coins()->Get(index), verdict.coins[index])) {
      return error;
    }
  }
  for (uoffset_t index = 0; index < verdict.results.size(); ++index) {
    if (llvm::Error error = readResult(index, from.results()->Get(index), verdict.results[index])) {
      return error;
    }
  }
  for (uoffset_t index = 0; index < sizeOf(from.notes()); ++index) {
    if (!texts.take(from.notes()->Get(index), kTextMost, verdict.notes.emplace_back())) {
      return wrong("note " + Twine(index) + " is too long");
    }
  }
  if (!from.memory() || !from.list_memory() || sizeOf(from.module_digest()) != verdict.moduleDigest.size()) {
    return wrong("no memory of a run, or a digest of " + Twine(sizeOf(from.module_digest())) + " bytes");
  }
  auto memoryOf = [](const wire::MemoryVerdict &memory) {
    return RunMemory{memory.arena(), memory.scratch(), memory.library()};
  };
  verdict.isSampled = from.is_sampled();
  verdict.spendsInStep = from.spends_in_step();
  verdict.operations = from.operations();
  verdict.memory = memoryOf(*from.memory());
  verdict.listMemory = memoryOf(*from.list_memory());
  uint64_t coinBytes = 0;
  for (const CoinInfo &coin : verdict.coins) {
    coinBytes += coin.type.bytes();
  }
  if (coinBytes > verdict.memory.arena) {
    return wrong(Twine(coinBytes) + " bytes of coins in a run of " + Twine(verdict.memory.arena));
  }
  const bool isSpent = llvm::any_of(verdict.sites, [](const SiteInfo &site) { return !site.isBeside; });
  const bool isDrawn =
      llvm::any_of(verdict.coins, [](const CoinInfo &coin) { return coin.kind == CoinInfo::Kind::draw; });
  if (verdict.spendsInStep != isSpent || (verdict.isSampled && !isDrawn)) {
    return wrong("its releases and draws are other than it says");
  }
  std::memcpy(verdict.moduleDigest.data(), from.module_digest()->data(), verdict.moduleDigest.size());
  return std::move(verdict);
}

} // namespace

llvm::Expected<Verdict> readVerdict(llvm::StringRef bytes, const ProgramFacts &facts) {
  auto words = wordsOf(bytes);
  if (!words) {
    return makeError(ErrorCode::Malformed,
                     "the verdict on a program is malformed: it has " + std::to_string(bytes.size()) + " bytes");
  }
  const auto *data = reinterpret_cast<const uint8_t *>(words->data());
  flatbuffers::Verifier verifier(data, bytes.size(), limits::kFlatBufferDepth, kTablesMost);
  if (!wire::VerifyVerdictBuffer(verifier)) {
    return makeError(ErrorCode::Malformed, "the verdict on a program is malformed: no table of its schema");
  }
  return Reader(*wire::GetVerdict(data), facts).read();
}

} // namespace sojourn::runtime
