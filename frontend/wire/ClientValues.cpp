// SPDX-License-Identifier: Apache-2.0
// Requests about values with names.
#include "frontend/wire/Client.h"
#include "frontend/wire/Request.h"

namespace sojourn::frontend {

Answer Client::askOfNames(const std::function<void(flatbuffers::FlatBufferBuilder &)> &finish) {
  Answer answer = ask(finish);
  const auto *error = parseReply(answer.bytes).body_as<schema::Error>();
  const std::string text = error ? textOf(error->message()) : "";
  if (text.starts_with("unknown kind of request")) {
    throw Error(ErrorKind::Unsupported, "the owner at " + transport_->name() +
                                            " is of an older release, which has no names for values; keep the values "
                                            "in one session, or ask the data owner for a newer release");
  }
  // A mistake of the script, which the owner is the one to see.
  if (error && (error->code() == schema::ErrorCode_Handle || error->code() == schema::ErrorCode_Malformed)) {
    throw Error(ErrorKind::Error, text);
  }
  return answer;
}

void Client::nameValues(const std::vector<NameRequest> &values) {
  Answer answer = askOfNames([&](auto &request) {
    std::vector<flatbuffers::Offset<schema::NameEntry>> entries;
    for (const NameRequest &value : values) {
      auto name = request.CreateString(value.name);
      auto tags = request.CreateVectorOfStrings(value.tags);
      auto strides = request.CreateVector(value.strides), shape = request.CreateVector(value.shape);
      entries.push_back(schema::CreateNameEntry(request, value.handle, name, tags, strides, shape));
    }
    finishRequest(request, schema::CreateNameValues(request, session_, request.CreateVector(entries)));
  });
  expect<schema::Done>(parseReply(answer.bytes));
}

static std::vector<NamedValueInfo> readValues(const Answer &answer) {
  const auto &body = expect<schema::NamedValues>(parseReply(answer.bytes));
  std::vector<NamedValueInfo> all;
  for (size_t at = 0; body.values() && at < body.values()->size(); ++at) {
    const schema::NamedValue &value = *body.values()->Get(static_cast<flatbuffers::uoffset_t>(at));
    const std::optional<Element> element = elementOfNumber(value.element());
    if (!element) {
      throw Error(ErrorKind::OwnerError, "the owner describes a value of unknown element type");
    }
    NamedValueInfo info{
        .name = textOf(value.name()), .tags = {}, .element = *element, .dims = {}, .strides = {}, .shape = {}};
    if (!isUtf8(info.name)) {
      throw Error(ErrorKind::OwnerError, "the owner describes a value with a name that is not UTF-8 text");
    }
    for (size_t each = 0; value.tags() && each < value.tags()->size(); ++each) {
      info.tags.push_back(textOf(value.tags()->Get(static_cast<flatbuffers::uoffset_t>(each))));
      if (!isUtf8(info.tags.back())) {
        throw Error(ErrorKind::OwnerError, "the owner describes a value with a tag that is not UTF-8 text");
      }
    }
    if (value.dims()) {
      info.dims.assign(value.dims()->begin(), value.dims()->end());
    }
    if (value.strides()) {
      info.strides.assign(value.strides()->begin(), value.strides()->end());
    }
    if (value.shape()) {
      info.shape.assign(value.shape()->begin(), value.shape()->end());
    }
    info.bytes = value.bytes();
    info.namedMs = value.named_ms();
    info.usedMs = value.used_ms();
    info.leaseMs = body.lease_ms();
    info.reads = value.reads();
    all.push_back(std::move(info));
  }
  return all;
}

std::vector<NamedValueInfo> Client::namedValues(const std::string &tag) {
  return readValues(askOfNames([&](auto &request) {
    auto text = tag.empty() ? flatbuffers::Offset<flatbuffers::String>() : request.CreateString(tag);
    finishRequest(request, schema::CreateListValues(request, session_, text));
  }));
}

std::vector<NamedValueInfo> Client::takeValues(const std::vector<std::string> &names, const std::vector<uint64_t> &as) {
  std::vector<NamedValueInfo> taken = readValues(askOfNames([&](auto &request) {
    auto texts = request.CreateVectorOfStrings(names);
    auto ids = request.CreateVector(as);
    finishRequest(request, schema::CreateTakeValues(request, session_, texts, ids));
  }));
  if (taken.size() != names.size()) {
    throw Error(ErrorKind::OwnerError, "the owner describes " + std::to_string(taken.size()) + " values, expected " +
                                           std::to_string(names.size()));
  }
  return taken;
}

void Client::releaseNames(const std::vector<std::string> &names) {
  Answer answer = askOfNames([&](auto &request) {
    auto texts = request.CreateVectorOfStrings(names);
    finishRequest(request, schema::CreateReleaseNames(request, session_, texts));
  });
  expect<schema::Done>(parseReply(answer.bytes));
}

} // namespace sojourn::frontend
