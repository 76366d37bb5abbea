// SPDX-License-Identifier: Apache-2.0
// An owner whose clock and randomness are the tool's, and one session of an attacker at it.
#ifndef SOJOURN_TEST_ATTACK_WORLD_H
#define SOJOURN_TEST_ATTACK_WORLD_H

#include "test/attack/Clients.h"
#include "test/attack/Program.h"
#include "test/attack/Tables.h"

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace sojourn::attack {

/// All that leaves: replies in their order, what the log says, what the books say was spent.
struct Transcript {
  std::vector<std::string> replies;
  std::vector<bool> accepted; ///< by step
  std::vector<std::string> errors;
  std::string log, spent;
  /// What a client's step did to another's account, which nothing may.
  std::string meddled;
};

/// Worlds with one seed and one history answer alike.
class World {
public:
  explicit World(uint64_t seed, const owner::Limits &limits = {});
  ~World();
  World(const World &) = delete;
  /// Sends a session; encoded programs by step.
  Transcript play(const Attack &attack, const std::vector<runtime::EncodedProgram> &programs);

  /// For sessions that are no attacks: bytes as that client sends them, and a session of its own (0: refused).
  std::string send(const std::string &request, size_t client);
  uint64_t connect(size_t client);
  void passTime(int64_t milliseconds);
  /// Of a table, by its name.
  std::string version(llvm::StringRef table) const;

private:
  struct Session {
    uint64_t id = 0, sequence = 1;
  };
  Session &session(size_t client);
  /// Sends what goes ahead, and takes its bytes out of the step.
  void sendAhead(owner::test::StepRequest &step, size_t client);

  owner::test::World support;
  std::mt19937_64 system; ///< libsodium's randomness while this world runs
  std::unique_ptr<owner::Owner> owner;
  std::unique_ptr<Clients> clients;
  std::map<size_t, Session> sessions; ///< of the attack
  std::vector<std::string> versions;  ///< of the tables
};

} // namespace sojourn::attack

#endif // SOJOURN_TEST_ATTACK_WORLD_H
