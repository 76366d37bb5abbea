// SPDX-License-Identifier: Apache-2.0
#include "frontend/ahead/Turns.h"

#include <algorithm>

namespace sojourn::frontend {

Turns::Turns(const wire::Step &second, const wire::Step &third)
    : made_(second.results.begin(), second.results.end()), states_{second.states}, releases_{second.releases},
      results_{second.results} {
  learn(third);
}

void Turns::learn(const wire::Step &next) {
  states_.push_back(next.states);
  releases_.push_back(next.releases);
  results_.push_back(next.results);
  followAll();
}

void Turns::followAll() {
  sources_.clear();
  isRegular_ = true;
  for (size_t i = 0; i < states_[0].size(); ++i) {
    follow(states_, i);
  }
  // Values that a call releases without taking them move, too, unless later calls have nothing to release there.
  for (size_t i = 0; i < releases_[0].size(); ++i) {
    const bool isEverywhere =
        std::all_of(releases_.begin(), releases_.end(), [&](const auto &call) { return i < call.size(); });
    if (isEverywhere && !sources_.contains(releases_[0][i])) {
      follow(releases_, i);
    }
  }
  nameValues();
}

void Turns::forgetReleases() {
  std::for_each(releases_.begin(), releases_.end(), [](auto &call) { call.clear(); });
  followAll();
}

void Turns::pass(const wire::Step &next) {
  results_.push_back(next.results);
  nameValues();
}

void Turns::follow(const std::vector<std::vector<uint64_t>> &calls, size_t position) {
  uint64_t to = calls[0][position];
  for (size_t at = 1; at < calls.size() && position < calls[at].size(); ++at) {
    const uint64_t from = calls[at][position];
    if (from == to) {
      // In the second call already: a value that stays. Later on it would have two names.
      isRegular_ = isRegular_ && at == 1;
      return;
    }
    const bool isKnownAlready = isKnown(from) || std::find(calls[0].begin(), calls[0].end(), from) != calls[0].end();
    sources_[to] = from;
    if (isKnownAlready) {
      return;
    }
    to = from;
  }
}

bool Turns::isWhole() const {
  return std::all_of(sources_.begin(), sources_.end(), [&](const auto &source) { return isKnown(source.second); });
}

std::map<uint64_t, uint64_t> Turns::valuesAfter(size_t calls) const {
  std::map<uint64_t, uint64_t> values;
  for (const auto &[to, from] : sources_) {
    values[to] = to;
  }
  for (size_t call = 0; call < calls; ++call) {
    for (size_t i = 0; i < results_[0].size() && i < results_[call].size(); ++i) {
      values[results_[0][i]] = results_[call][i];
    }
    const std::map<uint64_t, uint64_t> before = values;
    for (const auto &[to, from] : sources_) {
      values.erase(from);
    }
    for (const auto &[to, from] : sources_) {
      if (auto value = before.find(from); value != before.end()) {
        values[to] = value->second;
      }
    }
  }
  return values;
}

bool Turns::isRegular() const {
  std::set<uint64_t> given;
  for (const auto &[to, from] : sources_) {
    if (!given.insert(from).second) {
      return false; // one value has one name
    }
  }
  for (size_t call = 1; call < states_.size(); ++call) {
    const std::map<uint64_t, uint64_t> values = valuesAfter(call);
    for (size_t i = 0; i < states_[0].size(); ++i) {
      auto value = values.find(states_[0][i]);
      if (i >= states_[call].size() || states_[call][i] != (value == values.end() ? states_[0][i] : value->second)) {
        return false;
      }
    }
  }
  return isRegular_;
}

void Turns::nameValues() {
  names_.clear();
  for (const auto &[to, from] : sources_) {
    names_[to] = names_[from] = std::nullopt;
  }
  for (const std::vector<uint64_t> &call : results_) {
    for (uint64_t handle : call) {
      names_[handle] = std::nullopt;
    }
  }
  for (const auto &[name, value] : valuesAfter(results_.size())) {
    names_[value] = name;
  }
}

std::optional<uint64_t> Turns::nameOf(uint64_t handle) const {
  auto moving = names_.find(handle);
  return moving == names_.end() ? handle : moving->second;
}

void Turns::store(std::vector<uint64_t> &from, std::vector<uint64_t> &to) const {
  for (const auto &[name, source] : sources_) {
    to.push_back(name);
    from.push_back(source);
  }
}

} // namespace sojourn::frontend
