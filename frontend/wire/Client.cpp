// SPDX-License-Identifier: Apache-2.0
// Requests out, verified replies in; error replies become the matching exception.
#include "frontend/wire/Client.h"

#include "dialect/Version.h"
#include "frontend/Error.h"
#include "frontend/wire/Identity.h"
#include "runtime/wire/Messages_generated.h"
#include "runtime/wire/ReadCategories.h"
#include "runtime/Version.h"
#include "runtime/wire/Protocol.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

namespace sojourn::frontend {

namespace schema = sojourn_wire;

namespace {

std::atomic<size_t> uploadBytesInMessage{size_t{64} << 20}, uploadPartBytes{size_t{8} << 20};
constexpr int kAttempts = 4;
constexpr auto kPause = std::chrono::milliseconds(250);

/// What to do about a step whose answer never came.
constexpr const char *kUnknown =
    ". It is unknown whether the owner ran the step: values kept at the owner are as before it or as after it, and its "
    "results are lost. Publish a value that shows which (a parameter, a step counter) before you repeat the step, or "
    "connect again and start from a checkpoint";

StepReply::Failure errorOf(const schema::Error &error) {
  std::string message = error.message() ? error.message()->str() : "the owner gave no reason";
  if (error.op() && error.op()->size()) {
    message += " [op " + error.op()->str() + "]";
  }
  if (error.location() && error.location()->size()) {
    message += " [" + error.location()->str() + "]";
  }
  switch (error.code()) {
  case schema::ErrorCode_Version: return {ErrorKind::VersionMismatch, message};
  case schema::ErrorCode_Refused: return {ErrorKind::Refused, message};
  case schema::ErrorCode_Budget: return {ErrorKind::BudgetExhausted, message};
  case schema::ErrorCode_Unsupported: return {ErrorKind::Unsupported, message};
  default: return {ErrorKind::OwnerError, std::string(schema::EnumNameErrorCode(error.code())) + ": " + message};
  }
}

/// A request in the transport's own memory, made large enough to never grow.
class Request : public flatbuffers::FlatBufferBuilder {
public:
  explicit Request(Transport &transport, size_t size = 1024)
      : FlatBufferBuilder(size, &transport.allocator(), /*own_allocator=*/false, /*buffer_minalign=*/16) {}
  template <class Body>
  Request &finish(flatbuffers::Offset<Body> body) {
    Finish(schema::CreateRequest(*this, schema::RequestBodyTraits<Body>::enum_value, body.Union()),
           schema::RequestIdentifier());
    return *this;
  }
};

std::string_view bytesOf(const flatbuffers::FlatBufferBuilder &request) {
  return {reinterpret_cast<const char *>(request.GetBufferPointer()), request.GetSize()};
}

const schema::Reply &parseReply(std::string_view bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size(),
                                 /*max_depth=*/16, /*max_tables=*/1 << 20);
  if (!verifier.VerifyBuffer<schema::Reply>(schema::RequestIdentifier())) {
    throw Error(ErrorKind::OwnerError,
                "the owner's reply of " + std::to_string(bytes.size()) +
                    " bytes is not a Sojourn message; check that the address belongs to an owner");
  }
  return *flatbuffers::GetRoot<schema::Reply>(bytes.data());
}

template <class Body>
const Body &expect(const schema::Reply &reply) {
  if (const schema::Error *error = reply.body_as_Error()) {
    StepReply::Failure failure = errorOf(*error);
    throw Error(failure.kind, failure.text);
  }
  const Body *body = reply.body_as<Body>();
  if (!body) {
    throw Error(ErrorKind::OwnerError, std::string("the owner answered with ") +
                                           schema::EnumNameReplyBody(reply.body_type()) + ", expected another reply");
  }
  return *body;
}

std::string textOf(const flatbuffers::String *text) { return text ? text->str() : std::string(); }

MeaningPtr meaningOf(const schema::Column &column, size_t &room) {
  Meaning meaning;
  std::string problem = wire::readCategories(column.categories(), column.category_numbers(), room, meaning);
  meaning.unit = unitOfNumber(column.unit());
  if (column.filled()) {
    meaning.fill = column.fill();
  }
  problem = problem.empty() ? problemOf(meaning) : problem;
  if (!problem.empty()) {
    throw Error(ErrorKind::OwnerError, "the owner describes a column that " + problem + "; ask the data owner");
  }
  return meaning.isEmpty() ? nullptr : std::make_shared<const Meaning>(std::move(meaning));
}

} // namespace

