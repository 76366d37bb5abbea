// SPDX-License-Identifier: Apache-2.0
// Steps of one message that the worker runs in one call.
#ifndef SOJOURN_OWNER_STEPBATCH_H
#define SOJOURN_OWNER_STEPBATCH_H

#include "owner/Access.h"
#include "owner/ReplyTime.h"
#include "owner/StepRun.h"
#include "owner/peers/JointMessage.h"

#include <memory>
#include <optional>
#include <vector>

namespace sojourn::owner {

/// In the session's turn. The session is as after all of its steps from the time on that each is added; those that do
/// not land are taken back.
class StepBatch {
public:
  /// `reach`: private tables that the steps depend on; `time`: of the message. `joint`: the message of a group, whose
  /// steps each land before the next one has its first sums; null without a group.
  StepBatch(OwnerBooks &books, StepMachine &machine, const wire::Step &request, const runtime::ProgramHash &hash,
            Session &session, const std::shared_ptr<const Plan> &plan, size_t messageBytes, const PrivateReach &reach,
            ReplyTime &time, JointMessage *joint)
      : books(books), machine(machine), request(request), hash(hash), session(session), plan(plan),
        messageBytes(messageBytes), reach(reach), time(time), joint(joint), since(machine.worker.newId()) {}
  ~StepBatch();
  StepBatch(const StepBatch &) = delete;
  StepBatch &operator=(const StepBatch &) = delete;

  /// Stages, books and pays the next step, which waits for a place and memory if it is the first. On an error it is not
  /// added. `isFinal` is set where it must not be tried again: the log has it.
  llvm::Error add(const StepPart &part, bool &isFinal);
  /// Whether another step may be added.
  bool isOpen() const;
  size_t size() const { return steps.size(); }
  bool isCharged() const { return charged; }
  /// Runs and lands them, one after another; `committed` is called with each commit. None but the first begins after
  /// `withinUs` microseconds, 0: no matter when. Returns the error of the first that did not land; none where those
  /// that are left did not begin: then fewer have landed than the batch has.
  llvm::Error run(DoneReply &reply, uint64_t withinUs, llvm::function_ref<void()> committed);
  size_t landed() const { return landedCount; }

private:
  llvm::Error beginTime(const StepRun &step);
  size_t leasedExtra() const;
  llvm::Expected<int64_t> rehearse(const StepRun &step, bool isLoop);
  void logFailure(llvm::Error error) const;
  /// Of the reply, while the steps run.
  struct Landing {
    DoneReply &reply;
    llvm::function_ref<void()> committed;
  };
  llvm::Error land(RanParts::Part &ran, const Landing &landing);
  llvm::Expected<Memory> exchange(Memory frames, std::vector<RanParts::Part> done, WorkerPort &port,
                                  const Landing &landing);

  OwnerBooks &books;
  StepMachine &machine;
  const wire::Step &request;
  const runtime::ProgramHash &hash;
  Session &session;
  const std::shared_ptr<const Plan> &plan;
  const size_t messageBytes;
  const PrivateReach &reach;
  ReplyTime &time;
  JointMessage *const joint;
  const uint64_t since; ///< values of its steps have later numbers
  std::optional<StepQueue::Place> place;
  std::optional<MemoryBudget::Lease> memory;
  std::optional<ThreadBudget::Lease> threads;
  std::vector<std::unique_ptr<StepRun>> steps;
  size_t landedCount = 0;
  size_t extra = 0; ///< StepRun::extraBytes of all
  size_t extraMost = 0;
  bool isSent = false; ///< to the worker: coins may have been drawn
  bool charged = false;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_STEPBATCH_H
