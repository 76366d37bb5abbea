// SPDX-License-Identifier: Apache-2.0
#include "owner/links/Meetings.h"

#include <spdlog/spdlog.h>

namespace sojourn::owner {

void Meetings::add(stream::OwnedStream stream, const Listener &listener) {
  auto meeting = std::make_shared<Meeting>();
  meeting->stream = std::move(stream);
  {
    std::lock_guard lock(mutex);
    if (isStopping) {
      return;
    }
    unproved.push_back(meeting);
    if (unproved.size() > kMeetingsMost) {
      unproved.front()->stop = true;
      unproved.pop_front();
    }
  }
  bool isTaken = false;
  try {
    isTaken = workers.run([this, meeting, &listener] { run(meeting, listener); });
  } catch (const std::exception &) { // no thread for it: the stream goes
  }
  if (!isTaken) {
    forget(meeting);
  }
}

void Meetings::run(const std::shared_ptr<Meeting> &meeting, const Listener &listener) {
  if (meeting->stop) {
    return; // it has left the list already
  }
  try {
    const Certificate *certificate = listener.certificate();
    const OwnCertificate shown = {certificate ? std::string_view(certificate->introduction) : std::string_view(),
                                  listener.digest()};
    auto met = meetPeer(std::move(meeting->stream), meeting->since, own, shown, answers.refusalOf, meeting->stop);
    if (met) {
      answers.adopt(met->key, std::move(met->stream));
    }
  } catch (const std::exception &exception) {
    spdlog::error("no memory for the handshake of another owner: {}", exception.what());
  }
  forget(meeting);
}

void Meetings::forget(const std::shared_ptr<Meeting> &meeting) {
  std::lock_guard lock(mutex);
  std::erase(unproved, meeting);
}

void Meetings::stop() {
  {
    std::lock_guard lock(mutex);
    isStopping = true;
    for (const auto &meeting : unproved) {
      meeting->stop = true;
    }
  }
  workers.stop();
  std::lock_guard lock(mutex);
  unproved.clear();
}

} // namespace sojourn::owner
