// SPDX-License-Identifier: Apache-2.0
// Requests out, verified replies in; error replies become the matching exception.
#include "frontend/wire/Client.h"

#include "dialect/Version.h"
#include "frontend/wire/Identity.h"
#include "frontend/wire/Request.h"
#include "runtime/wire/ReadCategories.h"
#include "runtime/Version.h"
#include "runtime/wire/Protocol.h"

#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace sojourn::frontend {

namespace {

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

void Client::hello(Identity *identity) {
  Request request(transport_->allocator());
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
  transport_->setSession(session_);
  account_ = textOf(body.account());
  saidKey_.reset();
  if (body.key() && body.key()->size() != sizeof(signing::PublicKey)) {
    throw Error(ErrorKind::OwnerError, "the owner states a key of " + std::to_string(body.key()->size()) +
                                           " bytes, expected " + std::to_string(sizeof(signing::PublicKey)) +
                                           "; ask the data owner");
  }
  if (body.key()) {
    std::copy(body.key()->begin(), body.key()->end(), saidKey_.emplace().begin());
  }
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
      identity.answer(nonce, view(challenge.challenge()), view(challenge.owner_key()), view(challenge.signature()),
                      transport_->certificate(), transport_->ownerKey());
  Request request(transport_->allocator());
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

std::string Client::drawNonce() {
  if (sodium_init() < 0) {
    throw Error(ErrorKind::Error, "libsodium cannot be used");
  }
  std::string nonce(32, '\0');
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

bool Client::join(uint8_t role, const std::string &nonce, const std::vector<signing::PublicKey> &keys) {
  Request request(transport_->allocator());
  std::vector<flatbuffers::Offset<schema::Member>> members;
  for (const signing::PublicKey &key : keys) {
    members.push_back(schema::CreateMember(request, request.CreateVector(key.data(), key.size())));
  }
  auto memberVector = request.CreateVector(members);
  auto nonceBytes = request.CreateVector(reinterpret_cast<const uint8_t *>(nonce.data()), nonce.size());
  Answer answer = exchange(request.finish(schema::CreateJoin(request, session_, role, nonceBytes, memberVector)));
  marks_ = true; // a member is asked to end a step that others do not run
  return expect<schema::Joined>(parseReply(answer.bytes)).masked();
}

void Client::borrow(uint64_t from, const std::vector<uint64_t> &handles, const std::vector<uint64_t> &as) {
  Request request(transport_->allocator());
  auto given = request.CreateVector(handles), names = request.CreateVector(as);
  Answer answer = exchange(request.finish(schema::CreateBorrow(request, session_, from, given, names)));
  expect<schema::Done>(parseReply(answer.bytes));
}

/// A name that people read.
static std::string nameOf(const flatbuffers::String *text) {
  std::string name = textOf(text);
  if (!isUtf8(name)) {
    throw Error(ErrorKind::OwnerError, "the owner describes a table with a name that is not UTF-8 text");
  }
  return name;
}

std::vector<DatasetInfo> Client::datasets(const TableSearch &search) {
  Answer answer = ask([&](auto &request) {
    const auto given = [&](const std::string &text) {
      return text.empty() ? flatbuffers::Offset<flatbuffers::String>() : request.CreateString(text);
    };
    auto text = given(search.text), tag = given(search.tag);
    auto columns = search.columns.empty()
                       ? flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>>()
                       : request.CreateVectorOfStrings(search.columns);
    finishRequest(request, schema::CreateListDatasets(request, session_, text, tag, columns));
  });
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
                     {dataset->noise_multiplier(), dataset->clip(), dataset->metric_bound()},
                     nameOf(dataset->description()),
                     {}};
    if (dataset->tags()) {
      for (const flatbuffers::String *tag : *dataset->tags()) {
        info.tags.push_back(nameOf(tag));
      }
    }
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

/// A session ends once, however often it is asked: once more where the connection breaks. Returns why no answer came.
std::string Client::tryBye(flatbuffers::FlatBufferBuilder &first) {
  std::string failure;
  ++roundTrips;
  bytesUp += first.GetSize();
  Answer answer;
  CallStatus status = transport_->tryCall(bytesOf(first), answer, failure);
  if (status == CallStatus::Broken) {
    Request again(transport_->allocator());
    again.finish(schema::CreateBye(again, session_));
    ++roundTrips;
    bytesUp += again.GetSize();
    status = transport_->tryCall(bytesOf(again), answer, failure);
  }
  bytesDown += answer.bytes.size();
  return status == CallStatus::Answered ? "" : failure;
}

void Client::bye() {
  Request request(transport_->allocator());
  request.finish(schema::CreateBye(request, session_));
  if (open_.empty()) {
    if (std::string failure = tryBye(request); !failure.empty()) {
      throw Error(ErrorKind::ConnectionLost, failure + ": check the owner, then connect again");
    }
    return;
  }
  // The owner may be at a step that was left alone. It reads this after it; the client need not wait for that.
  ++roundTrips;
  bytesUp += request.GetSize();
  Answer answer;
  std::string failure;
  int looks = 0;
  const CallStatus status = transport_->tryLongCall(bytesOf(request), answer, failure, [&] { return ++looks < 2; });
  if (status != CallStatus::Answered && status != CallStatus::TimedOut) {
    Request again(transport_->allocator()); // a session ends once, however often it is asked
    again.finish(schema::CreateBye(again, session_));
    exchange(again);
  }
}

} // namespace sojourn::frontend
