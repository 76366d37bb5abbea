// SPDX-License-Identifier: Apache-2.0
// How often clients that nobody knows may begin: sessions without an identity, and challenges before a proof. Sessions
// of a client with an identity count as its proofs (Handshake.h).
#ifndef SOJOURN_OWNER_OPENINGS_H
#define SOJOURN_OWNER_OPENINGS_H

#include "llvm/Support/Error.h"

#include <cstddef>
#include <cstdint>
#include <map>

namespace sojourn::owner {

/// Challenges that one connection may ask for in a minute: a client asks for one.
inline constexpr size_t kChallengesPerMinute = 120;

/// A number at once, and as many again with each minute. Challenges are counted by connection, since nobody has proved
/// anything yet: who asks without end needs connections without end, and takes nothing from others. Guarded by the
/// owner's mutex.
class Openings {
public:
  /// `sessionsPerMinute`: of all clients without an identity together.
  explicit Openings(size_t sessionsPerMinute) : sessions{static_cast<double>(sessionsPerMinute)} {}

  /// An error of code Limit where too many came before.
  llvm::Error session(int64_t nowMs);
  /// `connection` 0: within the process, where there is no limit.
  llvm::Error challenge(uint64_t connection, int64_t nowMs);
  /// The connection has closed.
  void disconnected(uint64_t connection) { challenges.erase(connection); }

private:
  struct Allowance {
    double most;
    double left = most;
    int64_t atMs = 0;
    /// Milliseconds until there is one; 0: it was taken.
    int64_t take(int64_t nowMs);
  };
  Allowance sessions;
  std::map<uint64_t, Allowance> challenges;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_OPENINGS_H
