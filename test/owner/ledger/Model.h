// SPDX-License-Identifier: Apache-2.0
// The ledger once more, plain and slow: lists that are summed up anew for every question.
#ifndef SOJOURN_TEST_OWNER_LEDGER_MODEL_H
#define SOJOURN_TEST_OWNER_LEDGER_MODEL_H

#include "test/owner/ledger/Support.h"

#include <map>
#include <set>

namespace sojourn::owner::ledger::test {

/// What an operation should answer: a problem, or nothing.
using Expected = std::optional<Code>;

struct Model {
  struct Publish {
    std::string client, key;
    Hash hash;
    std::vector<Item> items;
    State state = State::reserved;
    std::string bytes;
    int64_t sealedMs = 0;
  };
  struct Block {
    uint64_t steps, used;
    std::vector<privacy::Charge> price;
  };
  struct Run {
    RunRequest request;
    std::vector<Block> blocks; ///< only the last can be open
    bool blockOpen = false, open = true;
    uint64_t taken() const {
      uint64_t sum = 0;
      for (const Block &block : blocks) {
        sum += block.used;
      }
      return sum;
    }
  };
  std::set<std::string> clients;
  std::map<std::string, std::string> populationOf;
  std::map<std::string, Relation> relations;
  std::map<std::string, Grant> caps;
  std::map<std::pair<std::string, std::string>, Grant> grants;
  std::vector<Publish> publishes;
  std::vector<Run> runs;
  struct Overrun {
    std::string client, dataset;
    uint64_t bits;
  };
  std::vector<Overrun> overruns; ///< since they were forgiven

  uint64_t bitsOf(const std::string &client, const std::string &dataset) const {
    uint64_t sum = 0;
    for (const Overrun &overrun : overruns) {
      const bool counts = overrun.client == client && overrun.dataset == dataset;
      sum = !counts ? sum : sum + overrun.bits < sum ? UINT64_MAX : sum + overrun.bits;
    }
    return sum;
  }

  Expected addOverruns(const std::string &client, const std::string &dataset, uint64_t bits) {
    if (!clients.contains(client)) {
      return Code::unknownClient;
    }
    if (!populationOf.contains(dataset)) {
      return Code::unknownDataset;
    }
    if (bits == 0) {
      return Code::badRequest;
    }
    overruns.push_back({client, dataset, bits});
    return {};
  }

  Expected forgiveOverruns(const std::string &client, const std::string &dataset) {
    if (!clients.contains(client)) {
      return Code::unknownClient;
    }
    if (!populationOf.contains(dataset)) {
      return Code::unknownDataset;
    }
    const size_t count = std::erase_if(
        overruns, [&](const Overrun &overrun) { return overrun.client == client && overrun.dataset == dataset; });
    return count == 0 ? Expected(Code::badRequest) : Expected();
  }

  /// Everything that is held, of one client on one dataset, or of one population.
  privacy::Charge spent(const std::string &client, const std::string &dataset, const std::string &population) const {
    privacy::Charge sum;
    auto add = [&](const std::string &who, const Item &item, const privacy::Charge &charge, uint64_t count) {
      bool counts =
          population.empty() ? who == client && item.dataset == dataset : populationOf.at(item.dataset) == population;
      for (uint64_t time = 0; counts && time < count; ++time) {
        sum = sum + charge;
      }
    };
    for (const Publish &publish : publishes) {
      for (const Item &item : publish.items) {
        add(publish.client, item, item.charge, publish.state != State::voided);
      }
    }
    for (const Run &run : runs) {
      for (size_t index = 0; index < run.request.items.size(); ++index) {
        const Item &item = run.request.items[index];
        if (run.request.whole) {
          add(run.request.client, item, item.charge, run.open ? run.request.steps : run.taken());
          continue;
        }
        for (const Block &block : run.blocks) {
          bool last = run.blockOpen && &block == &run.blocks.back();
          add(run.request.client, item, block.price[index], last ? block.steps : block.used);
        }
      }
    }
    return sum;
  }

  Expected names(const std::string &client, Relation relation, const std::vector<Item> &items) const {
    if (!clients.contains(client)) {
      return Code::unknownClient;
    }
    if (items.empty()) {
      return Code::badRequest;
    }
    std::set<std::string> seen;
    for (const Item &item : items) {
      if (!populationOf.contains(item.dataset)) {
        return Code::unknownDataset;
      }
      const std::string &population = populationOf.at(item.dataset);
      if (relations.at(population) != relation) {
        return Code::otherRelation;
      }
      if (!seen.insert(population).second) {
        return Code::sharedPeople;
      }
      if (!caps.contains(population)) {
        return Code::noCap;
      }
      if (!grants.contains({client, item.dataset})) {
        return Code::noGrant;
      }
    }
    return {};
  }

