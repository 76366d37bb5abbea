// SPDX-License-Identifier: Apache-2.0
// The owner as a function from bytes to bytes: datasets, sessions, handles, programs, labels.
#ifndef SOJOURN_OWNER_OWNER_H
#define SOJOURN_OWNER_OWNER_H

#include "owner/Catalogue.h"
#include "owner/Dataset.h"
#include "owner/Environment.h"
#include "owner/Figures.h"
#include "owner/Limits.h"
#include "owner/NamedValues.h"
#include "owner/Peer.h"
#include "owner/Sharing.h"
#include "owner/peers/PeerRecord.h"
#include "runtime/signing/SigningKey.h"
#include "runtime/wire/Message.h"

#include "llvm/Support/Error.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sojourn::runtime {
class Profile;
} // namespace sojourn::runtime

namespace sojourn::owner {

class Accounts;
struct Certificate;
class OwnerState;
class Peers;

/// What was in the log of programs before.
struct LoggedBefore {
  size_t dropped = 0;                ///< programs of clients without an identity that went for newer ones
  std::vector<std::string> archives; ///< files with older programs of others, whose room was full
};

/// Requests of different sessions are served at once, those of one session one after another.
///
/// Lock order; who holds one takes only later ones, and none is held while a program is decoded,
/// planned or run but the first:
/// 1. a session's turn (Session::turn), for the whole of a request that names the session;
/// 2. the owner's mutex (OwnerState::mutex), for moments: lookup, booking, commit. It guards sessions,
///    store, catalogue, plan cache and log, and the environment's clock, randomness and log;
/// 3. the catalogue's lock, which all processes share, then that of the ledger: changes of names hold both;
/// 4. what guards itself: ThreadBudget, MemoryBudget (never waited for under 2), pools of memory.
class Owner {
public:
  /// A store that cannot be opened does not throw: `status` tells, and every request is answered
  /// with an Error.
  explicit Owner(Environment environment, Limits limits = {});
  ~Owner();
  Owner(const Owner &) = delete;
  Owner &operator=(const Owner &) = delete;

  /// Empty if the store is open, else what is wrong with it.
  std::string status() const;

  /// One Reply for every input, garbage included. Thread-safe. A client may do everything but
  /// read the log of programs, which holds other people's source lines.
  ///
  /// `connection`: a number of the connection that the request came over, never used again; 0 for none. When it closes,
  /// `disconnected` says so, after the last answer to it; its sessions end some minutes later.
  /// `certificate`: the digest of this owner's certificate where the connection is TLS (Certificate.h), else empty.
  sojourn::wire::Message answer(std::string_view request, Peer peer = Peer::owner, uint64_t connection = 0,
                                std::string_view certificate = {}) noexcept;
  void disconnected(uint64_t connection) noexcept;
  /// Whether the last request of a session came over the connection; and all connections of which that is true, sorted,
  /// or those of sessions without an identity.
  bool hasSession(uint64_t connection) const noexcept;
  std::vector<uint64_t> connections(bool isAnonymous = false) const;
  /// Ends sessions whose time is over, and frees what they held. A server calls it several times a second.
  void tidy() noexcept;
  /// Room for a message of a session that is about to arrive, which counts as its values do until the result goes. Null
  /// where it does not fit or there is no such session: `refusal` is the reply.
  std::shared_ptr<const void> room(uint64_t session, size_t bytes, sojourn::wire::Message &refusal) noexcept;
  /// Steps under way of sessions whose last request came over the connection end within `grace`, by themselves or with
  /// an error of code Stopped: the server closes.
  void endSteps(uint64_t connection, std::chrono::milliseconds grace) noexcept;
  /// Likewise, with the reply in a string of its own.
  std::string handle(std::string_view request, Peer peer = Peer::owner) {
    return std::string(answer(request, peer).bytes);
  }

