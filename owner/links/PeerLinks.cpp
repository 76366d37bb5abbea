// SPDX-License-Identifier: Apache-2.0
// One thread keeps the links: it reads who is registered, has owners dialed, and ends links that are silent. Handshakes
// have threads of their own, since other sides may be slow.
#include "owner/links/PeerLinks.h"

#include "owner/Accounts.h"
#include "owner/Error.h"
#include "owner/Listener.h"
#include "owner/RequestError.h"
#include "owner/Workers.h"
#include "owner/links/Introduce.h"
#include "owner/links/PeerLink.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <spdlog/spdlog.h>
#include <thread>
#include <utility>

namespace sojourn::owner {

using llvm::Twine;
using signing::PublicKey;
using Clock = PeerLink::Clock;

namespace {

/// How often links are looked at, and how often signs of life are sent and the registered owners read.
constexpr std::chrono::milliseconds kLookEvery{200}, kGreetEvery{1'000};
/// A link on which nothing comes for so long ends.
constexpr std::chrono::seconds kSilenceMost{10};
/// Between attempts to dial, at first and at last.
constexpr std::chrono::milliseconds kFirstPause{200}, kLongestPause{2'000};
/// How long a group that begins waits for a link: in all, and before the reason why there is none is asked for.
constexpr std::chrono::milliseconds kLinkWait{5'000}, kPatience{1'000};
/// Handshakes at a time that others began, with a thread and waiting for one.
constexpr unsigned kMeetingThreads = 8, kMeetingsMost = 64, kDialThreads = 8;

} // namespace

class PeerLinks::State final : public PeerRoutes, public PeerLinkEvents, public std::enable_shared_from_this<State> {
public:
  explicit State(Owner &owner)
      : owner(owner), groups(owner.groups()), key(owner.accounts().key()), bytesMost(owner.limits().peerBytes) {}

  llvm::Error listen(const std::string &address);
  void stop();

  llvm::Error await(const PublicKey &member) override;
  bool isLinked(const PublicKey &member) override;
  void send(const PublicKey &to, const GroupId &group, const PeerFrame &frame) noexcept override;
  LinkFigures figures() override;

  std::shared_ptr<runtime::Buffer> room(const PeerLink &link, const GroupId &group, size_t bytes) override;
  void came(const PeerLink &link, const GroupId &group, const PeerFrame &frame) override {
    groups->take(link.peer, group, frame);
  }
  void ended(PeerLink &link) override;

private:
  struct Entry {
    PeerRecord record;
    std::shared_ptr<PeerLink> link;
    std::string problem = "it has not connected yet"; ///< why there is no link
    Clock::time_point next{};                         ///< attempt to dial
    std::chrono::milliseconds pause = kFirstPause;
    bool isDialing = false;
  };

  void keep();
  void readRegistered();
  void greetAll();
  void dialDue();
  void dial(PeerRecord peer);
  void meet(nng_stream *stream);
  std::string refusalOf(const PublicKey &peer, LinkPurpose purpose);
  void adopt(const PublicKey &peer, nng_stream *stream);
  std::shared_ptr<PeerLink> takeLink(const PublicKey &peer, const PeerLink *expected);
  bool dials(const PublicKey &peer) const { return key.publicKey() < peer; }
  std::shared_ptr<PeerLink> find(const PublicKey &peer);

  Owner &owner;
  const std::shared_ptr<Peers> groups;
  const signing::SigningKey key;
  const size_t bytesMost;
  const std::shared_ptr<std::atomic<size_t>> waitingBytes = std::make_shared<std::atomic<size_t>>(0);
  std::unique_ptr<Listener> listener;
  Workers meetings{kMeetingThreads}, dialers{kDialThreads};
  std::atomic<unsigned> meetingsBegun = 0;
  std::atomic<bool> isStopping = false;

  std::mutex changing; ///< held while a link comes or goes, and the groups are told; before the next one
  std::mutex mutex;    ///< of the rest
  std::condition_variable changed;
  std::map<PublicKey, Entry> entries;
  std::vector<std::shared_ptr<PeerLink>> gone; ///< ended, and not yet done with
  std::thread keeper;
};

llvm::Error PeerLinks::State::listen(const std::string &address) {
  auto opened = Listener::open(owner, address, [this](nng_stream *stream) {
    const bool isTaken = ++meetingsBegun <= kMeetingsMost && meetings.run([this, stream] {
      meet(stream);
      --meetingsBegun;
    });
    if (!isTaken) {
      --meetingsBegun;
      nng_stream_close(stream);
      nng_stream_free(stream);
    }
  });
  if (!opened) {
    return opened.takeError();
  }
  listener = std::move(*opened);
  readRegistered();
  groups->attach(shared_from_this());
  listener->start();
  keeper = std::thread([this] { keep(); });
  return llvm::Error::success();
}

void PeerLinks::State::stop() {
  isStopping = true;
  groups->attach(nullptr);
  listener->stop();
  dialers.stop();
  meetings.stop();
  changed.notify_all();
  if (keeper.joinable()) {
    keeper.join();
  }
  std::vector<PublicKey> all;
  {
    std::lock_guard lock(mutex);
    for (const auto &[peer, entry] : entries) {
      all.push_back(peer);
    }
  }
  for (const PublicKey &peer : all) {
    if (const auto link = find(peer)) {
      link->finish(); // which tells of its end
    }
  }
  for (const auto &link : std::exchange(gone, {})) {
    link->finish();
  }
}

void PeerLinks::State::keep() {
  auto nextGreeting = Clock::now();
  std::unique_lock lock(mutex);
  while (!isStopping) {
    changed.wait_for(lock, kLookEvery);
    const auto ended = std::exchange(gone, {});
    lock.unlock();
    for (const auto &link : ended) {
      link->finish();
    }
    if (Clock::now() >= nextGreeting) {
      nextGreeting = Clock::now() + kGreetEvery;
      readRegistered();
      greetAll();
      listener->retry();
    }
    dialDue();
    lock.lock();
  }
}

/// Owners that are registered no longer lose their link.
void PeerLinks::State::readRegistered() {
  auto records = owner.peers();
  if (!records) {
    spdlog::error("the registered owners cannot be read: {}", llvm::toString(records.takeError()));
    return;
  }
  std::vector<std::shared_ptr<PeerLink>> unknown;
  {
    std::lock_guard lock(mutex);
    for (auto at = entries.begin(); at != entries.end();) {
      const bool isThere = std::any_of(records->begin(), records->end(),
                                       [&](const PeerRecord &record) { return record.key == at->first; });
      if (!isThere && at->second.link) {
        unknown.push_back(at->second.link);
      }
      at = isThere || at->second.link ? std::next(at) : entries.erase(at);
    }
    for (const PeerRecord &record : *records) {
      Entry &entry = entries[record.key];
      entry.next = entry.record.address == record.address ? entry.next : Clock::time_point();
      entry.record = record;
    }
  }
  for (const auto &link : unknown) {
    link->close();
  }
}

void PeerLinks::State::greetAll() {
  std::vector<std::shared_ptr<PeerLink>> links;
  {
    std::lock_guard lock(mutex);
    for (const auto &[peer, entry] : entries) {
      if (entry.link) {
        links.push_back(entry.link);
      }
    }
  }
  for (const auto &link : links) {
    if (Clock::now() - link->heard() > kSilenceMost) {
      link->close();
    } else {
      link->greet();
    }
  }
}

void PeerLinks::State::dialDue() {
  std::vector<PeerRecord> due;
  {
    std::lock_guard lock(mutex);
    for (auto &[peer, entry] : entries) {
      if (dials(peer) && !entry.link && !entry.isDialing && Clock::now() >= entry.next) {
        entry.isDialing = true;
        due.push_back(entry.record);
      }
    }
  }
  for (PeerRecord &peer : due) {
    dialers.run([this, peer = std::move(peer)] { dial(peer); });
  }
}

void PeerLinks::State::dial(PeerRecord peer) {
  auto stream = dialPeer(peer, key, LinkPurpose::link, isStopping);
  const std::string problem = stream ? "" : llvm::toString(stream.takeError());
  if (problem.empty()) {
    adopt(peer.key, *stream);
  }
  std::lock_guard lock(mutex);
  if (auto found = entries.find(peer.key); found != entries.end()) {
    Entry &entry = found->second;
    entry.isDialing = false;
    entry.pause = problem.empty() ? kFirstPause : std::min(2 * entry.pause, kLongestPause);
    entry.next = Clock::now() + entry.pause;
    if (!problem.empty() && problem != entry.problem && !isStopping) {
      spdlog::warn("no link with {}: {}", peer.name, problem);
      entry.problem = problem;
    }
  }
  changed.notify_all();
}

void PeerLinks::State::meet(nng_stream *stream) {
  const Certificate *certificate = listener->certificate();
  const OwnCertificate shown = {certificate ? std::string_view(certificate->introduction) : std::string_view(),
                                listener->digest()};
  auto met = meetPeer(
      stream, key, shown, [this](const PublicKey &peer, LinkPurpose purpose) { return refusalOf(peer, purpose); },
      isStopping);
  if (met) {
    adopt(met->key, met->stream);
  }
}

std::string PeerLinks::State::refusalOf(const PublicKey &peer, LinkPurpose purpose) {
  readRegistered();
  std::lock_guard lock(mutex);
  if (entries.find(peer) == entries.end()) {
    return "the owner with key " + signing::keyText(key.publicKey()) + " does not know this one; its data owner adds " +
           "it with: sojourn-owner peer add NAME --key " + signing::keyText(peer) + " --address ADDRESS";
  }
  return purpose == LinkPurpose::link && dials(peer) ? "of two owners, the one with the smaller key dials" : "";
}

/// The link in an entry, if it is the expected one (null: any).
std::shared_ptr<PeerLink> PeerLinks::State::takeLink(const PublicKey &peer, const PeerLink *expected) {
  std::lock_guard lock(mutex);
  const auto found = entries.find(peer);
  if (found == entries.end() || (expected && found->second.link.get() != expected)) {
    return nullptr;
  }
  found->second.problem = "its link has ended, and it has not connected again";
  return std::exchange(found->second.link, nullptr);
}

/// In place of a link of before, whose groups have ended with it.
void PeerLinks::State::adopt(const PublicKey &peer, nng_stream *stream) {
  auto link = std::make_shared<PeerLink>(peer, stream, *this);
  std::lock_guard change(changing);
  if (const auto before = takeLink(peer, nullptr)) {
    before->close();
    groups->lose(peer);
    std::lock_guard lock(mutex);
    gone.push_back(before);
  }
  const int status = link->open();
  {
    std::lock_guard lock(mutex);
    const auto found = entries.find(peer);
    if (status || isStopping || found == entries.end()) {
      gone.push_back(std::move(link));
      return;
    }
    found->second.link = link;
    found->second.problem = "";
    spdlog::info("linked with {}", found->second.record.name);
  }
  link->start();
  changed.notify_all();
}

void PeerLinks::State::ended(PeerLink &link) {
  std::lock_guard change(changing);
  std::shared_ptr<PeerLink> own = takeLink(link.peer, &link);
  if (!own) {
    return; // another one is in its place
  }
  groups->lose(link.peer);
  if (!isStopping) {
    spdlog::info("the link with the owner with key {} has ended", signing::shortKeyText(link.peer));
  }
  std::lock_guard lock(mutex);
  gone.push_back(std::move(own));
  changed.notify_all();
}

std::shared_ptr<PeerLink> PeerLinks::State::find(const PublicKey &peer) {
  std::lock_guard lock(mutex);
  const auto found = entries.find(peer);
  return found == entries.end() ? nullptr : found->second.link;
}

bool PeerLinks::State::isLinked(const PublicKey &member) { return find(member) != nullptr; }

llvm::Error PeerLinks::State::await(const PublicKey &member) {
  readRegistered();
  std::unique_lock lock(mutex);
  auto found = entries.find(member);
  if (found == entries.end()) {
    return requestError(wire::ErrorCode_Refused,
                        "the owner with key " + signing::shortKeyText(key.publicKey()) +
                            " does not know the owner with key " + signing::keyText(member) +
                            "; its data owner adds it with: sojourn-owner peer add NAME --key " +
                            signing::keyText(member) + " --address ADDRESS");
  }
  found->second.next = Clock::time_point();
  changed.notify_all();
  const auto begin = Clock::now();
  auto waitUntil = [&](Clock::time_point until, auto goesOn) {
    for (found = entries.find(member);
         found != entries.end() && !found->second.link && !isStopping && Clock::now() < until && goesOn(found->second);
         found = entries.find(member)) {
      changed.wait_until(lock, until);
    }
    return found != entries.end() && found->second.link;
  };
  if (waitUntil(begin + kPatience, [](const Entry &) { return true; }) ||
      waitUntil(begin + kLinkWait, [](const Entry &entry) { return entry.isDialing; })) {
    return llvm::Error::success();
  }
  const Entry entry = found == entries.end() ? Entry() : found->second;
  std::string problem = entry.problem;
  if (!dials(member) && found != entries.end()) { // the reason is over there
    lock.unlock();
    auto checked = dialPeer(entry.record, key, LinkPurpose::check, isStopping);
    problem = checked ? problem : llvm::toString(checked.takeError());
    lock.lock();
    if (checked && waitUntil(begin + kLinkWait, [](const Entry &) { return true; })) {
      return llvm::Error::success();
    }
  }
  return requestError(wire::ErrorCode_Peer, "there is no link with owner " + entry.record.name + " at " +
                                                entry.record.address + ": " + problem +
                                                "; see 'sojourn-owner peer check'");
}

void PeerLinks::State::send(const PublicKey &to, const GroupId &group, const PeerFrame &frame) noexcept {
  if (const auto link = find(to)) {
    link->send(group, frame);
  }
}

std::shared_ptr<runtime::Buffer> PeerLinks::State::room(const PeerLink &link, const GroupId &group, size_t bytes) {
  if (!groups->expects(link.peer, group) || *waitingBytes + bytes > bytesMost) {
    return nullptr;
  }
  void *memory = std::aligned_alloc(runtime::kAlignment, (bytes / runtime::kAlignment + 1) * runtime::kAlignment);
  if (!memory) {
    throw std::bad_alloc();
  }
  *waitingBytes += bytes;
  std::shared_ptr<void> keep(memory, [counter = waitingBytes, bytes](void *address) {
    *counter -= bytes;
    std::free(address);
  });
  return std::make_shared<runtime::Buffer>(memory, bytes, -1, 0, std::move(keep));
}

LinkFigures PeerLinks::State::figures() {
  LinkFigures figures;
  std::lock_guard lock(mutex);
  for (const auto &[peer, entry] : entries) {
    ++figures.registered;
    figures.linked += entry.link ? 1 : 0;
    figures.bytesSent += entry.link ? entry.link->bytesSent() : 0;
    figures.bytesReceived += entry.link ? entry.link->bytesReceived() : 0;
  }
  figures.waitingBytes = *waitingBytes;
  return figures;
}

llvm::Expected<std::unique_ptr<PeerLinks>> PeerLinks::start(Owner &owner, const std::string &address) {
  auto state = std::make_shared<State>(owner);
  if (llvm::Error error = state->listen(address)) {
    return error;
  }
  return std::unique_ptr<PeerLinks>(new PeerLinks(std::move(state)));
}

PeerLinks::~PeerLinks() { state->stop(); }

llvm::Error checkPeer(Owner &owner, const PeerRecord &peer) {
  const std::atomic<bool> stop = false;
  auto stream = dialPeer(peer, owner.accounts().key(), LinkPurpose::check, stop);
  return stream ? llvm::Error::success() : stream.takeError();
}

} // namespace sojourn::owner
