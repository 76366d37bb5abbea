// SPDX-License-Identifier: Apache-2.0
// How a session begins: versions, the handshake of a client with an identity, the welcome.
#include "dialect/Version.h"
#include "owner/OwnerState.h"
#include "owner/Reply.h"
#include "owner/Text.h"
#include "runtime/Limits.h"
#include "runtime/Version.h"
#include "runtime/wire/Protocol.h"

namespace sojourn::owner {

using llvm::Twine;

llvm::Expected<sojourn::wire::Message> OwnerState::hello(const wire::Hello &request, Peer peer, uint64_t connection,
                                                         std::string_view certificate) {
  auto check = [](const char *what, uint32_t found, uint32_t oldest, uint32_t newest) {
    std::string range = std::to_string(oldest);
    range += oldest == newest ? "" : " to " + std::to_string(newest);
    return found >= oldest && found <= newest
               ? llvm::Error::success()
               : requestError(wire::ErrorCode_Version, "the client speaks " + Twine(what) + " version " + Twine(found) +
                                                           ", this owner reads " + range + "; use a matching release");
  };
  llvm::Error error =
      check("protocol", request.protocol_version(), sojourn::wire::kProtocolVersion, sojourn::wire::kProtocolVersion);
  error =
      error ? std::move(error)
            : check("program format", request.format_version(), runtime::kOldestFormatVersion, runtime::kFormatVersion);
  error =
      error ? std::move(error) : check("dialect", request.dialect_version(), kOldestDialectVersion, kDialectVersion);
  if (error) {
    return error;
  }
  if (request.identity() && request.identity()->size() > 0) {
    Handshake::Random random;
    {
      std::lock_guard lock(mutex);
      if (llvm::Error refused = openings.challenge(connection, environment.elapsedMs())) {
        return refused;
      }
      environment.randomBytes(random.data(), random.size());
    }
    auto challenge = handshake->challenge(request, random, certificate);
    return challenge ? challengeReply(*challenge, accounts->key().publicKey())
                     : llvm::Expected<sojourn::wire::Message>(challenge.takeError());
  }
  std::string said = request.client() ? request.client()->str() : "", client = printableName(said);
  // A name that a client gives itself is no identity; in quotes it is nobody else's.
  if (peer == Peer::owner) {
    return begin(kLocalClient, kLocalClient, said, connection);
  }
  {
    std::lock_guard lock(mutex);
    if (llvm::Error refused = openings.session(environment.elapsedMs())) {
      return refused;
    }
  }
  return begin("'" + client + "'", "", said, connection);
}

llvm::Expected<sojourn::wire::Message> OwnerState::prove(const wire::Prove &request, uint64_t connection,
                                                         std::string_view certificate) {
  auto key = handshake->check(request, certificate);
  if (!key) {
    return key.takeError();
  }
  auto client = accounts->clientOf(*key);
  if (!client) {
    return client.takeError();
  }
  if (!*client) {
    return requestError(wire::ErrorCode_Refused, "no client of this owner has the key " + signing::keyText(*key) +
                                                     "; the data owner adds it with: sojourn-owner client add NAME "
                                                     "--key FILE.pub");
  }
  if (llvm::Error error = handshake->take(request, *key)) {
    return error;
  }
  return begin(**client, **client, request.client() ? request.client()->str() : "", connection,
               std::string(key->begin(), key->end()));
}

/// `name`: in the log of programs; `account`: of the ledger, for good; `said`: what the client calls itself; `key`: by
/// which it proved who it is.
llvm::Expected<sojourn::wire::Message> OwnerState::begin(const std::string &name, const std::string &account,
                                                         const std::string &said, uint64_t connection,
                                                         const std::string &key) {
  auto session = [&] {
    std::lock_guard lock(mutex);
    return sessions.begin(name, account, connection, key);
  }();
  if (!session) {
    return session.takeError();
  }
  if (environment.log) {
    const std::string told = "session opened for " + (account.empty() ? "a client without an identity" : account) +
                             ", which calls itself '" + printableName(said) + "'";
    std::lock_guard lock(mutex);
    for (const std::string &text : opened.add(account, told, environment.elapsedMs())) {
      LogLine line = text;
      if (text == told) { // else it is a count
        line.event = "session opened";
        line.client = name;
      }
      environment.log(line);
    }
  }
  std::string text =
      ("requests up to " + Twine(limits.requestBytes) + " bytes, replies up to " + Twine(limits.replyBytes) +
       ", programs up to " + Twine(runtime::limits::kProgramBytes) + "; " + Twine(limits.handlesPerSession) +
       " handles per session; sessions end after " + Twine(limits.leaseMs / 1000) + " idle seconds, or " +
       Twine(limits.goneMs / 1000) + " seconds after their connection")
          .str();
  return welcomeReply(*session, text, account, &accounts->key().publicKey());
}

} // namespace sojourn::owner
