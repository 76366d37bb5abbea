// SPDX-License-Identifier: Apache-2.0
// What a session has to tell its user: notes of its owner, reasons of compilations, steps that spent by defaults.
#ifndef SOJOURN_FRONTEND_SESSION_NEWS_H
#define SOJOURN_FRONTEND_SESSION_NEWS_H

#include "frontend/compile/Cache.h"
#include "frontend/compile/Judge.h"
#include "runtime/OwnProcess.h"

#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace sojourn::frontend {

/// What a step without terms of its own spent on one private table.
struct DefaultStep {
  std::string dataset;
  terms::Defaults defaults;
  double rate = 1; ///< probability of a row to be in the step's batch
  privacy::Charge charge;
};

/// Guards itself, by a lock that is held for moments and under which no other is taken. In a fork of the session's
/// process there is nothing to tell.
class News {
public:
  void add(const std::vector<std::string> &notes);
  void add(std::vector<Explanation> &&explanations);
  void add(DefaultStep &&step);
  /// What was added since this was last asked.
  std::vector<std::string> takeNotes();
  /// Likewise; of many the last ones.
  std::vector<Explanation> takeExplanations();
  std::vector<DefaultStep> takeDefaultSteps();
  /// Whether any session has something to take since this was last asked.
  static bool takeAny();

private:
  static constexpr size_t kExplanations = 256;

  const runtime::OwnProcess process_;
  std::mutex mutex_;
  std::vector<std::string> notes_;
  std::deque<Explanation> explanations_;
  std::vector<DefaultStep> defaultSteps_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_NEWS_H
