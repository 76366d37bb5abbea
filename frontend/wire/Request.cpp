// SPDX-License-Identifier: Apache-2.0
#include "frontend/wire/Request.h"

namespace sojourn::frontend {

Failure errorOf(const schema::Error &error) {
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

void raiseReply(const schema::Reply &reply) {
  if (const schema::Error *error = reply.body_as_Error()) {
    Failure failure = errorOf(*error);
    throw Error(failure.kind, failure.text);
  }
  throw Error(ErrorKind::OwnerError, std::string("the owner answered with ") +
                                         schema::EnumNameReplyBody(reply.body_type()) + ", expected another reply");
}

std::string textOf(const flatbuffers::String *text) { return text ? text->str() : std::string(); }

} // namespace sojourn::frontend
