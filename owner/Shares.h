// SPDX-License-Identifier: Apache-2.0
// A bounded amount of something that accounts use together, each up to its share.
#ifndef SOJOURN_OWNER_SHARES_H
#define SOJOURN_OWNER_SHARES_H

#include <cstddef>
#include <map>
#include <string>

namespace sojourn::owner {

/// Every account has a share, so that none can use up the room of the others:
///
/// | account | most |
/// |---|---|
/// | the data owner's process | all |
/// | a client with an identity | half |
/// | all clients without an identity together | an eighth |
///
/// At least one each. Where a client with an identity wants more of what is kept for long, `claim` holds as well: half
/// of what the other clients with an identity leave. One alone gets a half, the next one a quarter, then an eighth.
/// Guarded by the owner's mutex.
class Shares {
public:
  explicit Shares(size_t most) : most(most) {}

  size_t share(const std::string &account) const;
  /// What the account may grow to while the others have what they have: for clients with an identity half of what the
  /// others of these leave of all.
  size_t claim(const std::string &account) const;
  size_t used(const std::string &account) const;
  size_t used() const { return total; } ///< by all
  /// What is left for all accounts together.
  size_t left() const { return most - (total < most ? total : most); }
  void add(const std::string &account, size_t amount);
  void remove(const std::string &account, size_t amount);

private:
  const size_t most;
  size_t total = 0;
  std::map<std::string, size_t> byAccount;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_SHARES_H
