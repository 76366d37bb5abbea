// SPDX-License-Identifier: Apache-2.0
// Steps of a client and their uploads: each step runs once, however often its message is sent or arrives.
#include "frontend/Interrupt.h"
#include "frontend/wire/Client.h"
#include "frontend/wire/Request.h"
#include "frontend/wire/Retry.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

namespace sojourn::frontend {

namespace {

std::atomic<size_t> uploadBytesInMessage{size_t{64} << 20}, uploadPartBytes{size_t{8} << 20};
/// Of a message without an answer, in case it is to be told whether the owner ran it; longer ones are not kept.
constexpr size_t kOpenBytesMost = size_t{1} << 20;
/// Numbers that other messages may have used up unheard.
constexpr int kNumbersMost = 1000;

/// What to do about a step whose answer never came.
constexpr const char *kUnknown =
    ". It is unknown whether the owner ran the step: values kept at the owner are as before it or as after it, and its "
    "results are lost. Publish a value that shows which (a parameter, a step counter) before you repeat the step, or "
    "connect again and start from a checkpoint";

bool isBusyReply(const Answer &answer) {
  const schema::Error *error = parseReply(answer.bytes).body_as_Error();
  return error && error->code() == schema::ErrorCode_Busy;
}

} // namespace

/// For what may be asked twice.
Answer Client::ask(const std::function<void(flatbuffers::FlatBufferBuilder &)> &finish) {
  Retry retry(transport_->timeoutMs());
  for (;;) {
    Request request(transport_->allocator());
    finish(request);
    ++roundTrips;
    bytesUp += request.GetSize();
    Answer answer;
    std::string failure;
    answers_ = false;
    const CallStatus status = transport_->tryCall(bytesOf(request), answer, failure);
    answers_ = status == CallStatus::Answered;
    if (answers_) {
      bytesDown += answer.bytes.size();
      return answer;
    }
    if (!retry.again(status)) {
      throw Error(ErrorKind::ConnectionLost, failure + ": check the owner, then connect again");
    }
  }
}

CallStatus Client::trySendPart(uint64_t number, std::span<const uint8_t> data, uint64_t offset, size_t length,
                               Answer &answer, std::string &failure) {
  Request request(transport_->allocator(), length + 256);
  auto part = request.CreateVector(data.data() + offset, length);
  wire::countCopied(length);
  request.finish(schema::CreateUpload(request, session_, number, data.size(), offset, part));
  ++uploadParts;
  bytesUp += request.GetSize();
  answers_ = false;
  CallStatus status = transport_->tryCall(bytesOf(request), answer, failure);
  answers_ = status == CallStatus::Answered;
  bytesDown += answer.bytes.size();
  return status;
}

void Client::sendAhead(wire::Step &step) {
  left_.reset(); // of an earlier message
  // The largest go ahead until the others fit: few requests, and small ones ride along.
  size_t total = 0;
  std::vector<wire::TensorView *> order;
  for (wire::TensorView &tensor : step.uploads) {
    total += tensor.data.size();
    order.push_back(&tensor);
  }
  std::stable_sort(order.begin(), order.end(), [](auto *a, auto *b) { return a->data.size() > b->data.size(); });
  for (size_t k = 0; k < order.size() && total > uploadBytesInMessage; ++k) {
    total -= order[k]->data.size();
    if (order[k]->sentAhead == 0) { // else by an earlier attempt at the step
      order[k]->sentAhead = ++lastUpload_;
      sendWhole(lastUpload_, order[k]->data);
    }
  }
}

void Client::sendWhole(uint64_t number, std::span<const uint8_t> data) {
  uint64_t size = data.size(), stands = 0;
  Retry retry(transport_->timeoutMs());
  bool asks = false;
  while (stands < size) {
    // After a failure it asks first: a part may have arrived though its answer did not.
    size_t length = asks ? 0 : std::min<size_t>(uploadPartBytes, size - stands);
    Answer answer;
    std::string failure;
    CallStatus status = trySendPart(number, data, stands, length, answer, failure);
    if (status != CallStatus::Answered) {
      // Who does not answer in time will not do so sooner when asked again.
      if (status == CallStatus::TimedOut || !retry.again(status)) {
        throw Error(ErrorKind::ConnectionLost, failure + "; an upload was in progress, and the step that needs it was "
                                                         "not sent: check the owner, then connect again");
      }
      asks = true;
      continue;
    }
    uint64_t received = expect<schema::Received>(parseReply(answer.bytes)).bytes();
    if (received > size || received < stands + length) {
      throw Error(ErrorKind::OwnerError, "the owner reports that it has " + std::to_string(received) + " of " +
                                             std::to_string(size) + " bytes of an upload, but " +
                                             std::to_string(stands + length) + " were sent");
    }
    stands = received;
    retry.reset();
    asks = false;
  }
}

void Client::dropSentAhead(wire::Step &step) {
  for (wire::TensorView &upload : step.uploads) {
    Answer answer;
    std::string failure;
    const uint64_t number = std::exchange(upload.sentAhead, 0);
    if (number != 0 && answers_) { // without an answer, the session's end drops them
      trySendPart(number, {}, 0, 0, answer, failure);
    }
  }
}

/// Steps of the message under way that have committed; nothing if the owner does not say.
std::optional<uint64_t> Client::look(bool stop) {
  ++looks;
  try {
    Request request(transport_->allocator());
    request.finish(schema::CreateWatch(request, session_, stop, mark_));
    Answer answer;
    std::string failure;
    if (transport_->tryCall(bytesOf(request), answer, failure) == CallStatus::Answered) {
      return expect<schema::Progress>(parseReply(answer.bytes)).steps();
    }
  } catch (...) {
    // The step is under way; its own reply will say what is wrong. A transport in Python may raise anything.
    if (takeInterruptNote()) {
      interruption_ = std::current_exception();
    }
  }
  return std::nullopt;
}

void Client::endUnderway() const noexcept {
  try {
    const uint64_t mark = mark_;
    if (mark == 0) {
      return;
    }
    const std::unique_ptr<Transport> way = transport_->another();
    way->setSession(session_);
    Request request(way->allocator());
    request.finish(schema::CreateWatch(request, session_, /*stop=*/true, mark));
    Answer answer;
    std::string failure;
    way->tryCall(bytesOf(request), answer, failure);
  } catch (...) { // the owner may be gone; the step's own reply says so
    if (takeInterruptNote()) {
      interruptLater(std::current_exception());
    }
  }
}

CallStatus Client::tryStep(const wire::Step &step, const StepFollower *follow, Answer &answer, std::string &failure) {
  Request request(transport_->allocator(), wire::encodedBound(step));
  request.finish(wire::encode(request, step));
  ++roundTrips;
  bytesUp += request.GetSize();
  CallStatus status;
  left_.reset();
  answers_ = false;
  if (step.repetitions.empty()) {
    status = transport_->tryCall(bytesOf(request), answer, failure);
  } else {
    bool stop = false;
    uint64_t steps = 0;
    auto heard = std::chrono::steady_clock::now();
    std::optional<std::chrono::steady_clock::time_point> interrupted;
    takeInterruptNote();
    status = transport_->tryLongCall(bytesOf(request), answer, failure, [&] {
      auto now = std::chrono::steady_clock::now();
      if (!stop && follow && !(*follow)(steps)) {
        stop = true;
        interrupted = takeInterruptNote() ? std::optional(now) : std::nullopt;
      }
      if (auto found = look(stop); found && *found != steps) {
        steps = *found;
        heard = now;
      }
      // A step that goes on for long is left alone.
      if (interruption_ || (interrupted && now - *interrupted >= kInterruptGrace)) {
        left_ = steps;
        return false;
      }
      return transport_->timeoutMs() == 0 || now - heard < std::chrono::milliseconds(transport_->timeoutMs());
    });
  }
  answers_ = status == CallStatus::Answered;
  if (answers_) {
    left_.reset();
  }
  bytesDown += answer.bytes.size();
  if (interruption_) {
    std::exception_ptr interruption = std::exchange(interruption_, nullptr);
    if (!answers_) {
      std::rethrow_exception(interruption);
    }
    interruptLater(interruption);
  }
  return status;
}

void Client::leaveOpen(const wire::Step &step) {
  unknown_ = true;
  tried_ = std::max(tried_, step.sequence);
  Open &open = open_.emplace_back();
  open.sequence = step.sequence;
  if (step.repetitions.empty()) { // of several it is unknown how many ran
    open.results = step.results;
    open.releases = step.releases;
  }
  if (const size_t room = wire::encodedBound(step); room <= kOpenBytesMost) {
    flatbuffers::FlatBufferBuilder bytes(room);
    finishRequest(bytes, wire::encode(bytes, step));
    open.bytes = bytesOf(bytes);
  }
  marks_ = true;
}

/// What became of the messages that had a number which the owner says is used up: at most one of them ran.
void Client::settle(uint64_t sequence) {
  std::vector<Open> candidates;
  std::erase_if(open_, [&](Open &open) {
    const bool had = open.sequence == sequence;
    if (had) {
      candidates.push_back(std::move(open));
    }
    return had;
  });
  size_t ran = candidates.size() == 1 ? 0 : candidates.size();
  // The same bytes are answered from memory, others are refused.
  for (size_t at = 0; at < candidates.size() && ran == candidates.size(); ++at) {
    Answer answer;
    std::string failure;
    Request request(transport_->allocator(), candidates[at].bytes.size() + 64);
    if (candidates[at].bytes.empty()) {
      continue;
    }
    request.PushBytes(reinterpret_cast<const uint8_t *>(candidates[at].bytes.data()), candidates[at].bytes.size());
    ++roundTrips;
    if (transport_->tryCall(
            std::string_view(reinterpret_cast<const char *>(request.GetCurrentBufferPointer()), request.GetSize()),
            answer, failure) != CallStatus::Answered) {
      return; // what they left at the owner stays until the session ends
    }
    const schema::ReplyBody body = parseReply(answer.bytes).body_type();
    ran = body == schema::ReplyBody_Done || body == schema::ReplyBody_Committed ? at : ran;
  }
  for (size_t at = 0; ran < candidates.size() && at < candidates.size(); ++at) {
    const std::vector<uint64_t> &left = at == ran ? candidates[at].results : candidates[at].releases;
    orphans_.insert(orphans_.end(), left.begin(), left.end());
  }
}

/// This message has its number; others that had it did not run and cannot any more.
void Client::settleOthers(uint64_t sequence) {
  std::erase_if(open_, [&](const Open &open) {
    if (open.sequence == sequence) {
      orphans_.insert(orphans_.end(), open.releases.begin(), open.releases.end());
    }
    return open.sequence == sequence;
  });
}

const schema::Reply *Client::askForStep(const wire::Step &step, const StepFollower *follow, Answer &answer) {
  std::string failure;
  CallStatus status = CallStatus::NotSent;
  bool sent = false, repeated = false, isOpen = false;
  Retry retry(transport_->timeoutMs());
  try {
    do {
      repeated = sent;
      status = tryStep(step, follow, answer, failure);
      sent = sent || status == CallStatus::TimedOut || status == CallStatus::Broken;
      // A copy that finds the owner busy does not say whether an earlier one ran.
      isOpen = repeated && status == CallStatus::Answered && isBusyReply(answer);
    } while ((status != CallStatus::Answered || isOpen) && !left_ && retry.again(isOpen ? CallStatus::Broken : status));
  } catch (const Error &error) {
    if (error.kind() == ErrorKind::ConnectionLost || sent) {
      leaveOpen(step);
    }
    throw;
  } catch (...) {
    leaveOpen(step); // an interruption, or what a transport raises
    throw;
  }
  if (status != CallStatus::Answered && left_.value_or(0) > 0) {
    return nullptr;
  }
  if (status != CallStatus::Answered) {
    if (sent) {
      leaveOpen(step);
    }
    throw Error(ErrorKind::ConnectionLost,
                failure + (sent ? kUnknown : "; the step was not sent: check the owner, then connect again"));
  }
  const schema::Reply &reply = parseReply(answer.bytes);
  const schema::Error *error = reply.body_as_Error();
  if (isOpen) {
    leaveOpen(step);
    throw Error(ErrorKind::ConnectionLost, "the owner is busy (" + textOf(error->message()) + ")" + kUnknown);
  }
  if (repeated && error && error->code() == schema::ErrorCode_Session) {
    // An owner that has started anew remembers no step of this session.
    leaveOpen(step);
    throw Error(ErrorKind::ConnectionLost,
                "the owner no longer knows this session (" + textOf(error->message()) + ")" + kUnknown);
  }
  marks_ = marks_ || repeated; // a copy may arrive late
  return &reply;
}

StepReply Client::step(wire::Step &step, const StepFollower *follow) {
  step.session = session_;
  unknown_ = false;
  // An owner tells messages of one number apart by their bytes, and those of two steps may be equal once one was lost;
  // a request to stop names the message that it means.
  step.mark = marks_ || !step.repetitions.empty() ? ++marked_ : 0;
  mark_ = step.mark;
  StepReply reply;
  const schema::Reply *answered = nullptr;
  // After a step without an answer the owner may stand at any of the numbers tried since. From the lowest up: a number
  // is left for the next only if the owner has used it up, so that no copy of this message, however late, can run
  // beside it.
  for (step.sequence = sequence_ + 1;; ++step.sequence) {
    answered = askForStep(step, follow, reply.answer);
    if (!answered) { // the rest of it goes on alone
      settleOthers(step.sequence);
      sequence_ = tried_ = step.sequence;
      reply.kind = StepReply::Kind::Committed;
      reply.steps = static_cast<uint32_t>(std::min<uint64_t>(*left_, step.count()));
      reply.isOpen = reply.steps < step.count();
      return reply;
    }
    const schema::Error *error = answered->body_as_Error();
    const std::string text =
        error && error->code() == schema::ErrorCode_Malformed ? textOf(error->message()) : std::string();
    const bool isUsed = text.find("already committed with other content") != std::string::npos ||
                        (step.sequence <= tried_ && text.find("sequence number") != std::string::npos);
    if (!isUsed || step.sequence > tried_ + kNumbersMost) {
      break;
    }
    settle(step.sequence);
    sequence_ = step.sequence;
    tried_ = std::max(tried_, sequence_);
  }
  const schema::Reply &parsed = *answered;
  bool committed = parsed.body_type() == schema::ReplyBody_Done || parsed.body_type() == schema::ReplyBody_Committed;
  if (committed) {
    settleOthers(step.sequence);
    sequence_ = tried_ = step.sequence;
  }
  if (parsed.body_type() == schema::ReplyBody_NeedProgram) {
    reply.kind = StepReply::Kind::NeedProgram;
    return reply;
  }
  auto setSteps = [&](uint32_t steps, const schema::Error *failed) {
    if (steps == 0 || steps > step.count()) {
      throw Error(ErrorKind::OwnerError, "the owner reports " + std::to_string(steps) + " of " +
                                             std::to_string(step.count()) + " steps as committed");
    }
    reply.steps = steps;
    if (failed) {
      Failure failure = errorOf(*failed);
      reply.failure = {failure.kind, std::move(failure.text)};
    }
  };
  if (parsed.body_type() == schema::ReplyBody_Committed) {
    reply.kind = StepReply::Kind::Committed;
    setSteps(parsed.body_as_Committed()->steps(), parsed.body_as_Committed()->failure());
    return reply;
  }
  const auto &done = expect<schema::Done>(parsed);
  setSteps(done.steps(), done.failure());
  if (done.published()) {
    for (const schema::Tensor *tensor : *done.published()) {
      if (std::string problem = wire::decode(*tensor, reply.published.emplace_back()); !problem.empty()) {
        throw Error(ErrorKind::OwnerError, "a published value is malformed: " + problem);
      }
    }
  }
  if (done.releases()) {
    for (const schema::ReleaseInfo *info : *done.releases()) {
      StepReply::Release &release = reply.releases.emplace_back();
      release.error = info->error();
      release.text = textOf(info->text());
      if (info->receipt()) {
        release.receipt.assign(reinterpret_cast<const char *>(info->receipt()->data()), info->receipt()->size());
      }
    }
  }
  if (done.notes()) {
    for (const flatbuffers::String *note : *done.notes()) {
      reply.notes.push_back(note->str());
    }
  }
  return reply;
}

void setUploadBounds(size_t inMessage, size_t part) {
  uploadBytesInMessage = inMessage;
  uploadPartBytes = std::max<size_t>(part, 1);
}

} // namespace sojourn::frontend
