// SPDX-License-Identifier: Apache-2.0
// Requests out, verified replies in; error replies become the matching exception.
#include "frontend/wire/Client.h"

#include "dialect/Version.h"
#include "frontend/wire/Identity.h"
#include "frontend/wire/Request.h"
#include "frontend/wire/Retry.h"
#include "runtime/wire/ReadCategories.h"
#include "runtime/Version.h"
#include "runtime/wire/Protocol.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace sojourn::frontend {

namespace {

std::atomic<size_t> uploadBytesInMessage{size_t{64} << 20}, uploadPartBytes{size_t{8} << 20};

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
  answers_ = false; // nor after what interrupts it
  answers_ = transport_->tryCall(bytesOf(request), answer, failure) == CallStatus::Answered;
  if (!answers_) {
    throw Error(ErrorKind::ConnectionLost, failure + ": check the owner, then connect again");
  }
  bytesDown += answer.bytes.size();
  return answer;
}

/// For what may be asked twice.
Answer Client::ask(const std::function<void(flatbuffers::FlatBufferBuilder &)> &finish) {
  Retry retry(transport_->timeoutMs());
  for (;;) {
    Request request(*transport_);
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
  Answer answer = ask([&](auto &request) { finishRequest(request, schema::CreateListDatasets(request, session_)); });
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
  answers_ = false;
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

BudgetInfo Client::budget(const std::string &dataset, uint64_t endRun) {
  Answer answer = ask([&](auto &request) {
    finishRequest(request, schema::CreateGetBudget(request, session_, request.CreateString(dataset), endRun));
  });
  const auto &body = expect<schema::Budget>(parseReply(answer.bytes));
  return {body.granted(), body.epsilon(), body.delta(), body.epsilon_left(), body.common_left()};
}

std::vector<ProgramSummary> Client::programs(bool withText) {
  Answer answer = ask([&](auto &request) { finishRequest(request, schema::CreateListPrograms(request, withText)); });
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
  request.finish(schema::CreateBye(request, session_));
  if (open_.empty()) {
    exchange(request);
    return;
  }
  // The owner may be at a step that was left alone. It reads this after it; nobody need wait for that.
  ++roundTrips;
  bytesUp += request.GetSize();
  Answer answer;
  std::string failure;
  int looks = 0;
  const CallStatus status = transport_->tryLongCall(bytesOf(request), answer, failure, [&] { return ++looks < 2; });
  if (status != CallStatus::Answered && status != CallStatus::TimedOut) {
    throw Error(ErrorKind::ConnectionLost, failure + ": check the owner, then connect again");
  }
}

} // namespace sojourn::frontend