  bool fits(const std::string &client, const std::vector<Item> &items, uint64_t count) const {
    for (const Item &item : items) {
      const std::string &population = populationOf.at(item.dataset);
      const Grant &grant = grants.at({client, item.dataset}), &cap = caps.at(population);
      privacy::Charge asked = count * item.charge;
      if (grant.epsilon == 0 || cap.epsilon == 0 || !plainFilter(grant, spent(client, item.dataset, "") + asked) ||
          !plainFilter(cap, spent("", "", population) + asked)) {
        return false;
      }
    }
    return true;
  }

  Expected reserve(const ReserveRequest &request, int64_t nowMs, const Publish *&sealed) {
    sealed = nullptr;
    for (size_t index = publishes.size(); index-- > 0;) {
      const Publish &earlier = publishes[index];
      if (earlier.client != request.client || earlier.key != request.key) {
        continue;
      }
      if (earlier.hash != request.moduleHash) {
        return Code::keyReused;
      }
      if (earlier.state == State::voided) {
        break;
      }
      if (earlier.state == State::reserved || earlier.state == State::started) {
        return Code::inFlight;
      }
      if (earlier.state == State::burnt) {
        return Code::burnt;
      }
      if (nowMs - earlier.sealedMs > kKeepSealedMs) {
        return Code::expired;
      }
      sealed = &earlier;
      return {};
    }
    if (Expected problem = names(request.client, request.relation, request.items)) {
      return problem;
    }
    if (!fits(request.client, request.items, 1)) {
      return Code::budgetExhausted;
    }
    publishes.push_back({request.client, request.key, request.moduleHash, request.items, State::reserved, "", 0});
    return {};
  }

  Expected advance(size_t index, State from, State to) {
    if (publishes[index].state != from) {
      return Code::badRequest;
    }
    publishes[index].state = to;
    return {};
  }

  Expected openRun(const RunRequest &request) {
    if (Expected problem = names(request.client, request.relation, request.items)) {
      return problem;
    }
    if (request.whole && request.steps == 0) {
      return Code::badRequest;
    }
    if (!fits(request.client, request.items, std::max<uint64_t>(request.steps, 1))) {
      return Code::budgetExhausted;
    }
    runs.push_back({request, {}, false, true});
    return {};
  }

  Expected takeStep(size_t index, const std::vector<privacy::Charge> &price) {
    Run &run = runs[index];
    if (!run.open) {
      return Code::badRequest;
    }
    if (!run.blockOpen || run.blocks.back().used == run.blocks.back().steps || run.blocks.back().price != price) {
      uint64_t left = run.request.steps == 0 ? UINT64_MAX : run.request.steps - run.taken();
      if (left == 0) {
        return Code::planExceeded;
      }
      std::vector<Item> items = run.request.items;
      bool usual = true;
      for (size_t item = 0; item < items.size(); ++item) {
        usual = usual && items[item].charge == price[item];
        items[item].charge = price[item];
      }
      if (run.request.whole && !usual) {
        return Code::badRequest;
      }
      run.blockOpen = false;
      uint64_t steps = std::min(left, run.request.blockSteps);
      while (!run.request.whole && steps > 0 && !fits(run.request.client, items, steps)) {
        steps /= 2;
      }
      if (steps == 0) {
        return Code::budgetExhausted;
      }
      run.blocks.push_back({steps, 0, price});
      run.blockOpen = true;
    }
    ++run.blocks.back().used;
    return {};
  }

  void close(size_t index) { runs[index].blockOpen = runs[index].open = false; }

  /// What the next start makes of what was under way.
  void restart() {
    for (Publish &publish : publishes) {
      if (publish.state == State::reserved) {
        publish.state = State::voided;
      } else if (publish.state == State::started) {
        publish.state = State::burnt;
      }
    }
    for (Run &run : runs) {
      if (run.blockOpen) {
        run.blocks.back().used = run.blocks.back().steps;
      }
      run.blockOpen = run.open = false;
    }
  }
};

} // namespace sojourn::owner::ledger::test

#endif // SOJOURN_TEST_OWNER_LEDGER_MODEL_H
