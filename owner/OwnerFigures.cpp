// SPDX-License-Identifier: Apache-2.0
#include "owner/Owner.h"
#include "owner/OwnerState.h"

namespace sojourn::owner {

Figures Owner::figures() const {
  Figures figures;
  for (size_t code = 0; code < figures.refused.size(); ++code) {
    figures.refused[code] = state->refusedCodes[code];
  }
  figures.requests = state->requests;
  figures.steps = state->steps;
  figures.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - state->started).count();
  std::tie(figures.smallRunning, figures.smallWaiting) = state->queue.counts(StepQueue::Lane::small);
  std::tie(figures.largeRunning, figures.largeWaiting) = state->queue.counts(StepQueue::Lane::large);
  if (state->peers) {
    const Peers::Counts counts = state->peers->counts();
    const LinkFigures links = counts.links.value_or(LinkFigures());
    figures.groups = counts.groups;
    figures.groupsWaiting = counts.waiting;
    figures.stepsTakenOver = counts.takenOver.steps;
    figures.bytesTakenOver = counts.takenOver.bytes;
    figures.peers = links.registered;
    figures.linkedPeers = links.linked;
    figures.peerBytesSent = links.bytesSent;
    figures.peerBytesReceived = links.bytesReceived;
    figures.peerBytesWaiting = links.waitingBytes;
  }
  std::lock_guard lock(state->mutex);
  const Sessions &sessions = state->sessions;
  figures.sessions = sessions.count();
  figures.anonymousSessions = sessions.count("");
  figures.values = sessions.handleCount();
  figures.namedValues = sessions.names.count();
  figures.valueBytes = sessions.holdings.used();
  figures.anonymousValueBytes = sessions.holdings.used("");
  figures.valueBytesMost = sessions.holdings.share(kLocalClient);
  figures.requestsUnderWay = sessions.requests.used();
  figures.plans = state->plans.count();
  figures.planBytes = state->plans.bytes();
  return figures;
}

} // namespace sojourn::owner