  /// Imports a table and enters it in the catalogue.
  llvm::Error registerDataset(const DatasetSource &source, const RegisterOptions &options);
  /// Other rows under the same name: a new version. What `options` do not declare is as it was; name, policy and
  /// population always are. Budgets stay spent, as they do for the next two. Steps under way end on the rows that they
  /// have.
  llvm::Error replaceDataset(const std::string &name, const DatasetSource &source, RegisterOptions options);
  /// Budgets and access go along. The name of before is not given to another dataset, if it had budgets.
  llvm::Error renameDataset(const std::string &name, const std::string &to);
  /// Its rows are deleted. Its name, if it had budgets, is free only for a dataset that continues them
  /// (RegisterOptions::continuesBudget).
  llvm::Error removeDataset(const std::string &name);
  /// The sessions, access and grants of a client; what it spent stays, and counts for the people.
  llvm::Error removeClient(const std::string &client);
  /// `again`: one that was removed comes back, with what it spent and without access and grants.
  llvm::Error addClient(const std::string &client, const signing::PublicKey &key, bool again = false);
  /// Changes what may be done with values computed from a dataset, at once and for values computed
  /// before: permission is looked up when something is published. Fails if no dataset has this name.
  ///
  /// Private needs bounds of every column and subjects; `rowsAreSubjects` says so of a table of which nobody has.
  llvm::Error setPolicy(const std::string &name, Policy policy, bool rowsAreSubjects = false);
  /// What stands for a private table where a step says nothing; at once.
  llvm::Error setDefaults(const std::string &name, const PrivacyDefaults &defaults);
  /// Words and tags of a dataset, for clients with access, in place of those before; at once. Fails if no dataset has
  /// this name, or for a description that cannot be shown.
  llvm::Error describe(const std::string &name, const std::string &text, const std::vector<std::string> &tags);
  /// What other owners may see of a dataset's rows in joint steps; at once. Fails if no dataset has this name, and for
  /// this owner itself.
  llvm::Error share(const std::string &name, const std::vector<signing::PublicKey> &members, Sharing sharing);
  /// By their keys as 64 hexadecimal digits, those that something was said of.
  llvm::Expected<std::vector<std::pair<std::string, Sharing>>> sharing(const std::string &name);
  /// What all clients together may learn about the people behind a dataset.
  llvm::Error setCap(const std::string &dataset, double epsilon, double delta);
  /// The budget of a client on a dataset: every release to it is within (epsilon, delta) differential privacy. The
  /// client of this process is kLocalClient; others are added, and need a cap.
  llvm::Error grant(const std::string &client, const std::string &dataset, double epsilon, double delta);
  /// Takes the budget and the access of a client; its charges remain.
  llvm::Error revoke(const std::string &client, const std::string &dataset);
  /// Who may ask for a dataset beside this process; at once. Each grant gives access, too.
  llvm::Error setAccess(const std::string &name, const Access &access);
  /// All of them, also those without an identity; clients stay named.
  llvm::Error openToAnyone(const std::string &name);
  /// To clients, and from clients; what else there is stays.
  llvm::Error changeAccess(const std::string &name, const std::vector<std::string> &add,
                           const std::vector<std::string> &remove);
  /// Whether all of them were added.
  llvm::Error checkClients(const std::vector<std::string> &clients);
  /// Clients, budgets and the ledger. Only after `status` was empty.
  Accounts &accounts();
  /// Groups of owners, of which this one is a member. Likewise.
  std::shared_ptr<Peers> groups();
  /// Other owners that the data owner has registered, by their names: possible members of groups; at once. Errors: the
  /// name is not valid, name or key is there already, the key is this owner's, or no owner connects to such an address.
  /// `plainTcp`: whether tcp:// of this machine is allowed.
  llvm::Error addPeer(const PeerRecord &peer, bool plainTcp = false);
  /// Groups with it end. Fails if no owner has this name.
  llvm::Error removePeer(const std::string &name);
  llvm::Expected<std::vector<PeerRecord>> peers();
  llvm::Expected<PeerRecord> peer(const std::string &name);
  const Limits &limits() const;
  /// Checks receipts; 64 hexadecimal digits.
  std::string key() const;
  /// What this owner shows over TLS: of its store, made at the first use; in memory one of its own. `renew`: another in
  /// its place, for servers that start from now on.
  llvm::Expected<Certificate> certificate(bool renew = false);
  /// Every registered dataset, in order of registration.
  llvm::Expected<std::vector<DatasetRecord>> datasets();
  /// One of them; fails if no dataset has this name.
  llvm::Expected<DatasetRecord> dataset(const std::string &name);
  /// Every program in the log, oldest first, run counts up to date. `prefix`: of the hash, hexadecimal.
  llvm::Expected<std::vector<ProgramRecord>> programs(bool withText, const std::string &prefix = "");
  /// Moves all of them to a file (ProgramArchive.h), which is made, or gets them beside what it has; returns how many.
  /// Also beside other processes with this store.
  llvm::Expected<size_t> archivePrograms(const std::string &path);
  llvm::Expected<LoggedBefore> loggedBefore();

  /// Values that clients have given names; of one client, or of all where it is empty.
  std::vector<NamedValueInfo> namedValues(const std::string &client = "");
  /// Takes a name away; the value goes where no session has it.
  llvm::Error releaseName(const std::string &client, const std::string &name);

  Figures figures() const;
  /// Requests answered and steps committed since this object was made.
  uint64_t requests() const;
  uint64_t stepsHandled() const;
  /// Sessions and handles alive, for tests and for the curious.
  size_t liveSessions() const;
  size_t liveHandles() const;

private:
  std::unique_ptr<OwnerState> state;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_OWNER_H
