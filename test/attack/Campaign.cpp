// SPDX-License-Identifier: Apache-2.0
// The loop of tools/attack (see Campaign.h).
#include "test/attack/Campaign.h"

#include "dialect/Base.h"
#include "test/attack/Generator.h"
#include "test/attack/Judge.h"
#include "test/attack/Seam.h"
#include "test/attack/Shrink.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

using namespace sojourn;
using namespace sojourn::attack;

namespace {

constexpr size_t kAttacksPerContext = 500;

std::unique_ptr<mlir::MLIRContext> makeContext() {
  auto context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  context->loadDialect<SojournDialect, mlir::func::FuncDialect>();
  return context;
}

struct Counts {
  uint64_t programs = 0, accepted = 0, messages = 0, acceptedMessages = 0, privateRuns = 0, comparisons = 0,
           redrawn = 0, failed = 0, unencodable = 0;
  std::map<std::string, uint64_t> errors;

  void add(const Verdict &verdict) {
    ++programs;
    accepted += verdict.privateRuns > 0;
    messages += verdict.steps;
    acceptedMessages += verdict.accepted;
    privateRuns += verdict.privateRuns;
    comparisons += verdict.comparisons;
    redrawn += verdict.wasRedrawn;
    unencodable += !verdict.isEncodable;
  }
};

class Campaign {
public:
  explicit Campaign(CampaignOptions chosen) : options(std::move(chosen)), begin(std::chrono::steady_clock::now()) {}
  int run();

private:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); }
  void progress() const;
  void fail(const Attack &attack, const Violation &violation);
  void writeJournal(uint64_t last) const;
  void writeCounts() const;

  CampaignOptions options;
  std::chrono::steady_clock::time_point begin;
  Judge judge;
  Counts counts;
};

} // namespace

void Campaign::progress() const {
  llvm::errs() << llvm::format(
      "\r%llu programs (%.0f/min), %.1f %% run on private tables, %llu of %llu messages taken, %llu comparisons, "
      "%llu failed ",
      static_cast<unsigned long long>(counts.programs), static_cast<double>(counts.programs) * 60 / seconds(),
      100.0 * static_cast<double>(counts.accepted) / static_cast<double>(std::max<uint64_t>(1, counts.programs)),
      static_cast<unsigned long long>(counts.acceptedMessages), static_cast<unsigned long long>(counts.messages),
      static_cast<unsigned long long>(counts.comparisons), static_cast<unsigned long long>(counts.failed));
}

void Campaign::writeJournal(uint64_t last) const {
  if (!options.journal.empty()) {
    std::string beside = options.journal + ".new";
    std::ofstream(beside) << last << "\n";
    std::filesystem::rename(beside, options.journal);
  }
}

void Campaign::writeCounts() const {
  if (!options.counts.empty()) {
    std::ofstream(options.counts) << llvm::formatv("{{\"passed\": {0}, \"failed\": {1}, \"skipped\": 0, \"ran\": {2}, "
                                                   "\"comparisons\": {3}, \"redrawn\": {4}}\n",
                                                   counts.programs - counts.failed, counts.failed, counts.accepted,
                                                   counts.comparisons, counts.redrawn)
                                         .str();
  }
}

void Campaign::fail(const Attack &attack, const Violation &violation) {
  ++counts.failed;
  llvm::errs() << "\nseed " << attack.seed << " after " << counts.programs << " programs: " << violation.property
               << ": " << violation.text << "\n";
  Judge alone(1);
  std::optional<Violation> last;
  auto stays = [&](const Attack &smaller) {
    alone.renew();
    Verdict verdict = alone.judge(smaller);
    if (verdict.violation && verdict.violation->property == violation.property) {
      last = verdict.violation;
      return true;
    }
    return false;
  };
  Attack least = attack.copy();
  bool isRepeatable = stays(least);
  if (isRepeatable && options.shrinks) {
    least = shrink(std::move(least), stays);
  }
  std::string path = options.folder + "/attack-" + std::to_string(attack.seed) + ".mlir";
  std::ofstream(path) << "// Found by tools/attack, seed " << attack.seed << ". " << violation.property << ": "
                      << (last ? last->text : violation.text) << "\n"
                      << (isRepeatable ? "" : "// Only behind the attacks before it.\n") << least.text();
  llvm::errs() << path << ": " << least.steps.size() << " steps, " << least.ops() << " ops"
               << (isRepeatable ? "" : ", not repeated alone") << "\n";
}

int Campaign::run() {
  uint64_t seed = options.seed;
  if (!options.journal.empty()) {
    std::ifstream file(options.journal);
    uint64_t last = 0;
    if (file >> last) {
      seed = last + 1;
    }
  }
  std::unique_ptr<mlir::MLIRContext> context;
  double told = 0;
  for (; options.programs == 0 || counts.programs < options.programs; ++seed) {
    if (options.seconds > 0 && seconds() >= options.seconds) {
      break;
    }
    if (counts.programs % kAttacksPerContext == 0) {
      context = makeContext();
    }
    Attack attack = generate(seed, *context);
    Verdict verdict = judge.judge(attack);
    counts.add(verdict);
    if (options.tellsErrors) {
      for (const std::string &error : verdict.errors) {
        std::string text = error.empty() ? "taken" : error.substr(0, 110);
        text.erase(std::remove_if(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }), text.end());
        ++counts.errors[text];
      }
    }
    if (verdict.violation) {
      fail(attack, *verdict.violation);
      if (counts.failed >= options.failuresMost) {
        ++seed;
        break;
      }
    }
    if (seconds() - told > 2) {
      told = seconds();
      progress();
      writeJournal(seed);
    }
  }
  progress();
  llvm::errs() << "\n";
  writeJournal(seed - 1);
  writeCounts();
  std::vector<std::pair<uint64_t, std::string>> errors;
  for (const auto &[text, count] : counts.errors) {
    errors.emplace_back(count, text);
  }
  std::sort(errors.rbegin(), errors.rend());
  for (const auto &[count, text] : errors) {
    llvm::outs() << llvm::format("%8llu  ", static_cast<unsigned long long>(count)) << text << "\n";
  }
  SeamCounts seam = seamCounts();
  if (counts.programs > 20 && (!seam.madePrivate || !seam.created || !seam.runs || !seam.buffers || !seam.arenas)) {
    llvm::errs() << "the tool is not linked as test/attack/CMakeLists.txt says: it sees no "
                 << (!seam.madePrivate ? "private programs"
                     : !seam.runs      ? "runs"
                                       : "memory")
                 << "\n";
    return 2;
  }
  return counts.failed > 0 ? 1 : 0;
}

int attack::campaign(CampaignOptions options) { return Campaign(std::move(options)).run(); }

int attack::show(uint64_t seed) {
  auto context = makeContext();
  Attack attack = generate(seed, *context);
  llvm::outs() << attack.text();
  Judge judge;
  Verdict verdict = judge.judge(attack);
  for (auto [number, error] : llvm::enumerate(verdict.errors)) {
    llvm::outs() << "// step " << number << ": " << (error.empty() ? "taken" : error) << "\n";
  }
  if (verdict.violation) {
    llvm::outs() << "// " << verdict.violation->property << ": " << verdict.violation->text << "\n";
  }
  return verdict.violation ? 1 : 0;
}