Client::Client(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}
Client::~Client() = default;

Answer Client::exchange(flatbuffers::FlatBufferBuilder &request) {
  ++roundTrips;
  bytesUp += request.GetSize();
  Answer answer;
  std::string failure;
  answers_ = transport_->tryCall(bytesOf(request), answer, failure) == CallStatus::Answered;
  if (!answers_) {
    throw Error(ErrorKind::ConnectionLost, failure + ": check the owner, then connect again");
  }
  bytesDown += answer.bytes.size();
  return answer;
}

void Client::hello(Identity *identity) {
  Request request(*transport_);
  std::string name = "pid " + std::to_string(getpid()), nonce = identity ? identity->draw() : "";
  std::string_view key = identity ? identity->publicKey() : std::string_view();
  auto bytes = [&](std::string_view text) {
    return text.empty() ? flatbuffers::Offset<flatbuffers::Vector<uint8_t>>()
                        : request.CreateVector(reinterpret_cast<const uint8_t *>(text.data()), text.size());
  };
  auto client = request.CreateString(name);
  auto keyBytes = bytes(key), nonceBytes = bytes(nonce);
  Answer answer = exchange(request.finish(schema::CreateHello(request, wire::kProtocolVersion, runtime::kFormatVersion,
                                                              kDialectVersion, client, keyBytes, nonceBytes)));
  if (identity) {
    prove(*identity, name, nonce, answer);
  } else {
    welcome(parseReply(answer.bytes));
  }
}

void Client::welcome(const schema::Reply &reply) {
  const auto &body = expect<schema::Welcome>(reply);
  session_ = body.session();
  account_ = textOf(body.account());
}

void Client::prove(Identity &identity, const std::string &name, const std::string &nonce, const Answer &answer) {
  const schema::Reply &reply = parseReply(answer.bytes);
  if (reply.body_type() == schema::ReplyBody_Welcome) {
    // A release before identities: it has opened a session of nobody.
    session_ = reply.body_as_Welcome()->session();
    bye();
    throw Error(
        ErrorKind::Refused,
        "the owner at " + transport_->name() +
            " does not support identities; connect without an identity, or ask the data owner for a newer release");
  }
  const auto &challenge = expect<schema::Challenge>(reply);
  auto view = [](const flatbuffers::Vector<uint8_t> *bytes) {
    return bytes ? std::string_view(reinterpret_cast<const char *>(bytes->data()), bytes->size()) : std::string_view();
  };
  std::string signature =
      identity.answer(nonce, view(challenge.challenge()), view(challenge.owner_key()), view(challenge.signature()));
  Request request(*transport_);
  auto bytes = [&](std::string_view text) {
    return request.CreateVector(reinterpret_cast<const uint8_t *>(text.data()), text.size());
  };
  auto client = request.CreateString(name);
  auto key = bytes(identity.publicKey()), nonceBytes = bytes(nonce), given = bytes(view(challenge.challenge())),
       signed_ = bytes(signature);
  Answer opened = exchange(request.finish(schema::CreateProve(request, client, key, nonceBytes, given, signed_)));
  welcome(parseReply(opened.bytes));
  try {
    identity.remember();
  } catch (...) {
    bye();
    throw;
  }
}

/// A name that people read.
static std::string nameOf(const flatbuffers::String *text) {
  std::string name = textOf(text);
  if (!isUtf8(name)) {
    throw Error(ErrorKind::OwnerError, "the owner describes a table with a name that is not UTF-8 text");
  }
  return name;
}

std::vector<DatasetInfo> Client::datasets() {
  Request request(*transport_);
  Answer answer = exchange(request.finish(schema::CreateListDatasets(request, session_)));
  const auto &body = expect<schema::Datasets>(parseReply(answer.bytes));
  std::vector<DatasetInfo> all;
  if (!body.datasets()) {
    return all;
  }
  size_t room = answer.bytes.size();
  for (const schema::Dataset *dataset : *body.datasets()) {
    DatasetInfo info{nameOf(dataset->name()),
                     dataset->rows(),
                     {},
                     nameOf(dataset->policy()),
                     nameOf(dataset->version()),
                     dataset->noise_multiplier(),
                     dataset->clip(),
                     dataset->metric_bound()};
    if (dataset->columns()) {
      for (const schema::Column *column : *dataset->columns()) {
        std::optional<Element> element = elementOfNumber(column->element());
        if (!element) {
          throw Error(ErrorKind::OwnerError, "the owner describes a column of unknown element type");
        }
        ColumnInfo entry{nameOf(column->name()), *element, std::nullopt, {}};
        if (column->bounded()) {
          entry.bounds = {column->lower(), column->upper()};
        }
        if (column->dims()) {
          entry.dims.assign(column->dims()->begin(), column->dims()->end());
        }
        entry.meaning = meaningOf(*column, room);
        info.columns.push_back(std::move(entry));
      }
    }
    all.push_back(std::move(info));
  }
  return all;
}

