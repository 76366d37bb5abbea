// SPDX-License-Identifier: Apache-2.0
// One of the steps of a message, in the session's turn: it commits all or nothing. A step is staged, booked, paid and
// applied before it runs, and lands once it has run. Until then its destructor takes all of it back; of several steps
// the last one goes first.
#ifndef SOJOURN_OWNER_STEPRUN_H
#define SOJOURN_OWNER_STEPRUN_H

#include "owner/PrivateStep.h"
#include "owner/Reply.h"
#include "owner/StepBindings.h"
#include "owner/StepCopies.h"
#include "owner/OwnerBooks.h"
#include "owner/StepMachine.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/MathExtras.h"

#include <optional>

namespace sojourn::owner {

class StepRun {
public:
  StepRun(OwnerBooks &books, StepMachine &machine, const wire::Step &request, const StepPart &part,
          const runtime::ProgramHash &hash, Session &session, const std::shared_ptr<const Plan> &plan,
          size_t messageBytes)
      : books(books), machine(machine), request(request), binds(part), hash(hash), session(session), plan(plan),
        messageBytes(messageBytes) {}
  ~StepRun();
  /// Binds and checks. On an error nothing has changed. `first`: the step of the same call of the worker that was
  /// checked there, of which this one must have the code; null: itself.
  llvm::Error stage(const StepRun *first);
  uint64_t operations() const { return privacy ? privacy->operations() : plan->facts.operations; }
  /// Memory of the run on `threads` threads, in bytes.
  size_t runBytes(unsigned threads) const {
    const size_t bytes = privacy ? privacy->runBytes(threads) : plan->facts.memory.bytes(threads);
    return plan->facts.joint ? llvm::SaturatingAdd(bytes, StepCopies::memoryOf(plan->facts)) : bytes;
  }
  /// Settles everything that could make the commit fail, or reserves it. Takes the owner's mutex.
  llvm::Error book();
  /// Of a step on private tables, after the worker's checks if it is the first of its call.
  llvm::Error pay(unsigned threads, bool isFirst);
  /// The session as it is after the step. Takes the owner's mutex.
  void apply();
  /// Whether the next step of the message may be staged before this one has run.
  bool letsOthersFollow() const;
  /// Whether a release of it is sealed when it has run, which is a write to the disk.
  bool sealsRelease() const { return privacy && privacy->sealsRelease(); }
  /// It is admitted and paid: the session's worker may read its tables.
  void admitTables() const { bound->admitTables(/*isReadable=*/true); }
  /// Memory that a call of several steps keeps until its end, in bytes: values that the step replaces or releases, if
  /// older than `since`, its published values, copies of its uploads. For an applied step.
  size_t extraBytes(uint64_t since) const;
  const CodeRef &code() const { return privacy ? privacy->code() : *plan->code; }
  /// For the worker. `drops`: values that the step replaces or releases, as far as they were made by steps since
  /// `since`.
  RunPart part(uint64_t since, bool isPrivate) const;
  /// For a run of which nothing is kept (WorkerStub::rehearse), and the arguments that are made up for it: tables, and
  /// values that were computed from rows.
  RunPart rehearsal() const;
  std::vector<unsigned> privateArguments() const;
  const BoundWords &words() const { return bound->bound; }
  /// Whether the tables could be read during the run.
  llvm::Error checkFiles() const { return bound->checkFiles(); }
  /// Of a joint step that has run.
  StepCopies copies(RanParts::Part &ran) { return {session.worker, plan->facts, fresh, ran, notes}; }
  /// Adds what leaves to the reply; `committed` is called with the commit, under the owner's mutex. Fails only where
  /// there is a release to seal, or, for want of memory, where it is alone in its call.
  llvm::Error land(RanParts::Part &ran, bool isAlone, DoneReply &reply, llvm::function_ref<void()> committed);
  /// Whether a budget was charged.
  bool isCharged() const { return privacy && privacy->isCharged(); }
  /// Returns the payment of a step that did not begin.
  void putBack() noexcept {
    if (privacy) {
      privacy->putBack();
    }
  }

private:
  llvm::Error bind(bool follows);
  llvm::Error checkResults();
  llvm::Error checkOwnTables() const;
  llvm::Error checkRoom();
  llvm::Error checkReleases();
  llvm::Error checkPublishes();
  void noteKept(llvm::function_ref<Policy(const Source &)> policyOf);
  PrivacyReport report() const;
  void keep();
  uint64_t copiesAt(size_t result) const;
  void commit(Memory &memory);

  OwnerBooks &books;
  StepMachine &machine;
  const wire::Step &request;
  const StepPart binds;
  const runtime::ProgramHash &hash;
  Session &session;
  const std::shared_ptr<const Plan> &plan;
  const size_t messageBytes;
  std::optional<StepBindings> bound;
  std::vector<LabelPtr> resultLabels;
  std::vector<std::string> notes;     ///< for the client
  std::optional<PrivateStep> privacy; ///< of a step on private tables
  std::vector<uint64_t> asked;        ///< handles that it releases
  std::vector<uint64_t> releases;     ///< they, once they are marked
  size_t keepBytes = 0;               ///< of the values that it keeps
  size_t reserved = 0;                ///< of Sessions::holdings, until the commit or the end
  std::vector<uint64_t> kept;         ///< new handles, until the commit or the end
  std::vector<uint64_t> others;       ///< of a joint step, likewise: of values that other members have
  /// Per result the number of its new value, 0 where it is published; empty once it has landed.
  std::vector<uint64_t> fresh;
  /// States that were replaced, with their values of before.
  struct Replaced {
    Handle *state;
    uint64_t id;
    LabelPtr label;
    uint64_t copiesAt;
  };
  std::vector<Replaced> replaced;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_STEPRUN_H
