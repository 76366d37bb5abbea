// SPDX-License-Identifier: Apache-2.0
// What an owner consists of, for its own files.
#ifndef SOJOURN_OWNER_OWNERSTATE_H
#define SOJOURN_OWNER_OWNERSTATE_H

#include "owner/AccountLines.h"
#include "owner/Accounts.h"
#include "owner/Certificate.h"
#include "owner/Error.h"
#include "owner/Figures.h"
#include "owner/Handshake.h"
#include "owner/Openings.h"
#include "owner/Peer.h"
#include "owner/peers/Peers.h"
#include "owner/Refusals.h"
#include "owner/OwnerBooks.h"
#include "owner/StepMachine.h"
#include "runtime/OwnProcess.h"
#include "runtime/wire/Message.h"

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>

namespace sojourn::owner {

class OwnerState : public StepMachine, public OwnerBooks {
public:
  OwnerState(Environment given, Limits limits)
      : StepMachine(std::move(given), limits), OwnerBooks(static_cast<StepMachine &>(*this)) {
    if (!environment.worker) {
      problem = "this owner has no worker that could run steps; give its Environment one (owner/worker/Service.h)";
    } else if (llvm::Error error = open()) {
      problem = llvm::toString(std::move(error));
    }
  }
  ~OwnerState() {
    if (log) {
      llvm::consumeError(log->flush());
    }
    if (environment.log && !process.isElsewhere()) {
      for (AccountLines *lines : {&refusals, &opened, &unreadable, &sessions.ended}) {
        for (const std::string &line : lines->rest(0, /*all=*/true)) {
          environment.log(line);
        }
      }
    }
  }

  llvm::Error open();
  llvm::Expected<Certificate> certificate(bool renew);
  llvm::Expected<sojourn::wire::Message> answer(std::string_view bytes, Peer peer, uint64_t connection,
                                                std::string_view certificate);
  llvm::Expected<sojourn::wire::Message> serve(const wire::Request &request, std::string_view bytes, Peer peer,
                                               uint64_t connection, std::string_view certificate);
  llvm::Expected<std::shared_ptr<const void>> room(uint64_t session, size_t bytes);
  void tidy();
  /// A reply whose bytes count for the account until it has gone, where they are many.
  llvm::Expected<sojourn::wire::Message> held(const std::string &account, sojourn::wire::Message message);
  /// Tells the log.
  void refused(const RefusedRequest &request, const RequestError &error);
  llvm::Expected<sojourn::wire::Message> hello(const wire::Hello &request, Peer peer, uint64_t connection,
                                               std::string_view certificate);
  llvm::Expected<sojourn::wire::Message> prove(const wire::Prove &request, uint64_t connection,
                                               std::string_view certificate);
  llvm::Expected<sojourn::wire::Message> begin(const std::string &name, const std::string &account,
                                               const std::string &said, uint64_t connection,
                                               const std::string &key = "");
  llvm::Expected<Charged> charged(const std::string &dataset, double epsilon);
  llvm::Expected<sojourn::wire::Message> budget(const wire::GetBudget &request);
  llvm::Expected<sojourn::wire::Message> listDatasets(const wire::ListDatasets &request, Peer peer,
                                                      uint64_t connection);
  llvm::Error settleAccess();
  llvm::Error settleNames();
  llvm::Error checkKey(uint64_t session);
  llvm::Expected<sojourn::wire::Message> listPrograms(const wire::ListPrograms &request, Peer peer);
  llvm::Expected<sojourn::wire::Message> step(const wire::Step &request, std::string_view bytes);
  llvm::Expected<sojourn::wire::Message> upload(const wire::Upload &part);
  llvm::Expected<sojourn::wire::Message> release(const wire::Release &request);
  llvm::Expected<sojourn::wire::Message> watch(const wire::Watch &request);
  llvm::Expected<sojourn::wire::Message> bye(const wire::Bye &request);
  llvm::Expected<sojourn::wire::Message> join(const wire::Join &request);
  llvm::Expected<sojourn::wire::Message> borrow(const wire::Borrow &request);
  llvm::Expected<sojourn::wire::Message> nameValues(const wire::NameValues &request);
  llvm::Expected<sojourn::wire::Message> listValues(const wire::ListValues &request, uint64_t connection);
  llvm::Expected<sojourn::wire::Message> takeValues(const wire::TakeValues &request);
  llvm::Expected<sojourn::wire::Message> releaseNames(const wire::ReleaseNames &request);
  uint8_t readsOf(const LabelPtr &label);
  /// Values of another session of the same client, as they stand.
  struct Lent {
    std::vector<Handle> handles;
    bool isOfGroup = false; ///< the session that has them
  };
  llvm::Expected<Lent> lent(const wire::Borrow &request);
  llvm::Error checkBorrow(const wire::Borrow &request, const Lent &lent, const Session &to) const;
  static llvm::Error checkAudience(const std::vector<Handle> &handles, const Group &to);
  llvm::Expected<std::vector<ProgramRecord>> programs(bool withText, const std::string &prefix = "");
  /// Before any lock is taken.
  llvm::Error checkOpen() const {
    if (process.isElsewhere()) {
      return requestError(wire::ErrorCode_Refused,
                          "this owner was " + process.text() +
                              ". A step would be charged once and run twice: open another owner here (several "
                              "processes may share one store), or use this one only in the process that opened it");
    }
    return problem.empty() ? llvm::Error::success() : failure(problem);
  }
  void tell(const llvm::Twine &text) const {
    std::lock_guard lock(mutex);
    if (environment.log) {
      environment.log(text.str());
    }
  }

  const runtime::OwnProcess process;
  std::string problem; ///< set by the constructor only
  std::unique_ptr<Handshake> handshake;
  std::shared_ptr<Peers> peers;
  std::optional<Certificate> ownCertificate; ///< of an owner without a folder, once it was asked for
  AccountLines refusals{kRefusalLines, kRefusalMs, "requests refused", "to"};
  AccountLines opened{kSessionLines, kSessionLineMs, "sessions opened", "for"};
  /// Lists of datasets as replies, by the tables that they show; of the list in the catalogue that was read last.
  struct {
    std::shared_ptr<const std::vector<DatasetRecord>> of;
    std::map<std::vector<const DatasetRecord *>, sojourn::wire::Message> replies;
    size_t bytes = 0; ///< of the replies
  } lists;
  Openings openings{limits.anonymousSessionsPerMinute};
  std::atomic<uint64_t> requests = 0, steps = 0;
  std::array<std::atomic<uint64_t>, Figures::kCodes> refusedCodes{};
  const std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_OWNERSTATE_H
