// SPDX-License-Identifier: Apache-2.0
// Which failure is told, and values of all members as one (see JointReply.h).
#include "frontend/session/JointReply.h"

#include "frontend/Error.h"
#include "frontend/Interrupt.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace sojourn::frontend {

namespace {

/// Memory of a joint reply: those of the members, and values that were joined.
struct JointMemory {
  std::vector<Answer> answers;
  std::vector<std::unique_ptr<uint8_t[]>> joined;
};

/// Whether an error says that another member ended the step.
bool isOfPeer(const std::string &text) { return text.starts_with("Peer: "); }

std::string withName(const std::string &name, const std::string &text) { return "at " + name + ": " + text; }

/// The text of an error of an owner's; empty for others, and for none.
std::string textOf(const std::exception_ptr &failure) {
  try {
    if (failure) {
      std::rethrow_exception(failure);
    }
  } catch (const Error &error) {
    return error.text();
  } catch (...) {
  }
  return "";
}

/// How well the text says why the step failed.
int rankOf(const MemberOutcome &outcome, const std::string &text) {
  const bool isOfOther = isOfPeer(text) || text.starts_with("Busy: member ");
  return isOfOther ? 0 : outcome.isEnded && text.starts_with("Stopped: ") ? 1 : 2;
}

/// Rethrows an interruption, or what a transport of the client's own has raised.
void raiseInterruption(const std::vector<MemberOutcome> &outcomes) {
  for (const MemberOutcome &each : outcomes) {
    try {
      if (each.failure) {
        std::rethrow_exception(each.failure);
      }
    } catch (const Error &) { // of the owner
    }
  }
}

class Joining {
public:
  Joining(std::vector<MemberOutcome> &outcomes, JointMemory &memory) : outcomes_(outcomes), memory_(memory) {
    next_.resize(outcomes.size());
  }

  wire::TensorView take(const wire::PublishedPlace &result) {
    std::vector<const wire::TensorView *> parts(outcomes_.size());
    for (uint32_t role = 0; role < parts.size(); ++role) {
      if (result.place.isAt(role)) {
        const std::vector<wire::TensorView> &published = outcomes_[role].reply->published;
        if (next_[role] >= published.size()) {
          throw Error(ErrorKind::OwnerError, "a member of the group published fewer values than its part has");
        }
        parts[role] = &published[next_[role]++];
      }
    }
    switch (result.place.kind) {
    case wire::Place::Kind::All: return *parts[0];
    case wire::Place::Kind::At: return *parts[result.place.role];
    case wire::Place::Kind::Parts: return joined(result, parts);
    }
    return {};
  }

private:
  /// As [before, rows, stride], rows segment by segment.
  wire::TensorView joined(const wire::PublishedPlace &result, const std::vector<const wire::TensorView *> &parts) {
    int64_t rows = 0, elements = 1;
    std::vector<int64_t> rowsAt(parts.size());
    for (const wire::Place::Segment &segment : result.place.segments) {
      rows += segment.rows;
      rowsAt[segment.role] += segment.rows;
    }
    for (int64_t dim : result.dims) {
      elements *= dim;
    }
    const int64_t before = elements / (rows * result.place.stride);
    const wire::TensorView *first = parts[result.place.segments.front().role];
    const size_t width = byteWidth(static_cast<Element>(first->element));
    const size_t rowBytes = static_cast<size_t>(result.place.stride) * width;
    for (size_t role = 0; role < parts.size(); ++role) {
      const auto expected = static_cast<size_t>(before * rowsAt[role]) * rowBytes;
      if (!parts[role] || parts[role]->element != first->element || parts[role]->data.size() != expected) {
        throw Error(ErrorKind::OwnerError, "member " + std::to_string(role) + " of the group published " +
                                               std::to_string(parts[role] ? parts[role]->data.size() : 0) +
                                               " bytes of its rows of a value, expected " + std::to_string(expected));
      }
    }
    const auto bytes = static_cast<size_t>(elements) * width;
    memory_.joined.push_back(std::make_unique_for_overwrite<uint8_t[]>(std::max<size_t>(bytes, 1)));
    uint8_t *to = memory_.joined.back().get();
    std::vector<const uint8_t *> from;
    for (const wire::TensorView *part : parts) {
      from.push_back(part->data.data());
    }
    for (int64_t at = 0; at < before; ++at) { // each part is [before, its rows, stride], too
      for (const wire::Place::Segment &segment : result.place.segments) {
        const size_t length = static_cast<size_t>(segment.rows) * rowBytes;
        std::memcpy(to, from[segment.role], length);
        to += length;
        from[segment.role] += length;
      }
    }
    wire::countCopied(bytes);
    wire::TensorView view{first->element, result.dims, {memory_.joined.back().get(), bytes}, 0};
    return view;
  }

  std::vector<MemberOutcome> &outcomes_;
  JointMemory &memory_;
  std::vector<size_t> next_; ///< published value of each member
};

} // namespace

