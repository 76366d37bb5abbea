// SPDX-License-Identifier: Apache-2.0
// How a session's steps spend the budgets of private tables: the terms of the open run, what programs draw by the
// owner's own passes (Judge.h), and what runs have been charged.
#ifndef SOJOURN_FRONTEND_SESSION_SPENDING_H
#define SOJOURN_FRONTEND_SESSION_SPENDING_H

#include "frontend/RecentlyUsed.h"
#include "frontend/compile/Judge.h"
#include "frontend/session/News.h"
#include "frontend/wire/Client.h"

#include <array>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sojourn::frontend {

/// What the steps of a run have been charged for one dataset.
struct RunSpent {
  uint64_t steps = 0; ///< that paid for rows of it
  privacy::Charge charge;
};

/// Calls with a client ask the owner, and are made in the session's turn. The others are guarded by a lock that is held
/// for moments and under which no other is taken.
class Spending {
public:
  explicit Spending(News &news) : news_(news) {}

  /// How steps on private tables spend from now on; `releases` are those of the values published.
  void set(const wire::Spending &terms);
  /// Until `set`, steps that spend are refused: a run is open whose noise is not known yet.
  void await();
  wire::Spending terms() const;
  /// What the owner has charged to a run of `set`. `forget`: nothing asks again.
  RunSpent spentBy(uint64_t run, const std::string &dataset, bool forget = false);

  /// As the owner lists them now.
  std::vector<DatasetInfo> tables(Client &client);
  /// Why an owner would not run a program on its private tables, or empty.
  std::string refusalOf(const wire::Step &step, Client &client);
  /// Whether a step that was not refused draws of no private table.
  bool isFree(const wire::Step &step);
  /// A prepared step as the owner would judge it, with the delta of the budgets that its prices are looked up with.
  Judgement judge(const wire::Step &step, Client &client);
  /// The owner has accepted the step.
  void note(const wire::Step &step, Client &client);

private:
  /// A program with what in its message decides who pays for what: tables, noise multiplier, share, prices.
  using Judged = std::tuple<std::array<uint8_t, 32>, std::string, double, double, std::vector<bool>>;
  /// Of a run and a dataset: steps, and how often each draw was paid for at which noise multiplier.
  struct RunCount {
    uint64_t steps = 0;
    std::map<std::pair<decltype(Judgement::Draw().price()), double>, std::pair<Judgement::Draw, uint64_t>> draws;
  };
  static Judged judgedAs(const wire::Step &step);
  std::vector<DatasetInfo> tablesOf(const wire::Step &step, bool again, Client &client);
  std::string judgeAnew(const wire::Step &step, Client &client);
  void noteDefaults(const wire::Step &step, const std::vector<Judgement::Draw> &draws, Client &client);

  /// Programs that it remembers the draws of.
  static constexpr size_t kPrograms = 4096;

  News &news_;
  // In the turn.
  RecentlyUsed<Judged, std::vector<Judgement::Draw>> judged_{kPrograms}; ///< that an owner would not refuse
  std::vector<DatasetInfo> knownTables_;                                 ///< as the owner last listed them
  std::set<std::pair<std::string, std::string>> defaultsTold_;           ///< name and version of tables
  // Under the lock.
  mutable std::mutex mutex_;
  wire::Spending terms_;
  bool isAwaited_ = false;
  std::map<std::pair<uint64_t, std::string>, RunCount> runs_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SESSION_SPENDING_H