CallStatus Client::trySendPart(uint64_t number, std::span<const uint8_t> data, uint64_t offset, size_t length,
                               Answer &answer, std::string &failure) {
  Request request(*transport_, length + 256);
  auto part = request.CreateVector(data.data() + offset, length);
  wire::countCopied(length);
  request.finish(schema::CreateUpload(request, session_, number, data.size(), offset, part));
  ++uploadParts;
  bytesUp += request.GetSize();
  CallStatus status = transport_->tryCall(bytesOf(request), answer, failure);
  answers_ = status == CallStatus::Answered;
  bytesDown += answer.bytes.size();
  return status;
}

void Client::sendAhead(wire::Step &step) {
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
    order[k]->sentAhead = ++lastUpload_;
    sendWhole(lastUpload_, order[k]->data);
  }
}

void Client::sendWhole(uint64_t number, std::span<const uint8_t> data) {
  uint64_t size = data.size(), stands = 0;
  int failures = 0;
  while (stands < size) {
    // After a failure it asks first: a part may have arrived though its answer did not.
    size_t length = failures > 0 ? 0 : std::min<size_t>(uploadPartBytes, size - stands);
    Answer answer;
    std::string failure;
    CallStatus status = trySendPart(number, data, stands, length, answer, failure);
    if (status != CallStatus::Answered) {
      // Who does not answer in time will not do so sooner when asked again.
      if (status != CallStatus::Broken || ++failures == kAttempts) {
        throw Error(ErrorKind::ConnectionLost, failure + "; an upload was in progress, and the step that needs it was "
                                                         "not sent: check the owner, then connect again");
      }
      std::this_thread::sleep_for(kPause);
      continue;
    }
    uint64_t received = expect<schema::Received>(parseReply(answer.bytes)).bytes();
    if (received > size || received < stands + length) {
      throw Error(ErrorKind::OwnerError, "the owner reports that it has " + std::to_string(received) + " of " +
                                             std::to_string(size) + " bytes of an upload, but " +
                                             std::to_string(stands + length) + " were sent");
    }
    stands = received;
    failures = 0;
  }
}

void Client::dropSentAhead(const wire::Step &step) {
  for (const wire::TensorView &upload : step.uploads) {
    Answer answer;
    std::string failure;
    // Where nobody answers, the session's end drops them.
    if (!answers_) {
      return;
    }
    if (upload.sentAhead) {
      trySendPart(upload.sentAhead, {}, 0, 0, answer, failure);
    }
  }
}

/// Steps of the message under way that have committed; nothing if the owner does not say.
std::optional<uint64_t> Client::look(bool stop) {
  ++looks;
  try {
    Request request(*transport_);
    request.finish(schema::CreateWatch(request, session_, stop));
    Answer answer;
    std::string failure;
    if (transport_->tryCall(bytesOf(request), answer, failure) == CallStatus::Answered) {
      return expect<schema::Progress>(parseReply(answer.bytes)).steps();
    }
  } catch (...) {
    // The step is under way; its own reply will say what is wrong. A transport in Python may raise anything.
  }
  return std::nullopt;
}

CallStatus Client::tryStep(const wire::Step &step, const StepFollower *follow, Answer &answer, std::string &failure) {
  Request request(*transport_, wire::encodedBound(step));
  request.finish(wire::encode(request, step));
  ++roundTrips;
  bytesUp += request.GetSize();
  CallStatus status;
  if (step.repetitions.empty()) {
    status = transport_->tryCall(bytesOf(request), answer, failure);
  } else {
    bool stop = false;
    uint64_t steps = 0;
    auto heard = std::chrono::steady_clock::now();
    status = transport_->tryLongCall(bytesOf(request), answer, failure, [&] {
      stop = stop || (follow && !(*follow)(steps));
      auto now = std::chrono::steady_clock::now();
      if (auto found = look(stop); found && *found != steps) {
        steps = *found;
        heard = now;
      }
      return transport_->timeoutMs() == 0 || now - heard < std::chrono::milliseconds(transport_->timeoutMs());
    });
  }
  answers_ = status == CallStatus::Answered;
  bytesDown += answer.bytes.size();
  return status;
}

