// SPDX-License-Identifier: Apache-2.0
// Requests out, verified replies in; error replies become the matching exception.
#include "frontend/Client.h"

#include "dialect/Version.h"
#include "runtime/wire/Messages_generated.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace sojourn::frontend {

namespace wire = sojourn_wire;

namespace {

constexpr uint32_t kProtocolVersion = 2;
constexpr uint32_t kProgramFormatVersion = 1;

std::atomic<size_t> uploadBytesInMessage{size_t{64} << 20}, uploadPartBytes{size_t{8} << 20};
constexpr int kAttempts = 4;
constexpr auto kPause = std::chrono::milliseconds(250);

class FunctionTransport final : public Transport {
public:
  FunctionTransport(std::string name, std::function<std::string(std::string_view)> handle)
      : name_(std::move(name)), handle_(std::move(handle)) {}
  CallStatus tryCall(std::string_view request, std::string &reply, std::string &) override {
    reply = handle_(request);
    return CallStatus::Answered;
  }
  std::string name() const override { return name_; }

private:
  std::string name_;
  std::function<std::string(std::string_view)> handle_;
};

[[noreturn]] void raiseReply(const wire::Error &error) {
  std::string message = error.message() ? error.message()->str() : "the owner gave no reason";
  if (error.op() && error.op()->size()) {
    message += " [op " + error.op()->str() + "]";
  }
  if (error.location() && error.location()->size()) {
    message += " [" + error.location()->str() + "]";
  }
  switch (error.code()) {
  case wire::ErrorCode_Version: raise(ErrorKind::VersionMismatch, message);
  case wire::ErrorCode_Refused: raise(ErrorKind::Refused, message);
  case wire::ErrorCode_Unsupported: raise(ErrorKind::Unsupported, message);
  default: raise(ErrorKind::OwnerError, std::string(wire::EnumNameErrorCode(error.code())) + ": " + message);
  }
}

template <class Body>
std::string finish(flatbuffers::FlatBufferBuilder &builder, flatbuffers::Offset<Body> body) {
  auto request = wire::CreateRequest(builder, wire::RequestBodyTraits<Body>::enum_value, body.Union());
  builder.Finish(request, wire::RequestIdentifier());
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
}

const wire::Reply &parseReply(std::string_view bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size(),
                                 /*max_depth=*/16, /*max_tables=*/1 << 20);
  if (!verifier.VerifyBuffer<wire::Reply>(wire::RequestIdentifier())) {
    raise(ErrorKind::OwnerError, "the owner's reply of " + std::to_string(bytes.size()) +
                                     " bytes is not a Sojourn message; is the address an owner's?");
  }
  return *flatbuffers::GetRoot<wire::Reply>(bytes.data());
}

template <class Body>
const Body &expect(const wire::Reply &reply) {
  if (const wire::Error *error = reply.body_as_Error()) {
    raiseReply(*error);
  }
  const Body *body = reply.body_as<Body>();
  if (!body) {
    raise(ErrorKind::OwnerError, std::string("the owner answered with ") + wire::EnumNameReplyBody(reply.body_type()) +
                                     ", expected another reply");
  }
  return *body;
}

std::string textOf(const flatbuffers::String *text) { return text ? text->str() : std::string(); }

} // namespace

std::unique_ptr<Transport> makeFunctionTransport(std::string name,
                                                 std::function<std::string(std::string_view)> handle) {
  return std::make_unique<FunctionTransport>(std::move(name), std::move(handle));
}

Client::Client(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}
Client::~Client() = default;

std::string Client::exchange(std::string_view request, const char *consequence) {
  ++roundTrips;
  bytesUp += request.size();
  std::string reply, failure;
  answers_ = transport_->tryCall(request, reply, failure) == CallStatus::Answered;
  if (!answers_) {
    raise(ErrorKind::ConnectionLost, failure + consequence + ": check the owner, then connect again");
  }
  bytesDown += reply.size();
  return reply;
}

void Client::hello() {
  flatbuffers::FlatBufferBuilder builder;
  std::string name = "pid " + std::to_string(getpid());
  std::string reply = exchange(finish(builder, wire::CreateHelloDirect(builder, kProtocolVersion, kProgramFormatVersion,
                                                                       kDialectVersion, name.c_str())));
  session_ = expect<wire::Welcome>(parseReply(reply)).session();
}

