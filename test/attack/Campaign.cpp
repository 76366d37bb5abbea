// SPDX-License-Identifier: Apache-2.0
// The loop of tools/attack (see Campaign.h).
#include "test/attack/Campaign.h"

#include "dialect/CoreForm.h"
#include "test/attack/Generator.h"
#include "test/attack/Judge.h"
#include "test/attack/Seam.h"
#include "test/attack/Shrink.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace sojourn;
using namespace sojourn::attack;

namespace {

constexpr size_t kAttacksPerContext = 500;
constexpr unsigned kJobsMost = 256;

std::unique_ptr<mlir::MLIRContext> makeContext() {
  auto context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  loadDialects(*context);
  return context;
}

/// Numbers alone: processes share them.
struct Counts {
  uint64_t programs = 0, accepted = 0, messages = 0, acceptedMessages = 0, comparisons = 0, redrawn = 0, failed = 0;

  void add(const Verdict &verdict) {
    ++programs;
    accepted += verdict.privateRuns > 0;
    messages += verdict.steps;
    acceptedMessages += verdict.accepted;
    comparisons += verdict.comparisons;
    redrawn += verdict.wasRedrawn;
  }
  void add(const Counts &other) {
    programs += other.programs;
    accepted += other.accepted;
    messages += other.messages;
    acceptedMessages += other.acceptedMessages;
    comparisons += other.comparisons;
    redrawn += other.redrawn;
    failed += other.failed;
  }
};

/// What the processes of a campaign tell each other, in memory that they share.
struct Shared {
  struct Job {
    std::atomic<uint64_t> next; ///< the seed that comes next
    Counts counts;              ///< its own to write
    SeamCounts seam;
  };
  std::atomic<uint64_t> failed;
  Job jobs[kJobsMost];
};

class Campaign {
public:
  explicit Campaign(CampaignOptions chosen) : options(std::move(chosen)), begin(std::chrono::steady_clock::now()) {}
  int run();

private:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); }
  /// All seeds of one process.
  void work(unsigned job);
  void tell();
  Counts counts() const;
  void fail(const Attack &attack, const Violation &violation, Shared::Job &job);
  void writeJournal() const;
  void writeCounts() const;
  void printErrors() const;
  int exitCode() const;

  CampaignOptions options;
  std::chrono::steady_clock::time_point begin;
  Shared *shared = nullptr;
  std::map<std::string, uint64_t> errors;
};

} // namespace

Counts Campaign::counts() const {
  Counts all;
  for (unsigned job = 0; job < options.jobs; ++job) {
    all.add(shared->jobs[job].counts);
  }
  return all;
}

void Campaign::tell() {
  Counts all = counts();
  auto number = [](uint64_t count) { return static_cast<unsigned long long>(count); };
  llvm::errs() << llvm::format(
      "\r%llu programs (%.0f/min), %.1f %% run on private tables, %llu of %llu messages taken, %llu comparisons, "
      "%llu failed ",
      number(all.programs), static_cast<double>(all.programs) * 60 / seconds(),
      100.0 * static_cast<double>(all.accepted) / static_cast<double>(std::max<uint64_t>(1, all.programs)),
      number(all.acceptedMessages), number(all.messages), number(all.comparisons), number(all.failed));
  writeJournal();
}

/// All seeds up to that of the journal are done; of those behind it some may be.
void Campaign::writeJournal() const {
  if (options.journal.empty()) {
    return;
  }
  uint64_t next = shared->jobs[0].next;
  for (unsigned job = 1; job < options.jobs; ++job) {
    next = std::min<uint64_t>(next, shared->jobs[job].next);
  }
  std::string beside = options.journal + ".new";
  std::ofstream(beside) << next - 1 << "\n";
  std::filesystem::rename(beside, options.journal);
}

void Campaign::writeCounts() const {
  if (!options.counts.empty()) {
    Counts all = counts();
    std::ofstream(options.counts) << llvm::formatv("{{\"passed\": {0}, \"failed\": {1}, \"skipped\": 0, \"ran\": {2}, "
                                                   "\"comparisons\": {3}, \"redrawn\": {4}}\n",
                                                   all.programs - all.failed, all.failed, all.accepted, all.comparisons,
                                                   all.redrawn)
                                         .str();
  }
}