void Client::leaveOpen(const wire::Step &step) {
  unknown_ = true;
  tried_ = std::max(tried_, step.sequence);
  if (step.repetitions.empty()) {
    open_.push_back({step.sequence, step.results, step.releases});
  }
}

const schema::Reply &Client::askForStep(const wire::Step &step, const StepFollower *follow, Answer &answer) {
  std::string failure;
  CallStatus status = tryStep(step, follow, answer, failure);
  bool sent = status != CallStatus::NotSent, repeated = false;
  if (status == CallStatus::TimedOut || status == CallStatus::Broken) {
    std::this_thread::sleep_for(kPause);
    repeated = true;
    status = tryStep(step, follow, answer, failure);
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
  if (repeated && error && error->code() == schema::ErrorCode_Session) {
    // An owner that has started anew remembers no step of this session.
    leaveOpen(step);
    throw Error(ErrorKind::ConnectionLost,
                "the owner no longer knows this session (" + textOf(error->message()) + ")" + kUnknown);
  }
  return reply;
}

StepReply Client::step(wire::Step &step, const StepFollower *follow) {
  step.session = session_;
  unknown_ = false;
  StepReply reply;
  const schema::Reply *answered = nullptr;
  // After a step without an answer the owner may stand at any of the numbers tried since. From the
  // highest down: only the one that it expects can run, and none repeats a step that has run.
  for (step.sequence = std::max(tried_, sequence_) + 1;; --step.sequence) {
    answered = &askForStep(step, follow, reply.answer);
    const schema::Error *error = answered->body_as_Error();
    bool otherNumber = error && error->code() == schema::ErrorCode_Malformed &&
                       textOf(error->message()).find("sequence number") != std::string::npos;
    if (!otherNumber || step.sequence == sequence_ + 1) {
      break;
    }
    // The number before is not the owner's last: what had it did not run, and another step may have it next.
    std::erase_if(open_, [&](const Open &open) {
      const bool isOver = open.sequence == step.sequence - 1;
      if (isOver) {
        orphans_.insert(orphans_.end(), open.releases.begin(), open.releases.end());
      }
      return isOver;
    });
  }
  // The owner has run what has a lower number, and nothing else.
  for (const Open &open : std::exchange(open_, {})) {
    const std::vector<uint64_t> &left = open.sequence < step.sequence ? open.results : open.releases;
    orphans_.insert(orphans_.end(), left.begin(), left.end());
  }
  const schema::Reply &parsed = *answered;
  bool committed = parsed.body_type() == schema::ReplyBody_Done || parsed.body_type() == schema::ReplyBody_Committed;
  sequence_ = tried_ = committed ? step.sequence : step.sequence - 1;
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
      reply.failure = errorOf(*failed);
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

BudgetInfo Client::budget(const std::string &dataset, uint64_t endRun) {
  Request request(*transport_);
  Answer answer =
      exchange(request.finish(schema::CreateGetBudget(request, session_, request.CreateString(dataset), endRun)));
  const auto &body = expect<schema::Budget>(parseReply(answer.bytes));
  return {body.granted(), body.epsilon(), body.delta(), body.epsilon_left(), body.common_left()};
}

std::vector<ProgramSummary> Client::programs(bool withText) {
  Request request(*transport_);
  Answer answer = exchange(request.finish(schema::CreateListPrograms(request, withText)));
  const auto &body = expect<schema::Programs>(parseReply(answer.bytes));
  std::vector<ProgramSummary> all;
  if (body.programs()) {
    for (const schema::ProgramInfo *info : *body.programs()) {
      ProgramSummary summary{
          {}, textOf(info->client()), textOf(info->text()), textOf(info->privacy()), info->runs(), info->ops()};
      if (info->hash()) {
        summary.hash.assign(reinterpret_cast<const char *>(info->hash()->data()), info->hash()->size());
      }
      all.push_back(std::move(summary));
    }
  }
  return all;
}

void setUploadBounds(size_t inMessage, size_t part) {
  uploadBytesInMessage = inMessage;
  uploadPartBytes = std::max<size_t>(part, 1);
}

void Client::bye() {
  Request request(*transport_);
  exchange(request.finish(schema::CreateBye(request, session_)));
}

} // namespace sojourn::frontend