std::vector<DatasetInfo> Client::datasets() {
  flatbuffers::FlatBufferBuilder builder;
  std::string reply = exchange(finish(builder, wire::CreateListDatasets(builder)));
  const auto &body = expect<wire::Datasets>(parseReply(reply));
  std::vector<DatasetInfo> all;
  if (!body.datasets()) {
    return all;
  }
  for (const wire::Dataset *dataset : *body.datasets()) {
    DatasetInfo info{
        textOf(dataset->name()), dataset->rows(), {}, textOf(dataset->policy()), textOf(dataset->version())};
    if (dataset->columns()) {
      for (const wire::Column *column : *dataset->columns()) {
        if (column->element() > static_cast<uint8_t>(Element::c128)) {
          raise(ErrorKind::OwnerError, "the owner describes a column of unknown element type");
        }
        ColumnInfo entry{textOf(column->name()), static_cast<Element>(column->element()), std::nullopt, {}};
        if (column->bounded()) {
          entry.bounds = {column->lower(), column->upper()};
        }
        if (column->dims()) {
          entry.dims.assign(column->dims()->begin(), column->dims()->end());
        }
        info.columns.push_back(std::move(entry));
      }
    }
    all.push_back(std::move(info));
  }
  return all;
}

CallStatus Client::trySendPart(uint64_t number, const TensorBytes &tensor, uint64_t offset, size_t length,
                               std::string &reply, std::string &failure) {
  flatbuffers::FlatBufferBuilder builder(length + 256);
  auto data = builder.CreateVector(tensor.data.data() + offset, length);
  std::string request =
      finish(builder, wire::CreateUpload(builder, session_, number, tensor.data.size(), offset, data));
  ++uploadParts;
  bytesUp += request.size();
  CallStatus status = transport_->tryCall(request, reply, failure);
  answers_ = status == CallStatus::Answered;
  bytesDown += reply.size();
  return status;
}

void Client::sendAhead(StepCall &call) {
  call.sentAhead.assign(call.uploads.size(), 0);
  // The largest go ahead until the others fit: few requests, and small ones ride along.
  size_t total = 0;
  std::vector<size_t> order(call.uploads.size());
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
    total += call.uploads[i].data.size();
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return call.uploads[a].data.size() > call.uploads[b].data.size(); });
  for (size_t k = 0; k < order.size() && total > uploadBytesInMessage; ++k) {
    const TensorBytes &tensor = call.uploads[order[k]];
    total -= tensor.data.size();
    call.sentAhead[order[k]] = ++lastUpload_;
    sendWhole(lastUpload_, tensor);
  }
}

void Client::sendWhole(uint64_t number, const TensorBytes &tensor) {
  uint64_t size = tensor.data.size(), stands = 0;
  int failures = 0;
  while (stands < size) {
    // After a failure it asks first: a part may have arrived though its answer did not.
    size_t length = failures > 0 ? 0 : std::min<size_t>(uploadPartBytes, size - stands);
    std::string reply, failure;
    CallStatus status = trySendPart(number, tensor, stands, length, reply, failure);
    if (status != CallStatus::Answered) {
      // Who does not answer in time will not do so sooner when asked again.
      if (status == CallStatus::TimedOut || ++failures == kAttempts) {
        raise(ErrorKind::ConnectionLost, failure + "; an upload was under way: check the owner, then connect again");
      }
      std::this_thread::sleep_for(kPause);
      continue;
    }
    uint64_t received = expect<wire::Received>(parseReply(reply)).bytes();
    if (received > size || received < stands + length) {
      raise(ErrorKind::OwnerError, "the owner says that it has " + std::to_string(received) + " of " +
                                       std::to_string(size) + " bytes of an upload, " +
                                       std::to_string(stands + length) + " were sent");
    }
    stands = received;
    failures = 0;
  }
}

void Client::dropSentAhead(const StepCall &call) {
  for (uint64_t number : call.sentAhead) {
    std::string reply, failure;
    // Where nobody answers, the session's end drops them.
    if (!answers_) {
      return;
    }
    if (number) {
      trySendPart(number, {}, 0, 0, reply, failure);
    }
  }
}