void Campaign::fail(const Attack &attack, const Violation &violation, Shared::Job &job) {
  ++job.counts.failed;
  ++shared->failed;
  llvm::errs() << "\nseed " << attack.seed << " after " << job.counts.programs << " programs: " << violation.property
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

void Campaign::work(unsigned number) {
  Shared::Job &job = shared->jobs[number];
  std::unique_ptr<mlir::MLIRContext> context;
  Judge judge;
  double told = 0;
  uint64_t most = options.programs / options.jobs + (number < options.programs % options.jobs);
  while ((options.programs == 0 || job.counts.programs < most) &&
         (options.seconds <= 0 || seconds() < options.seconds) && shared->failed < options.failuresMost) {
    if (job.counts.programs % kAttacksPerContext == 0) {
      context = makeContext();
    }
    Attack attack = generate(job.next, *context);
    Verdict verdict = judge.judge(attack);
    job.counts.add(verdict);
    if (options.tellsErrors) {
      for (const std::string &error : verdict.errors) {
        std::string text = error.empty() ? "taken" : error.substr(0, 110);
        text.erase(std::remove_if(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }), text.end());
        ++errors[text];
      }
    }
    if (verdict.violation) {
      fail(attack, *verdict.violation, job);
    }
    job.next += options.jobs;
    job.seam = seamCounts();
    if (options.jobs == 1 && seconds() - told > 2) {
      told = seconds();
      tell();
    }
  }
}

void Campaign::printErrors() const {
  std::vector<std::pair<uint64_t, std::string>> sorted;
  for (const auto &[text, count] : errors) {
    sorted.emplace_back(count, text);
  }
  std::sort(sorted.rbegin(), sorted.rend());
  for (const auto &[count, text] : sorted) {
    llvm::outs() << llvm::format("%8llu  ", static_cast<unsigned long long>(count)) << text << "\n";
  }
}

int Campaign::exitCode() const {
  for (unsigned job = 0; job < options.jobs; ++job) {
    const SeamCounts &seam = shared->jobs[job].seam;
    bool isMade = seam.madePrivate && seam.created && seam.runs && seam.buffers && seam.arenas;
    if (shared->jobs[job].counts.programs > 20 && !isMade) {
      llvm::errs() << "the tool is not linked as test/attack/CMakeLists.txt says: it sees no "
                   << (!seam.madePrivate ? "private programs"
                       : !seam.runs      ? "runs"
                                         : "memory")
                   << "\n";
      return 2;
    }
  }
  return shared->failed > 0 ? 1 : 0;
}

int Campaign::run() {
  options.jobs = std::clamp(options.jobs, 1u, kJobsMost);
  uint64_t seed = options.seed;
  if (!options.journal.empty()) {
    std::ifstream file(options.journal);
    uint64_t last = 0;
    if (file >> last) {
      seed = last + 1;
    }
  }
  void *memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    llvm::errs() << "no memory for " << options.jobs << " processes\n";
    return 2;
  }
  shared = new (memory) Shared();
  for (unsigned job = 0; job < options.jobs; ++job) {
    shared->jobs[job].next = seed + job;
  }
  bool isWhole = true;
  if (options.jobs == 1) {
    work(0);
  } else {
    size_t running = 0;
    for (unsigned job = 0; job < options.jobs; ++job) {
      pid_t child = fork(); // before anything has made a thread
      if (child == 0) {
        work(job);
        _exit(0);
      }
      isWhole &= child > 0;
      running += child > 0;
    }
    for (auto told = begin; running > 0;) {
      int status = 0;
      while (running > 0 && waitpid(-1, &status, WNOHANG) > 0) {
        --running;
        isWhole &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (std::chrono::steady_clock::now() - told > std::chrono::seconds(2)) {
        told = std::chrono::steady_clock::now();
        tell();
      }
    }
  }
  tell();
  llvm::errs() << "\n";
  writeCounts();
  printErrors();
  if (!isWhole) {
    llvm::errs() << "a process of the tool did not come to its end\n";
    return 2;
  }
  return exitCode();
}

int attack::campaign(CampaignOptions options) { return Campaign(std::move(options)).run(); }

static int showAttack(const Attack &attack) {
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

int attack::show(uint64_t seed) {
  auto context = makeContext();
  Attack attack = generate(seed, *context);
  llvm::outs() << attack.text();
  return showAttack(attack);
}

int attack::play(const std::string &path) {
  auto context = makeContext();
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!file) {
    llvm::errs() << path << ": " << file.getError().message() << "\n";
    return 2;
  }
  auto attack = Attack::parse((*file)->getBuffer(), *context);
  if (!attack) {
    llvm::errs() << path << ": " << llvm::toString(attack.takeError()) << "\n";
    return 2;
  }
  return showAttack(*attack);
}
