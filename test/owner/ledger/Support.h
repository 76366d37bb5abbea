// SPDX-License-Identifier: Apache-2.0
// A small world for the tests of the ledger: a folder, a clock, a filter that anyone can recompute.
#ifndef SOJOURN_TEST_OWNER_LEDGER_SUPPORT_H
#define SOJOURN_TEST_OWNER_LEDGER_SUPPORT_H

#include "owner/ledger/Ledger.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>

namespace sojourn::owner::ledger::test {

/// A fresh seed, or SOJOURN_TEST_SEED; printed with every failure in its scope.
inline uint64_t freshSeed() {
  const char *given = std::getenv("SOJOURN_TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

/// In memory where the machine has such a place: what a sync costs is no concern of these tests.
class Folder {
public:
  Folder() {
    std::string memory = "/dev/shm/sojourn-ledger-XXXXXX";
    std::string disk = (std::filesystem::temp_directory_path() / "sojourn-ledger-XXXXXX").string();
    path = mkdtemp(memory.data()) ? memory : mkdtemp(disk.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  std::string file(const std::string &name) const { return path + "/" + name; }
  std::string path;
};

/// The sum of the first order against epsilon, and of the deltas against delta.
inline bool plainFilter(const Grant &budget, const privacy::Charge &total) {
  return static_cast<double>(total.rdp[0]) <= std::ldexp(budget.epsilon, 40) &&
         static_cast<double>(total.delta) <= std::ldexp(budget.delta, 64);
}

/// `units` millionths of epsilon at the first order, something else at each other one.
inline privacy::Charge chargeOf(uint64_t units) {
  privacy::Charge charge;
  for (size_t order = 0; order < charge.rdp.size(); ++order) {
    charge.rdp[order] = units * ((uint64_t{1} << 40) / 1'000'000) * (order + 1) + (units != 0 ? order : 0);
  }
  charge.delta = units;
  return charge;
}

/// Lower-case digits, as `hex` writes them.
inline std::string fromHex(std::string_view digits) {
  std::string bytes;
  for (size_t place = 0; place + 1 < digits.size(); place += 2) {
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(place, 2)), nullptr, 16));
  }
  return bytes;
}

inline Hash hashNumber(uint64_t number) { return hashOf(std::to_string(number)); }

struct World {
  Folder folder;
  int64_t nowMs = 1'700'000'000'000;
  const SigningKey *key = nullptr;

  LedgerOptions options(bool inMemory = false) {
    LedgerOptions options;
    options.path = inMemory ? ":memory:" : folder.file("ledger.sqlite");
    options.headPath = folder.file("elsewhere/ledger.head");
    options.clockMs = [this] { return nowMs; };
    options.admits = plainFilter;
    options.key = key;
    return options;
  }
  std::unique_ptr<Ledger> open(bool inMemory = false) {
    auto ledger = Ledger::open(options(inMemory));
    EXPECT_TRUE(ledger) << ledger.problem().text;
    return ledger ? std::move(*ledger) : nullptr;
  }
};

inline std::string textOf(const Status &status) { return status ? status->text : ""; }
inline std::string textOf(const ReserveAnswer &answer) {
  auto *problem = std::get_if<Problem>(&answer);
  return problem ? problem->text : "";
}

/// Client "ada" on dataset "people", whose cap and grant are `epsilon`.
inline void admitAda(Ledger &ledger, double epsilon) {
  EXPECT_EQ(textOf(ledger.addClient("ada", "")), "");
  EXPECT_EQ(textOf(ledger.linkDataset("people", "", Relation::nullOne)), "");
  EXPECT_EQ(textOf(ledger.setCap("people", {epsilon, 0.5})), "");
  EXPECT_EQ(textOf(ledger.setGrant("ada", "people", {epsilon, 0.5})), "");
}

/// A ledger on which ada has a grant of 1.
struct AdasLedger : testing::Test {
  World world;
  std::unique_ptr<Ledger> ledger;
  void SetUp() override {
    ledger = world.open();
    ASSERT_NE(ledger, nullptr);
    admitAda(*ledger, 1);
  }
};

/// `owner`: of the dataset; zeros where the ledger has no key.
inline ReserveRequest requestOf(const std::string &key, uint64_t units, const std::string &client = "ada",
                                const std::string &dataset = "people", const PublicKey &owner = {}) {
  ReserveRequest request;
  request.client = client;
  request.key = key;
  request.moduleHash = hashOf(key);
  request.what = "mean of age";
  request.items = {{dataset, "v1", "", chargeOf(units), owner}};
  request.sites = {{1 << 20, 77, -12, "mean"}};
  return request;
}

/// What everyone together spent on a population.
inline privacy::Charge spentOn(Ledger &ledger, const std::string &population = "people") {
  auto lines = ledger.populations();
  EXPECT_TRUE(lines);
  for (const PopulationLine &line : *lines) {
    if (line.population == population) {
      return line.spent;
    }
  }
  return {};
}

} // namespace sojourn::owner::ledger::test

#endif // SOJOURN_TEST_OWNER_LEDGER_SUPPORT_H