std::optional<std::vector<OwnedTensor>> Client::step(const StepCall &call) {
  flatbuffers::FlatBufferBuilder builder(1024);
  auto bytes = [&](std::string_view view) {
    return builder.CreateVector(reinterpret_cast<const uint8_t *>(view.data()), view.size());
  };
  // Absent vectors cost nothing on the wire.
  auto optional = [&](const std::vector<uint64_t> &values) {
    return values.empty() ? flatbuffers::Offset<flatbuffers::Vector<uint64_t>>() : builder.CreateVector(values);
  };
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> program, debug;
  if (call.withProgram) {
    // Nested buffers are read in place: keep their own alignment.
    builder.ForceVectorAlignment(call.program.size(), 1, 8);
    program = bytes(call.program);
    builder.ForceVectorAlignment(call.debug.size(), 1, 8);
    debug = bytes(call.debug);
  }
  std::vector<flatbuffers::Offset<wire::Tensor>> uploads;
  for (size_t i = 0; i < call.uploads.size(); ++i) {
    const TensorBytes &tensor = call.uploads[i];
    uint64_t ahead = call.sentAhead.empty() ? 0 : call.sentAhead[i];
    size_t inMessage = ahead ? 0 : tensor.data.size();
    builder.ForceVectorAlignment(inMessage, 1, 16);
    auto data = builder.CreateVector(tensor.data.data(), inMessage);
    auto dims = builder.CreateVector(tensor.dims);
    uploads.push_back(wire::CreateTensor(builder, static_cast<uint8_t>(tensor.element), dims, data, ahead));
  }
  auto uploadVector = uploads.empty() ? flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<wire::Tensor>>>()
                                      : builder.CreateVector(uploads);
  std::vector<flatbuffers::Offset<wire::TableBinding>> tables;
  for (const TableBinding &table : call.tables) {
    tables.push_back(wire::CreateTableBindingDirect(builder, table.name.c_str(), table.version.c_str()));
  }
  auto tableVector = tables.empty()
                         ? flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<wire::TableBinding>>>()
                         : builder.CreateVector(tables);
  auto hash = builder.CreateVector(call.hash.data(), call.hash.size());
  auto states = optional(call.states), slots = optional(call.slots), seeds = optional(call.seeds);
  auto results = optional(call.results), releases = optional(call.releases);
  std::string reply =
      exchange(finish(builder, wire::CreateStep(builder, session_, steps_ + 1, hash, program, debug, states,
                                                uploadVector, slots, seeds, tableVector, results, releases)),
               "; values of this step are unknown");
  const wire::Reply &parsed = parseReply(reply);
  if (parsed.body_type() == wire::ReplyBody_NeedProgram) {
    return std::nullopt;
  }
  const auto &done = expect<wire::Done>(parsed);
  ++steps_;
  std::vector<OwnedTensor> published;
  if (done.published()) {
    for (const wire::Tensor *tensor : *done.published()) {
      if (tensor->element() > static_cast<uint8_t>(Element::c128)) {
        raise(ErrorKind::OwnerError, "a published value came back with an unknown element type");
      }
      OwnedTensor owned{static_cast<Element>(tensor->element()), {}, {}};
      if (tensor->dims()) {
        owned.dims.assign(tensor->dims()->begin(), tensor->dims()->end());
      }
      if (tensor->data()) {
        owned.data.assign(reinterpret_cast<const char *>(tensor->data()->data()), tensor->data()->size());
      }
      published.push_back(std::move(owned));
    }
  }
  return published;
}

std::vector<ProgramSummary> Client::programs(bool withText) {
  flatbuffers::FlatBufferBuilder builder;
  std::string reply = exchange(finish(builder, wire::CreateListPrograms(builder, withText)));
  const auto &body = expect<wire::Programs>(parseReply(reply));
  std::vector<ProgramSummary> all;
  if (body.programs()) {
    for (const wire::ProgramInfo *info : *body.programs()) {
      ProgramSummary summary{{}, textOf(info->client()), textOf(info->text()), info->runs(), info->ops()};
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
  flatbuffers::FlatBufferBuilder builder;
  exchange(finish(builder, wire::CreateBye(builder, session_)));
}

} // namespace sojourn::frontend
