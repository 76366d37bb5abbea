// SPDX-License-Identifier: Apache-2.0
// Clients' sessions: each owns its handles; nothing of another session can be named.
#ifndef SOJOURN_OWNER_SESSION_H
#define SOJOURN_OWNER_SESSION_H

#include "owner/Environment.h"
#include "owner/Label.h"
#include "owner/Limits.h"
#include "runtime/wire/Messages_generated.h"
#include "owner/PlanCache.h"
#include "runtime/Execute.h"

#include "llvm/Support/Error.h"

#include <map>
#include <memory>
#include <string>
#include <unordered_map>

namespace sojourn::owner {

/// A value kept at the owner and what is known of where it comes from.
struct Handle {
  runtime::HostTensor tensor;
  std::shared_ptr<const Label> label;
};

/// An upload that arrives in parts, ahead of the step that binds it.
struct PartialUpload {
  std::shared_ptr<runtime::Buffer> buffer;
  size_t received = 0; ///< from the start
};

struct Session {
  std::string client;
  int64_t lastUsedMs = 0;
  std::unordered_map<uint64_t, Handle> handles;        ///< by the client's own ids
  std::unordered_map<uint64_t, PartialUpload> uploads; ///< by the client's own numbers
  std::map<runtime::ProgramHash, PlanKey> programs;    ///< what it may refer to by hash
};

/// Sessions by id. Ids are random: who does not know one cannot use it.
class Sessions {
public:
  Sessions(const Environment &environment, const Limits &limits) : environment(environment), limits(limits) {}

  llvm::Expected<uint64_t> begin(std::string client);
  /// Finds a session and renews its lease.
  llvm::Expected<Session *> find(uint64_t id);
  /// Ends a session; unknown ones are ended already.
  void end(uint64_t id);
  /// Drops handles; all of them must exist.
  llvm::Error release(Session &session, llvm::ArrayRef<uint64_t> handles);

  /// Takes in a part of an upload; returns how many bytes of it stand.
  llvm::Expected<size_t> receive(Session &session, const sojourn_wire::Upload &part);
  /// Drops an upload, if there is one of this number.
  void dropUpload(Session &session, uint64_t upload);

  size_t count() const { return sessions.size(); }
  size_t handleCount() const;
  /// Bytes behind the handles and uploads of all sessions. A step changes it when it commits.
  size_t handleBytes = 0;

private:
  void expire();
  void drop(std::unordered_map<uint64_t, Session>::iterator session);

  const Environment &environment;
  const Limits &limits;
  std::unordered_map<uint64_t, Session> sessions;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_SESSION_H
