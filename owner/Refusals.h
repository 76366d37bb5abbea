// SPDX-License-Identifier: Apache-2.0
// What the data owner's log says of refused requests.
#ifndef SOJOURN_OWNER_REFUSALS_H
#define SOJOURN_OWNER_REFUSALS_H

#include "owner/RequestError.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sojourn::owner {

/// A request as far as the log shows it: texts of others in one line each, and of bounded length.
struct RefusedRequest {
  RefusedRequest() = default; ///< nothing can be read of it
  explicit RefusedRequest(const wire::Request &request);
  explicit RefusedRequest(const wire::Step &step);
  std::string kind;
  uint64_t session = 0;
  std::string said;   ///< what a client without a session calls itself
  std::string tables; ///< those that it names
};

/// One line, with the error's reason.
std::string refusalText(const RefusedRequest &request, const std::string &client, const RequestError &error);

/// Bounds the lines of each account, so that no client fills the disk with refusals: kRefusalLines at once, one more
/// each second. The others are counted, and a later line tells their number. Guarded by the owner's mutex.
class RefusalLines {
public:
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
  void renew(Account &account, int64_t nowMs);
  std::map<std::string, Account> accounts; ///< the data owner adds clients: there are few
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_REFUSALS_H
