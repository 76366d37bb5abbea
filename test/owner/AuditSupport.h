// SPDX-License-Identifier: Apache-2.0
// Shared by the audits of releases: tables with canaries, steps as the owner plans them, an audit beside its controls.
#ifndef SOJOURN_TEST_OWNER_AUDITSUPPORT_H
#define SOJOURN_TEST_OWNER_AUDITSUPPORT_H

#include "owner/worker/Coins.h"
#include "owner/worker/ProgramCode.h"
#include "owner/worker/TableRows.h"
#include "owner/worker/Worker.h"
#include "runtime/privacy/Filter.h"
#include "runtime/privacy/Tail.h"
#include "test/owner/AuditSeam.h"
#include "test/owner/Support.h"
#include "test/runtime/privacy/Audit.h"
#include "test/runtime/privacy/Statistics.h"

#include <functional>
#include <stdexcept>

namespace sojourn::owner::test {

using namespace privacy::test;
using runtime::Element;

/// Of a release on 64 numbers, one for each canary: those of even number are there. They are independent samples, for
/// each has a coin, a coordinate and noise of its own.
inline constexpr int64_t kCanaries = 64;

inline std::string text(int64_t number) { return std::to_string(number); }
inline std::string argument(const std::string &name, const std::string &type, const char *kind) {
  return "%" + name + ": " + type + " {sojourn.kind = \"" + kind + "\"}";
}
inline const std::string kSeed = argument("seed", "tensor<i64>", "seed");
inline std::string published(const std::string &type) { return type + " {sojourn.result = \"publish\"}"; }
/// %i: a draw of `expected` rows of %t; %x: what column "v" holds of them.
inline std::string batch(int64_t expected, int64_t slots, const std::string &table, const std::string &read) {
  const std::string list = "tensor<" + text(slots) + "xi64>";
  return "    %p = sojourn.iota dim = 0 : " + list +
         "\n    %i = sojourn.sample_rows %p, %seed, %seed of %t, expected = " + text(expected) + " : " + list +
         ", tensor<i64>, tensor<i64>, " + table + " -> " + list +
         "\n    %x = sojourn.read_rows %t, %i, columns = [\"v\"] : " + table + ", " + list + " -> " + read + "\n";
}
inline int64_t slotsFor(int64_t expected) { return *privacy::capacityFor(expected); }

/// A step of one private table, as the owner plans it for terms, ready to be run many times.
class Step {
public:
  /// Arguments: numbers `state`, if there are any; a seed; the table.
  Step(const std::string &module, PrivateTerms terms, const Dataset &dataset, std::vector<float> state = {})
      : rows(std::make_unique<TableRows>(std::shared_ptr<const Dataset>(std::shared_ptr<void>(), &dataset))) {
    const runtime::EncodedProgram program = encode(module);
    auto made = cpuWorker().describe(program.program, program.debug);
    EXPECT_TRUE(bool(made)) << llvm::toString(made.takeError());
    const runtime::ProgramFacts facts = llvm::cantFail(runtime::readFacts(made->facts));
    const size_t count = facts.args.size();
    terms.publicArguments.assign(count, true);
    terms.publicArguments.back() = false;
    terms.tables.resize(count);
    PrivateTerms::Table &table = terms.tables.back();
    table.isPrivate = true;
    table.rows = dataset.rows();
    for (const Column &column : dataset.columns()) {
      table.columns.push_back(
          {column.name, column.element, runtime::Extent{column.bounds->lower, column.bounds->upper}});
    }
    terms.extents.resize(count);
    auto noised = cpuWorker().prove(*made->code, terms);
    if (!noised) {
      ADD_FAILURE() << llvm::toString(noised.takeError()) << "\n" << module;
      throw std::runtime_error("no plan");
    }
    plan =
        std::make_unique<Planned>(Planned{llvm::cantFail(runtime::readVerdict(noised->verdict, facts)), noised->code});
    if (!state.empty()) {
      add<float>({Element::f32, {static_cast<int64_t>(state.size())}}, state);
    }
    add<int64_t>({Element::i64, {}}, {7});
    bindings.push_back({{}, rows.get()});
  }

