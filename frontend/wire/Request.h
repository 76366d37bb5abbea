// SPDX-License-Identifier: Apache-2.0
// Requests in a transport's memory, and replies as they were checked: for the files of the client.
#ifndef SOJOURN_FRONTEND_WIRE_REQUEST_H
#define SOJOURN_FRONTEND_WIRE_REQUEST_H

#include "frontend/Error.h"
#include "runtime/wire/Messages_generated.h"

#include <string>
#include <string_view>

namespace sojourn::frontend {

namespace schema = sojourn_wire;

/// What an error reply says.
struct Failure {
  ErrorKind kind;
  std::string text;
};
Failure errorOf(const schema::Error &error);

template <class Body>
void finishRequest(flatbuffers::FlatBufferBuilder &builder, flatbuffers::Offset<Body> body) {
  builder.Finish(schema::CreateRequest(builder, schema::RequestBodyTraits<Body>::enum_value, body.Union()),
                 schema::RequestIdentifier());
}

/// A request in the transport's own memory, made large enough to never grow.
class Request : public flatbuffers::FlatBufferBuilder {
public:
  explicit Request(flatbuffers::Allocator &memory, size_t size = 1024)
      : FlatBufferBuilder(size, &memory, /*own_allocator=*/false, /*buffer_minalign=*/16) {}
  template <class Body>
  Request &finish(flatbuffers::Offset<Body> body) {
    finishRequest(*this, body);
    return *this;
  }
};

std::string_view bytesOf(const flatbuffers::FlatBufferBuilder &request);

/// Throws what is wrong with the bytes.
const schema::Reply &parseReply(std::string_view bytes);

/// Throws an error reply as the matching Error, and any other as one that was not expected.
[[noreturn]] void raiseReply(const schema::Reply &reply);

template <class Body>
const Body &expect(const schema::Reply &reply) {
  const Body *body = reply.body_as<Body>();
  if (!body) {
    raiseReply(reply);
  }
  return *body;
}

std::string textOf(const flatbuffers::String *text);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_WIRE_REQUEST_H
