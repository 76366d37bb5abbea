// SPDX-License-Identifier: Apache-2.0
// Lines of the data owner's log that clients cause: no client fills the disk with them.
#ifndef SOJOURN_OWNER_ACCOUNTLINES_H
#define SOJOURN_OWNER_ACCOUNTLINES_H

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sojourn::owner {

/// Of one kind. Each account has some lines at once, and more with time. The others are counted, and a later line tells
/// their number: "requests refused: 12 more to ada". Guarded by the owner's mutex.
class AccountLines {
public:
  /// `what`, `whose`: of that line, "requests refused" and "to".
  AccountLines(size_t atOnce, int64_t eachMs, std::string what, std::string whose)
      : most(static_cast<double>(atOnce)), eachMs(static_cast<double>(eachMs)), what(std::move(what)),
        whose(std::move(whose)) {}
  /// The lines for the log now; `account` empty: clients without an identity or session.
  std::vector<std::string> add(const std::string &account, const std::string &line, int64_t nowMs);
  /// The numbers that no line has told, of accounts whose time has come; of all where the owner ends.
  std::vector<std::string> rest(int64_t nowMs, bool all = false);

private:
  struct Account {
    double left = 0;
    int64_t atMs = 0;
    uint64_t untold = 0;
  };
  void renew(Account &account, int64_t nowMs) const;

  const double most, eachMs;
  const std::string what, whose;
  std::map<std::string, Account> accounts; ///< the data owner adds clients: there are few
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_ACCOUNTLINES_H