  std::vector<runtime::HostTensor> run() const {
    std::vector<runtime::Binding> all = bindings, coins = drawCoins(plan->verdict.coins, 1, {});
    all.insert(all.end(), coins.begin(), coins.end());
    return run(all);
  }
  std::vector<runtime::HostTensor> run(const std::vector<runtime::Binding> &all) const {
    runtime::RunOptions options;
    options.threads = 1;
    auto results = plan->code->step->run(all, options);
    EXPECT_TRUE(bool(results)) << llvm::toString(results.takeError());
    return std::move(*results);
  }
  privacy::Charge charge() const {
    EXPECT_EQ(plan->verdict.charges.size(), 1u);
    return plan->verdict.charges[0].step + plan->verdict.charges[0].beside;
  }
  /// Standard deviation of a release, in units of the program.
  double sigma(size_t site) const {
    return std::ldexp(static_cast<double>(plan->verdict.sites[site].scale),
                      static_cast<int>(plan->verdict.sites[site].exponent));
  }

  struct Planned {
    runtime::Verdict verdict;
    std::shared_ptr<const PrivateCode> code;
  };
  std::unique_ptr<const TableRows> rows;
  std::unique_ptr<const Planned> plan;
  std::vector<runtime::Binding> bindings;

private:
  template <class T>
  void add(runtime::TensorType type, const std::vector<T> &values) {
    auto buffer = runtime::BufferPool::global().allocate(type.bytes());
    std::memcpy(buffer->data(), values.data(), type.bytes());
    bindings.push_back({{type, buffer}, nullptr});
  }
};

template <class T>
std::span<const T> numbers(const runtime::HostTensor &tensor) {
  return {static_cast<const T *>(tensor.buffer->data()), static_cast<size_t>(tensor.type.numel())};
}

/// Column "v" of so many rows with entries of sizes `dims`.
inline Dataset table(int64_t rows, std::vector<int64_t> dims, Bounds bounds, std::vector<double> values) {
  auto storage = std::make_shared<std::vector<double>>(std::move(values));
  return {"people", "1", rows, {{"v", Element::f64, bounds, storage->data(), std::move(dims)}}, storage};
}
/// Row k < 64 is `size` in coordinate k, if it is there.
inline Dataset canaries(int64_t rows, double size) {
  std::vector<double> values(static_cast<size_t>(rows * kCanaries));
  for (int64_t k = 0; k < kCanaries; k += 2) {
    values[static_cast<size_t>(k * kCanaries + k)] = size;
  }
  return table(rows, {kCanaries}, {-size, size}, std::move(values));
}
inline std::string tableType(int64_t rows, int64_t entries) {
  return "!sojourn.table<" + text(rows) + ", \"v\": " + (entries ? text(entries) + "x" : "") + "f64>";
}

/// One line for each audit; docs/proof.md has a table of them.
inline void print(const std::string &what, double claim, const Audit &audit, double bound) {
  std::cout << "[ audit    ] " << what << ": epsilon " << claim << " at delta " << audit.delta << ", " << audit.runs
            << " samples, at least " << bound << std::endl;
}

/// The audit of the owner as it is, then of one that is broken in each way: the same thresholds for all.
inline void compare(const std::string &what, double claim, const Audit &audit,
                    const std::vector<std::pair<std::string, Broken>> &controls, const std::function<Scores()> &play) {
  breakOwner({});
  const double bound = audit.epsilon(play());
  print(what, claim, audit, bound);
  EXPECT_LE(bound, claim) << what << " gives away more than it is charged";
  EXPECT_GT(bound, 0.05 * claim) << what << ": the audit sees hardly anything";
  for (const auto &[name, how] : controls) {
    breakOwner(how);
    const double found = audit.epsilon(play());
    breakOwner({});
    print(what + ", " + name, claim, audit, found);
    EXPECT_GT(found, claim) << "the audit of " << what << " does not see: " << name;
  }
}

/// An owner that is broken by one test is whole for the next.
class AuditTest : public testing::Test {
protected:
  void TearDown() override { breakOwner({}); }
  std::mt19937_64 random{freshSeed() ^ 0x51};
};

} // namespace sojourn::owner::test

#endif // SOJOURN_TEST_OWNER_AUDITSUPPORT_H
