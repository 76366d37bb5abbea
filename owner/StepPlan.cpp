// SPDX-License-Identifier: Apache-2.0
// Plans of steps (see StepPlan.h).
#include "owner/StepPlan.h"

#include "owner/Reply.h"
#include "owner/StepBindings.h"
#include "owner/Text.h"
#include "owner/peers/Digest.h"
#include "runtime/Limits.h"

#include <cstring>
#include <vector>

namespace sojourn::owner {

using llvm::Twine;

/// Programs of at most this many bytes are planned in milliseconds.
static constexpr size_t kSmallProgramBytes = size_t{64} << 10;

static llvm::Expected<std::shared_ptr<const Plan>> planOf(OwnerBooks &books, StepMachine &machine, Session &session,
                                                          const wire::Step &request, const runtime::ProgramHash &hash,
                                                          RunningStep &running) {
  llvm::StringRef program = bytesOf(request.program()), debug = bytesOf(request.debug());
  if (program.size() > runtime::limits::kProgramBytes || debug.size() > runtime::limits::kDebugBytes) {
    return requestError(wire::ErrorCode_Limit, "the program has " + Twine(program.size()) +
                                                   " bytes and its debug table " + Twine(debug.size()) +
                                                   ", this owner takes up to " + Twine(runtime::limits::kProgramBytes) +
                                                   " each");
  }
  const PlanKey key{runtime::hashProgram(program), runtime::hashProgram(debug), session.role(request.masked())};
  if (key.program != hash) {
    return requestError(wire::ErrorCode_Malformed, "the program's bytes have hash " + runtime::toHex(key.program) +
                                                       ", the request says " + runtime::toHex(hash));
  }
  std::shared_ptr<const Plan> plan;
  {
    std::lock_guard lock(books.mutex);
    // A program that others have sent takes as long as a new one: the time would tell of it. The data owner's own
    // process sees all programs anyway.
    const bool isKnown = session.account == kLocalClient || session.programs.contains(hash);
    plan = isKnown ? books.plans.find(key) : nullptr;
  }
  std::vector<std::shared_ptr<const Plan>> gone; // destroyed when the mutex is free again
  const bool fresh = !plan;
  if (fresh) {
    const bool isSmall = program.size() + debug.size() <= kSmallProgramBytes;
    const Patience patience = machine.patience(session.group != nullptr);
    auto place = machine.queue.enter(session.account, isSmall ? StepQueue::Lane::small : StepQueue::Lane::large,
                                     machine.running, running, patience);
    if (!place) {
      return place.takeError();
    }
    machine.entering(Phase::planning);
    auto made = makePlan(machine.worker, program, debug, machine.limits.price, &running.flag(),
                         session.role(request.masked()), patience);
    if (!made) {
      return made.takeError();
    }
    plan = std::move(*made);
  }
  std::lock_guard lock(books.mutex);
  if (fresh) {
    gone = books.plans.insert(key, plan, session.account);
  }
  books.sessions.know(session, hash, key);
  return plan;
}

llvm::Expected<StepPlan> findStepPlan(OwnerBooks &books, StepMachine &machine, Session &session,
                                      const wire::Step &request, RunningStep &running) {
  StepPlan found{};
  llvm::StringRef given = bytesOf(request.program_hash());
  if (given.size() != found.hash.size()) {
    return requestError(wire::ErrorCode_Malformed,
                        "program_hash has " + Twine(given.size()) + " bytes, expected " + Twine(found.hash.size()));
  }
  std::memcpy(found.hash.data(), given.data(), found.hash.size());
  if (!bytesOf(request.program()).empty()) {
    auto plan = planOf(books, machine, session, request, found.hash, running);
    if (!plan) {
      return plan.takeError();
    }
    found.plan = std::move(*plan);
    return found;
  }
  std::lock_guard lock(books.mutex);
  // A session may have sent it before it joined a group: its plan is of another part.
  if (auto known = session.programs.find(found.hash);
      known != session.programs.end() && known->second.role == session.role(request.masked())) {
    found.plan = books.plans.find(known->second);
  }
  return found;
}

llvm::Error checkStepSize(const wire::Step &request, const runtime::ProgramFacts &facts, const Limits &limits) {
  const size_t steps = 1 + length(request.repetitions());
  if (steps > kStepsPerMessage) {
    return requestError(wire::ErrorCode_Limit, "the message has " + Twine(steps) + " steps, this owner takes up to " +
                                                   Twine(kStepsPerMessage) + " at once; send them in several messages");
  }
  if (facts.publishBytes > limits.replyBytes) {
    return requestError(wire::ErrorCode_Limit, "the step publishes " + Twine(facts.publishBytes) +
                                                   " bytes, this owner's replies hold up to " +
                                                   Twine(limits.replyBytes) + "; publish in several steps");
  }
  const size_t each = DoneReply::roomFor(facts.publishes, facts.publishBytes);
  if (steps > 1 && each > limits.replyBytes / steps) {
    return requestError(wire::ErrorCode_Limit, "a reply to " + Twine(steps) + " steps takes " + Twine(each * steps) +
                                                   " bytes, this owner's hold up to " + Twine(limits.replyBytes) +
                                                   "; send fewer steps in a message");
  }
  return llvm::Error::success();
}

llvm::Error openJoint(std::optional<JointMessage> &joint, const Session &session, const wire::Step &request,
                      size_t messageBytes, RunningStep &running, const Limits &limits) {
  if (!session.group) {
    return request.masked() ? requestError(wire::ErrorCode_Malformed, "a step with masks is one of a group")
                            : llvm::Error::success();
  }
  auto digest = digestOf(request, messageBytes, [&](uint64_t number) {
    auto upload = session.uploads.find(number);
    return upload == session.uploads.end() || !upload->second.content ? MessageDigest{} : upload->second.content->get();
  });
  if (!digest) {
    return digest.takeError();
  }
  const size_t steps = std::min<size_t>(1 + length(request.repetitions()), UINT32_MAX);
  joint.emplace(*session.group, StepPoint{request.sequence(), request.attempt()}, *digest, steps, request.masked(),
                running.flag(), std::chrono::milliseconds(limits.memberWaitMs));
  return llvm::Error::success();
}

void refuseJoint(OwnerBooks &books, const wire::Step &request, RequestError &refusal) {
  std::lock_guard lock(books.mutex);
  const Session *own = books.sessions.look(request.session());
  if (refusal.code != wire::ErrorCode_Limit || !own || !own->group) {
    return;
  }
  refusal.code = wire::ErrorCode_Busy;
  if (own->users == 0) {
    own->group->refuse({request.sequence(), request.attempt()}, static_cast<uint8_t>(refusal.code));
  }
}

} // namespace sojourn::owner
