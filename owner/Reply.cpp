// SPDX-License-Identifier: Apache-2.0
// Building replies with FlatBuffers.
#include "owner/Reply.h"

#include "dialect/Bounds.h"
#include "owner/Limits.h"
#include "owner/Text.h"
#include "runtime/Limits.h"
#include "runtime/wire/Step.h"

#include <limits>

namespace sojourn::owner {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

namespace {

Message finish(FlatBufferBuilder &builder, wire::ReplyBody kind, Offset<void> body) {
  builder.Finish(wire::CreateReply(builder, kind, body), wire::RequestIdentifier());
  auto kept = std::make_shared<const flatbuffers::DetachedBuffer>(builder.Release());
  return {{reinterpret_cast<const char *>(kept->data()), kept->size()}, kept};
}

Offset<flatbuffers::String> text(FlatBufferBuilder &builder, const std::string &value) {
  return builder.CreateString(printable(value, runtime::limits::kErrorTextBytes));
}

Offset<wire::Error> errorBody(FlatBufferBuilder &builder, const RequestError &error) {
  auto message = text(builder, error.message), location = text(builder, error.location), op = text(builder, error.op);
  return wire::CreateError(builder, error.code, message, location, op);
}

Offset<wire::Error> errorBody(FlatBufferBuilder &builder, const std::optional<RequestError> &error) {
  return error ? errorBody(builder, *error) : Offset<wire::Error>();
}

Offset<wire::Column> columnBody(FlatBufferBuilder &builder, const Column &column) {
  static const Meaning none;
  const Meaning &meaning = column.meaning ? *column.meaning : none;
  auto name = text(builder, column.name);
  const Bounds bounds = column.bounds.value_or(Bounds{});
  // Absent vectors cost nothing on the wire.
  auto dims = column.dims.empty() ? Offset<flatbuffers::Vector<int64_t>>() : builder.CreateVector(column.dims);
  auto numbers =
      meaning.numbers.empty() ? Offset<flatbuffers::Vector<int64_t>>() : builder.CreateVector(meaning.numbers);
  auto texts = meaning.texts.empty() ? Offset<flatbuffers::Vector<Offset<flatbuffers::String>>>()
                                     : builder.CreateVectorOfStrings(meaning.texts);
  return wire::CreateColumn(builder, name, static_cast<uint8_t>(column.element), column.bounds.has_value(),
                            bounds.lower, bounds.upper, dims, texts, numbers, static_cast<uint8_t>(meaning.unit),
                            meaning.fill.has_value(), meaning.fill.value_or(0));
}

} // namespace

Message errorReply(const RequestError &error) {
  FlatBufferBuilder builder;
  return finish(builder, wire::ReplyBody_Error, errorBody(builder, error).Union());
}

Message welcomeReply(uint64_t session, const std::string &limitsText, const std::string &account,
                     const signing::PublicKey *key) {
  FlatBufferBuilder builder;
  auto name = builder.CreateString("sojourn"), limits = builder.CreateString(limitsText);
  auto who = account.empty() ? Offset<flatbuffers::String>() : text(builder, account);
  auto own = key ? builder.CreateVector(key->data(), key->size()) : Offset<flatbuffers::Vector<uint8_t>>();
  auto body = wire::CreateWelcome(builder, session, name, limits, who, own);
  return finish(builder, wire::ReplyBody_Welcome, body.Union());
}

Message challengeReply(const Handshake::Challenge &challenge, const signing::PublicKey &owner) {
  FlatBufferBuilder builder;
  auto bytes = builder.CreateVector(reinterpret_cast<const uint8_t *>(challenge.bytes.data()), challenge.bytes.size());
  auto key = builder.CreateVector(owner.data(), owner.size());
  auto signature = builder.CreateVector(challenge.signature.data(), challenge.signature.size());
  auto body = wire::CreateChallenge(builder, bytes, key, signature);
  return finish(builder, wire::ReplyBody_Challenge, body.Union());
}

Message datasetsReply(llvm::ArrayRef<const DatasetRecord *> records) {
  FlatBufferBuilder builder;
  std::vector<Offset<wire::Dataset>> datasets;
  for (const DatasetRecord *each : records) {
    const DatasetRecord &record = *each;
    std::vector<Offset<wire::Column>> columns;
    for (const Column &column : record.columns) {
      columns.push_back(columnBody(builder, column));
    }
    auto name = text(builder, record.name), policy = text(builder, policyName(record.policy)),
         version = text(builder, record.version);
    auto columnsVector = builder.CreateVector(columns);
    std::vector<Offset<flatbuffers::String>> tags;
    for (const std::string &tag : record.description.tags) {
      tags.push_back(text(builder, tag));
    }
    auto description =
        record.description.text.empty() ? Offset<flatbuffers::String>() : builder.CreateString(record.description.text);
    auto tagsVector =
        tags.empty() ? Offset<flatbuffers::Vector<Offset<flatbuffers::String>>>() : builder.CreateVector(tags);
    datasets.push_back(wire::CreateDataset(builder, name, record.rows, columnsVector, policy, version,
                                           record.defaults.noiseMultiplier, record.defaults.clip,
                                           record.defaults.metricBound, description, tagsVector));
  }
  auto body = wire::CreateDatasets(builder, builder.CreateVector(datasets));
  return finish(builder, wire::ReplyBody_Datasets, body.Union());
}

Message programsReply(const std::vector<ProgramRecord> &records, bool withText) {
  FlatBufferBuilder builder;
  std::vector<Offset<wire::ProgramInfo>> programs;
  size_t count = std::min(records.size(), kListedPrograms);
  for (auto at = records.end() - static_cast<ptrdiff_t>(count); at != records.end(); ++at) {
    if (builder.GetSize() > kReplyBytes / 2) {
      break;
    }
    auto hash = builder.CreateVector(at->hash.data(), at->hash.size());
    auto code = withText ? builder.CreateString(at->text) : Offset<flatbuffers::String>();
    auto client = text(builder, at->client);
    auto privacy = withText && !at->privacy.empty() ? builder.CreateString(at->privacy) : Offset<flatbuffers::String>();
    programs.push_back(wire::CreateProgramInfo(builder, hash, at->runs, at->ops, code, client, privacy));
  }
  auto body = wire::CreatePrograms(builder, builder.CreateVector(programs));
  return finish(builder, wire::ReplyBody_Programs, body.Union());
}

Message needProgramReply() {
  FlatBufferBuilder builder;
  return finish(builder, wire::ReplyBody_NeedProgram, wire::CreateNeedProgram(builder).Union());
}

Message receivedReply(size_t bytes) {
  FlatBufferBuilder builder;
  return finish(builder, wire::ReplyBody_Received, wire::CreateReceived(builder, bytes).Union());
}

Message committedReply(uint32_t steps, const std::optional<RequestError> &failure) {
  FlatBufferBuilder builder;
  auto error = errorBody(builder, failure);
  return finish(builder, wire::ReplyBody_Committed, wire::CreateCommitted(builder, steps, error).Union());
}

Message progressReply(uint32_t steps) {
  FlatBufferBuilder builder;
  return finish(builder, wire::ReplyBody_Progress, wire::CreateProgress(builder, steps).Union());
}

Message namedValuesReply(llvm::ArrayRef<NamedValueInfo> values, llvm::ArrayRef<uint8_t> reads, int64_t leaseMs) {
  FlatBufferBuilder builder;
  std::vector<Offset<wire::NamedValue>> all;
  for (size_t at = 0; at < values.size(); ++at) {
    const NamedValueInfo &value = values[at];
    auto name = text(builder, value.name);
    std::vector<Offset<flatbuffers::String>> tags;
    for (const std::string &tag : value.tags) {
      tags.push_back(text(builder, tag));
    }
    auto tagsVector = builder.CreateVector(tags);
    auto dims = builder.CreateVector(value.type.dims.data(), value.type.dims.size()),
         strides = builder.CreateVector(value.strides), shape = builder.CreateVector(value.shape);
    all.push_back(wire::CreateNamedValue(builder, name, tagsVector, static_cast<uint8_t>(value.type.element), dims,
                                         strides, value.type.bytes(), value.namedMs, value.usedMs, reads[at], shape));
  }
  auto body = wire::CreateNamedValues(builder, builder.CreateVector(all), leaseMs);
  return finish(builder, wire::ReplyBody_NamedValues, body.Union());
}

Message joinedReply(bool masked) {
  FlatBufferBuilder builder;
  return finish(builder, wire::ReplyBody_Joined, wire::CreateJoined(builder, masked).Union());
}

Message doneReply(llvm::ArrayRef<const runtime::HostTensor *> published, const PrivacyReport &report) {
  size_t bytes = 0;
  for (const runtime::HostTensor *tensor : published) {
    bytes += tensor->type.bytes();
  }
  DoneReply reply(1, published.size(), bytes);
  reply.add(published, report);
  return reply.finish(std::nullopt);
}

// A builder that grows copies what it holds.
DoneReply::DoneReply(size_t steps, size_t published, size_t bytes) : builder(1024 + steps * roomFor(published, bytes)) {
  tensors.reserve(steps * published);
}

size_t DoneReply::roomFor(size_t published, size_t bytes) {
  return bytes + published * (bounds::kRank * sizeof(int64_t) + 128);
}

void DoneReply::add(llvm::ArrayRef<const runtime::HostTensor *> published, const PrivacyReport &report) {
  if (broken) { // a step before this one could not be added
    ++count;
    return;
  }
  broken = true; // until the end
  for (const runtime::HostTensor *tensor : published) {
    auto data = builder.CreateVector(static_cast<const uint8_t *>(tensor->buffer->data()), tensor->type.bytes());
    sojourn::wire::countCopied(tensor->type.bytes());
    auto dims = builder.CreateVector(tensor->type.dims.data(), tensor->type.dims.size());
    tensors.push_back(wire::CreateTensor(builder, static_cast<uint8_t>(tensor->type.element), dims, data));
  }
  const ReleaseNote unknown{std::numeric_limits<double>::quiet_NaN(), "", ""};
  if (!report.releases.empty()) {
    releases.resize(tensors.size() - published.size(), unknown);
    releases.insert(releases.end(), report.releases.begin(), report.releases.end());
  }
  notes.insert(notes.end(), report.notes.begin(), report.notes.end());
  for (const ReleaseNote &note : report.releases) {
    extra += note.receipt.size() + note.text.size();
  }
  for (const std::string &note : report.notes) {
    extra += note.size();
  }
  ++count;
  broken = false;
}

Message DoneReply::finish(const std::optional<RequestError> &failure) {
  std::vector<Offset<wire::ReleaseInfo>> releaseOffsets;
  if (!releases.empty()) {
    releases.resize(tensors.size(), ReleaseNote{std::numeric_limits<double>::quiet_NaN(), "", ""});
  }
  for (const ReleaseNote &note : releases) {
    auto receipt = builder.CreateVector(reinterpret_cast<const uint8_t *>(note.receipt.data()), note.receipt.size());
    releaseOffsets.push_back(wire::CreateReleaseInfo(builder, note.error, receipt, builder.CreateString(note.text)));
  }
  std::vector<Offset<flatbuffers::String>> noteOffsets;
  for (const std::string &note : notes) {
    noteOffsets.push_back(text(builder, note));
  }
  // Absent vectors cost nothing on the wire.
  auto vector = [&](auto &list) {
    return list.empty() ? decltype(builder.CreateVector(list))() : builder.CreateVector(list);
  };
  auto error = errorBody(builder, failure);
  auto tensorVector = builder.CreateVector(tensors);
  auto releaseVector = vector(releaseOffsets);
  auto noteVector = vector(noteOffsets);
  auto body = wire::CreateDone(builder, tensorVector, releaseVector, noteVector, count, error);
  return sojourn::owner::finish(builder, wire::ReplyBody_Done, body.Union());
}

Message budgetReply(const BudgetInfo &info) {
  FlatBufferBuilder builder;
  auto body = wire::CreateBudget(builder, text(builder, info.dataset), info.granted, info.epsilon, info.delta,
                                 info.epsilonLeft, info.commonLeft);
  return finish(builder, wire::ReplyBody_Budget, body.Union());
}

} // namespace sojourn::owner
