// SPDX-License-Identifier: Apache-2.0
// Small values move into packs (frontend/recording/Packed.h), between the steps of a script.
#include "frontend/flight/Flights.h"

#include "frontend/flight/Apart.h"
#include "frontend/recording/Packed.h"
#include "frontend/recording/Steps.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

namespace sojourn::frontend {

namespace {

/// Whether this thread gathers.
thread_local bool isGathering = false;

struct Gatherer {
  Gatherer() { isGathering = true; }
  ~Gatherer() { isGathering = false; }
  Gatherer(const Gatherer &) = delete;
  Gatherer &operator=(const Gatherer &) = delete;
};

/// Records one value that holds those that other threads have not used since; undefined if there are none. `writes`:
/// to each of them so far.
c10::intrusive_ptr<Storage> recordPack(Session &session, std::vector<c10::intrusive_ptr<Storage>> &values,
                                       std::vector<uint64_t> &writes) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset |
                                                 c10::DispatchKeySet(c10::DispatchKey::Python));
  std::vector<at::Tensor> flat;
  {
    DeviceLock lock(session.mutex());
    std::erase_if(values, [](const auto &value) { return !value->handle || !value->places.empty(); });
    if (session.isClosed() || values.empty()) {
      return {};
    }
    session.recording().isAside = true;
    for (const auto &value : values) {
      writes.push_back(value->writes);
      flat.push_back(makeTensor(value).as_strided({elementsOf(*value)}, {1}, 0));
    }
  }
  auto pack = remoteImpl(at::cat(flat))->remoteStorage();
  pack->isPack = true;
  return pack;
}

} // namespace

void gather(const std::shared_ptr<Session> &session) {
  if (isGathering || session->offline() || Steps::active() || session->isElsewhere()) {
    return;
  }
  const Gatherer gatherer;
  for (;;) {
    std::vector<c10::intrusive_ptr<Storage>> values = session->kept().gatherable();
    if (values.empty()) {
      return;
    }
    const Apart apart(session);
    std::vector<uint64_t> writes;
    c10::intrusive_ptr<Storage> pack;
    try {
      pack = recordPack(*session, values, writes);
      if (!pack) {
        return;
      }
      sendAll({session}, /*explicitStep=*/false);
    } catch (const HasErrorKind &raised) { // not an interrupt
      if (raised.kind() == ErrorKind::Error && pack) {
        throw; // none of an owner's
      }
      return; // or another thread has written to one meanwhile
    }
    session->kept().moveInto(pack, values, writes);
  }
}

} // namespace sojourn::frontend
