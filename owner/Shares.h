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
/// At least one each. `claim` also bounds growth: a client with an identity gets at most half of what the other clients
/// with an identity leave. The first one gets a half, the next one a quarter, then an eighth. Whoever has
/// one locks it: the owner's mutex, except for the bytes of private plans.
class Shares {
public:
  explicit Shares(size_t most) : all(most) {}

  size_t most() const { return all; }
  size_t share(const std::string &account) const;
  /// The amount up to which the account may grow now.
  size_t claim(const std::string &account) const;
  size_t used(const std::string &account) const;
  size_t used() const { return total; } ///< by all
  /// What is left for all accounts together.
  size_t left() const { return all - (total < all ? total : all); }
  void add(const std::string &account, size_t amount);
  void remove(const std::string &account, size_t amount);

private:
  const size_t all;
  size_t total = 0;
  std::map<std::string, size_t> byAccount;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_SHARES_H