void raiseFailure(const std::vector<MemberOutcome> &outcomes, const std::vector<std::string> &names) {
  const MemberOutcome *shown = nullptr;
  std::string name;
  std::optional<Error> error;
  for (size_t role = 0; role < outcomes.size(); ++role) {
    if (!outcomes[role].failure) {
      continue;
    }
    try {
      std::rethrow_exception(outcomes[role].failure);
    } catch (const Error &found) {
      const bool isBetter = !shown || (error && rankOf(*shown, error->text()) < rankOf(outcomes[role], found.text()));
      if (isBetter) {
        shown = &outcomes[role];
        error = found;
        name = names[role];
      }
    } catch (...) { // an interruption, or what a transport raises
      shown = &outcomes[role];
      error.reset();
      break;
    }
  }
  if (shown && error) {
    throw Error(error->kind(), withName(name, error->text()));
  }
  if (shown) {
    std::rethrow_exception(shown->failure);
  }
}

bool isBusy(const std::exception_ptr &failure) { return textOf(failure).starts_with("Busy: "); }

bool areBusy(const std::vector<MemberOutcome> &outcomes) {
  const auto hasLetGo = [](const MemberOutcome &each) {
    const std::string text = textOf(each.failure);
    return !each.reply && !each.isUnknown &&
           (isOfPeer(text) || text.starts_with("Busy: ") || (each.isEnded && text.starts_with("Stopped: ")));
  };
  return std::all_of(outcomes.begin(), outcomes.end(), hasLetGo) &&
         std::any_of(outcomes.begin(), outcomes.end(), [](const MemberOutcome &each) { return isBusy(each.failure); });
}

/// Whether the wait for the answer was interrupted: the owner goes on, and its next answer tells what became of the
/// step.
static bool isInterrupted(const MemberOutcome &outcome) {
  if (outcome.isLeft || !outcome.failure) {
    return outcome.isLeft;
  }
  try {
    std::rethrow_exception(outcome.failure);
  } catch (const Error &error) {
    return error.text() == kInterruptedTogether;
  } catch (...) { // an interruption, or what a transport raises
    return true;
  }
}

bool areInterrupted(const std::vector<MemberOutcome> &outcomes) {
  return std::any_of(outcomes.begin(), outcomes.end(), isInterrupted) &&
         std::all_of(outcomes.begin(), outcomes.end(),
                     [](const MemberOutcome &each) { return !each.isUnknown || isInterrupted(each); });
}

StepReply jointReply(const wire::Step &step, std::vector<MemberOutcome> outcomes, const std::vector<std::string> &names,
                     bool &unknown) {
  const bool isAny = std::any_of(outcomes.begin(), outcomes.end(), [](auto &each) { return each.reply.has_value(); });
  const bool isAll = std::all_of(outcomes.begin(), outcomes.end(), [](auto &each) { return each.reply.has_value(); });
  unknown = std::any_of(outcomes.begin(), outcomes.end(), [](auto &each) { return each.isUnknown; });
  if (!isAny) {
    raiseFailure(outcomes, names);
  }
  auto sameSteps = [&](const MemberOutcome &each) { return each.reply->steps == outcomes[0].reply->steps; };
  const bool isLeft = areInterrupted(outcomes);
  if (!isAll || (!isLeft && !std::all_of(outcomes.begin(), outcomes.end(), sameSteps))) {
    unknown = true;
    raiseInterruption(outcomes);
    if (isLeft) {
      throw Error(ErrorKind::ConnectionLost, kInterruptedTogether);
    }
    std::string told;
    for (size_t role = 0; role < outcomes.size(); ++role) {
      const std::string reason = textOf(outcomes[role].failure);
      told += (role == 0 ? "" : ", ") + names[role] +
              (outcomes[role].reply ? " committed " + std::to_string(outcomes[role].reply->steps)
               : reason.empty()     ? " did not answer"
                                    : " failed (" + reason + ")");
    }
    throw Error(ErrorKind::ConnectionLost,
                "the members of the group do not tell the same of this step (" + told +
                    "): the group has ended, and its values with it; make a new one and start from a checkpoint");
  }
  StepReply reply;
  reply.steps = outcomes[0].reply->steps;
  for (const MemberOutcome &each : outcomes) { // one that was left may have committed more
    reply.isOpen = reply.isOpen || each.reply->steps != reply.steps;
    reply.steps = std::min(reply.steps, each.reply->steps);
  }
  auto memory = std::make_shared<JointMemory>();
  bool isOfOther = false; // the failure that is told names a member, whose reply says why
  for (size_t role = 0; role < outcomes.size(); ++role) {
    StepReply &own = *outcomes[role].reply;
    if (own.kind == StepReply::Kind::Committed) {
      reply.kind = StepReply::Kind::Committed;
    }
    reply.isOpen = reply.isOpen || own.isOpen;
    reply.notes.insert(reply.notes.end(), own.notes.begin(), own.notes.end());
    if (own.failure && (!reply.failure || (isOfOther && !isOfPeer(own.failure->text)))) {
      isOfOther = isOfPeer(own.failure->text);
      reply.failure = {own.failure->kind, withName(names[role], own.failure->text)};
    }
    memory->answers.push_back(std::move(own.answer));
  }
  Joining joining(outcomes, *memory);
  for (uint32_t at = 0; at < reply.steps && reply.kind == StepReply::Kind::Done; ++at) {
    for (const wire::PublishedPlace &result : step.places->published) {
      reply.published.push_back(joining.take(result));
    }
  }
  reply.answer.keep = std::move(memory);
  return reply;
}

} // namespace sojourn::frontend
