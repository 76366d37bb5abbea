// SPDX-License-Identifier: Apache-2.0
// One of the steps of a message, in the session's turn: it commits all or nothing.
#ifndef SOJOURN_OWNER_STEPRUN_H
#define SOJOURN_OWNER_STEPRUN_H

#include "owner/PrivateStep.h"
#include "owner/Reply.h"
#include "owner/StepBindings.h"
#include "owner/OwnerBooks.h"
#include "owner/StepMachine.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>

namespace sojourn::owner {

class StepRun {
public:
  StepRun(OwnerBooks &books, StepMachine &machine, const wire::Step &request, const StepPart &part,
          const runtime::ProgramHash &hash, Session &session, const std::shared_ptr<const Plan> &plan,
          size_t messageBytes)
      : books(books), machine(machine), request(request), part(part), hash(hash), session(session), plan(plan),
        messageBytes(messageBytes) {}
  ~StepRun();
  /// Checks, runs, adds what leaves to the reply and commits; `committed` is called with the commit, under the owner's
  /// mutex. On an error nothing has changed, the reply apart.
  llvm::Error run(DoneReply &reply, llvm::function_ref<void()> committed);
  /// Whether a budget was charged.
  bool isCharged() const { return privacy && privacy->isCharged(); }

private:
  llvm::Error bind();
  llvm::Error book();
  llvm::Error checkResults();
  llvm::Error checkRoom();
  llvm::Error checkReleases();
  llvm::Error checkPublishes();
  void noteKept(llvm::function_ref<Policy(const Source &)> policyOf);
  llvm::Expected<RanParts::Part> ask(unsigned threads);
  PrivacyReport report() const;
  void keep();
  void commit();

  OwnerBooks &books;
  StepMachine &machine;
  const wire::Step &request;
  const StepPart &part;
  const runtime::ProgramHash &hash;
  Session &session;
  const std::shared_ptr<const Plan> &plan;
  const size_t messageBytes;
  std::optional<StepBindings> bound;
  std::vector<LabelPtr> resultLabels;
  std::vector<std::string> notes;     ///< for the client
  std::optional<PrivateStep> privacy; ///< of a step on private tables
  std::vector<uint64_t> releases;
  size_t keepBytes = 0;       ///< of the values that it keeps
  size_t reserved = 0;        ///< of Sessions::holdings, until the commit or the end
  std::vector<uint64_t> kept; ///< new handles, until the commit or the end
  /// Per result the number of its new value, 0 where it is published; empty once they are handles' values.
  std::vector<uint64_t> fresh;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_STEPRUN_H
