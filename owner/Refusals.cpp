// SPDX-License-Identifier: Apache-2.0
// Refused requests as lines of the log.
#include "owner/Refusals.h"

#include "owner/Limits.h"
#include "owner/Text.h"

#include "llvm/ADT/StringRef.h"

#include <algorithm>

namespace sojourn::owner {

/// Names of tables that a line shows, and bytes of each.
static constexpr size_t kNamedTables = 8, kNamedBytes = 64;

/// One line, of at most so many bytes.
static std::string lineOf(llvm::StringRef text, size_t bytes) {
  std::string line = printable(text, bytes);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return line;
}

static std::string nameOf(const flatbuffers::String *name) {
  std::string text = "'";
  text += lineOf(name ? llvm::StringRef(name->data(), name->size()) : llvm::StringRef(), kNamedBytes);
  return text + "'";
}

static std::string tablesOf(const wire::Step &step) {
  std::string text;
  const size_t count = step.tables() ? step.tables()->size() : 0;
  for (size_t at = 0; at < std::min(count, kNamedTables); ++at) {
    text += (at ? ", " : "") + nameOf(step.tables()->Get(static_cast<flatbuffers::uoffset_t>(at))->name());
  }
  return count > kNamedTables ? text + " and " + std::to_string(count - kNamedTables) + " more" : text;
}

RefusedRequest::RefusedRequest(const wire::Step &step)
    : kind("Step"), session(step.session()), tables(tablesOf(step)) {}

RefusedRequest::RefusedRequest(const wire::Request &request) : kind(wire::EnumNameRequestBody(request.body_type())) {
  auto called = [&](const flatbuffers::String *client) { said = nameOf(client); };
  switch (request.body_type()) {
  case wire::RequestBody_Hello: called(request.body_as_Hello()->client()); break;
  case wire::RequestBody_Prove: called(request.body_as_Prove()->client()); break;
  case wire::RequestBody_Step: *this = RefusedRequest(*request.body_as_Step()); break;
  case wire::RequestBody_Release: session = request.body_as_Release()->session(); break;
  case wire::RequestBody_Upload: session = request.body_as_Upload()->session(); break;
  case wire::RequestBody_Watch: session = request.body_as_Watch()->session(); break;
  case wire::RequestBody_ListDatasets: session = request.body_as_ListDatasets()->session(); break;
  case wire::RequestBody_GetBudget:
    session = request.body_as_GetBudget()->session();
    tables = nameOf(request.body_as_GetBudget()->dataset());
    break;
  case wire::RequestBody_NameValues: session = request.body_as_NameValues()->session(); break;
  case wire::RequestBody_ListValues: session = request.body_as_ListValues()->session(); break;
  case wire::RequestBody_TakeValues: session = request.body_as_TakeValues()->session(); break;
  case wire::RequestBody_ReleaseNames: session = request.body_as_ReleaseNames()->session(); break;
  default: break;
  }
}

std::string refusalText(const RefusedRequest &request, const std::string &client, const RequestError &error) {
  std::string text = "request refused: ";
  text += wire::EnumNameErrorCode(error.code);
  text += " to " + (!client.empty()        ? client
                    : request.said.empty() ? "a client without a session"
                                           : "a client without a session that calls itself " + request.said);
  text += ", " + (request.kind.empty() ? "an unreadable request" : request.kind);
  text += request.tables.empty() ? "" : " on " + request.tables;
  if (!error.op.empty() || !error.location.empty()) {
    text += " at " + error.op + (error.op.empty() || error.location.empty() ? "" : ", ") + error.location;
  }
  return lineOf(text + ": " + error.message, kRefusalBytes);
}

} // namespace sojourn::owner
