// SPDX-License-Identifier: Apache-2.0
// One thread keeps the links: it reads the registered owners, has them dialed on other threads, and ends silent links.
#include "owner/links/PeerLinks.h"

#include "owner/Accounts.h"
#include "owner/Error.h"
#include "owner/Listener.h"
#include "owner/RequestError.h"
#include "owner/Workers.h"
#include "owner/links/Introduce.h"
#include "owner/links/Meetings.h"
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
/// Longest wait of a new group for a link: in all, and while no dial is under way.
constexpr std::chrono::milliseconds kLinkWait{5'000}, kPatience{2'500};
/// Dials at a time.
constexpr unsigned kDialThreads = 8;
/// Of the bytes that wait, one group has at most this part.
constexpr size_t kPartOfGroup = 4;
/// Bytes that wait to be sent to one owner, at most: steps wait for the other side, so each group has two frames there.
constexpr size_t kQueueMost = size_t{16} << 30;

/// Adds to a count that stays within a bound; false where it does not.
bool take(std::atomic<size_t> &count, size_t bytes, size_t most) {
  size_t now = count;
  while (now + bytes <= most) {
    if (count.compare_exchange_weak(now, now + bytes)) {
      return true;
    }
  }
  return false;
}

} // namespace

class PeerLinks::State final : public PeerRoutes, public PeerLinkEvents, public std::enable_shared_from_this<State> {
public:
  explicit State(Owner &owner)
      : owner(owner), groups(owner.groups()), key(owner.accounts().key()), bytesMost(owner.limits().peerBytes) {}

  llvm::Error listen(const std::string &address);
  void stop();

  llvm::Error await(const PublicKey &member) override;
  bool isLinked(const PublicKey &member) override { return find(member) != nullptr; }
  void send(const PublicKey &to, const GroupId &group, const PeerFrame &frame) noexcept override;
  bool receive(const PublicKey &member, std::chrono::milliseconds most) override {
    const auto link = find(member);
    return link && link->receive(most);
  }
  LinkFigures figures() override;

  Room room(const PeerLink &link, const GroupId &group, size_t bytes) override;
  void came(const PeerLink &link, const GroupId &group, const PeerFrame &frame) override {
    groups->take(link.peer, group, frame);
  }
  void ended(PeerLink &link) noexcept override;

private:
  struct Entry {
    PeerRecord record;
    std::shared_ptr<PeerLink> link;
    std::string problem;      ///< of the last dial, for the log
    Clock::time_point next{}; ///< attempt to dial
    std::chrono::milliseconds pause = kFirstPause;
    bool isDialing = false;
    bool isRegistered = false; ///< else it only lasts until its dial or its link has ended
  };

  void keep();
  void readRegistered();
  void greetAll();
  void dialDue();
  void dial(const PeerRecord &peer);
  std::string refusalOf(const PublicKey &peer, LinkPurpose purpose);
  void adopt(const PublicKey &peer, stream::OwnedStream stream);
  std::shared_ptr<PeerLink> takeLink(const PublicKey &peer, const PeerLink *expected);
  bool dials(const PublicKey &peer) const { return key.publicKey() < peer; }
  std::shared_ptr<PeerLink> find(const PublicKey &peer);
  Entry *registered(const PublicKey &peer);

  Owner &owner;
  const std::shared_ptr<Peers> groups;
  const signing::SigningKey key;
  const size_t bytesMost;
  const std::shared_ptr<std::atomic<size_t>> waitingBytes = std::make_shared<std::atomic<size_t>>(0);
  std::unique_ptr<Listener> listener;
  Meetings meetings{key,
                    {[this](const PublicKey &peer, LinkPurpose purpose) { return refusalOf(peer, purpose); },
                     [this](const PublicKey &peer, stream::OwnedStream stream) { adopt(peer, std::move(stream)); }}};
  Workers dialers{kDialThreads};
  std::atomic<bool> isStopping = false;

  std::mutex reading;  ///< of the catalogue; before the last one
  std::mutex changing; ///< held while a link comes or goes, and the groups are told; before the next one
  std::mutex mutex;    ///< of the rest
  std::condition_variable changed;
  std::map<PublicKey, Entry> entries;
  std::vector<std::shared_ptr<PeerLink>> gone; ///< ended, and not yet done with; has room for all links
  std::thread keeper;
};

llvm::Error PeerLinks::State::listen(const std::string &address) {
  auto opened = Listener::open(owner, address,
                               [this](stream::OwnedStream stream) { meetings.add(std::move(stream), *listener); });
  if (!opened) {
    return opened.takeError();
  }
  listener = std::move(*opened);
  readRegistered();
  try {
    keeper = std::thread([this] { keep(); });
  } catch (const std::system_error &error) {
    return failure("no thread for the links with other owners: " + Twine(error.what()));
  }
  groups->attach(shared_from_this());
  listener->start();
  return llvm::Error::success();
}

/// Steps may commit until the links have ended; afterwards none of their groups does.
void PeerLinks::State::stop() {
  {
    std::lock_guard lock(mutex);
    isStopping = true;
  }
  changed.notify_all();
  if (listener) {
    listener->stop();
  }
  dialers.stop();
  meetings.stop();
  if (keeper.joinable()) {
    keeper.join();
  }
  std::vector<std::shared_ptr<PeerLink>> all;
  {
    std::lock_guard change(changing); // no link is about to tell of its end
    std::lock_guard lock(mutex);
    all.swap(gone);
    for (auto &[peer, entry] : entries) {
      if (entry.link) {
        all.push_back(std::move(entry.link));
      }
    }
  }
  for (const auto &link : all) { // nng may not tell of the end of a stream whose operations are stopped
    link->close();
    groups->lose(link->peer);
    link->finish();
  }
  groups->attach(nullptr);
}

void PeerLinks::State::keep() {
  auto nextGreeting = Clock::now();
  std::unique_lock lock(mutex);
  while (!isStopping) {
    changed.wait_for(lock, kLookEvery);
    std::vector<std::shared_ptr<PeerLink>> ended;
    try {
      ended.reserve(gone.capacity());
      ended.swap(gone);
      lock.unlock();
      for (const auto &link : ended) {
        link->finish();
      }
      ended.clear();
      if (Clock::now() >= nextGreeting) {
        nextGreeting = Clock::now() + kGreetEvery;
        readRegistered();
        greetAll();
        listener->retry();
      }
      dialDue();
    } catch (const std::exception &exception) {
      spdlog::error("no memory for the links with other owners: {}", exception.what());
    }
    if (!lock.owns_lock()) {
      lock.lock();
    }
  }
}

/// Owners that are registered no longer lose their link.
void PeerLinks::State::readRegistered() {
  std::lock_guard read(reading); // no older list comes after a newer one
  auto records = owner.peers();
  if (!records) {
    spdlog::error("the registered owners cannot be read: {}", llvm::toString(records.takeError()));
    return;
  }
  std::vector<std::shared_ptr<PeerLink>> unknown;
  {
    std::lock_guard lock(mutex);
    for (auto at = entries.begin(); at != entries.end();) {
      Entry &entry = at->second;
      entry.isRegistered = std::any_of(records->begin(), records->end(),
                                       [&](const PeerRecord &record) { return record.key == at->first; });
      if (!entry.isRegistered && entry.link) {
        unknown.push_back(entry.link);
      }
      at = entry.isRegistered || entry.link || entry.isDialing ? std::next(at) : entries.erase(at);
    }
    for (const PeerRecord &record : *records) {
      Entry &entry = entries[record.key];
      entry.next = entry.record.address == record.address ? entry.next : Clock::time_point();
      entry.record = record;
      entry.isRegistered = true;
    }
    gone.reserve(gone.size() + entries.size() + 1);
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
      if (entry.isRegistered && dials(peer) && !entry.link && !entry.isDialing && Clock::now() >= entry.next) {
        due.push_back(entry.record);
      }
    }
    for (const PeerRecord &peer : due) {
      entries[peer.key].isDialing = true;
    }
  }
  for (const PeerRecord &peer : due) {
    bool isTaken = false;
    try {
      isTaken = dialers.run([this, peer] { dial(peer); });
    } catch (const std::exception &) { // at the next look
    }
    if (!isTaken) {
      std::lock_guard lock(mutex);
      entries[peer.key].isDialing = false;
    }
  }
}

void PeerLinks::State::dial(const PeerRecord &peer) {
  std::string problem;
  try {
    auto stream = dialPeer(peer, key, LinkPurpose::link, isStopping);
    problem = stream ? "" : llvm::toString(stream.takeError());
    if (problem.empty()) {
      adopt(peer.key, std::move(*stream));
    }
  } catch (const std::exception &exception) {
    spdlog::error("no memory to dial an owner: {}", exception.what());
  }
  std::lock_guard lock(mutex);
  Entry &entry = entries[peer.key];
  entry.isDialing = false;
  entry.pause = entry.link ? kFirstPause : std::min(2 * entry.pause, kLongestPause);
  entry.next = Clock::now() + entry.pause;
  if (!problem.empty() && problem != entry.problem && !isStopping) {
    spdlog::warn("no link with {}: {}", peer.name, problem);
  }
  entry.problem = std::move(problem);
  changed.notify_all();
}

std::string PeerLinks::State::refusalOf(const PublicKey &peer, LinkPurpose purpose) {
  readRegistered(); // the catalogue looks at its database only where that has changed
  std::lock_guard lock(mutex);
  if (!registered(peer)) {
    return "the owner with key " + signing::keyText(key.publicKey()) + " does not know this one; its data owner adds " +
           "it with: sojourn-owner peer add NAME --key " + signing::keyText(peer) + " --address ADDRESS";
  }
  return purpose == LinkPurpose::link && dials(peer) ? "of two owners, the one with the smaller key dials" : "";
}

/// Null for others. Under the lock.
PeerLinks::State::Entry *PeerLinks::State::registered(const PublicKey &peer) {
  const auto found = entries.find(peer);
  return found != entries.end() && found->second.isRegistered ? &found->second : nullptr;
}

/// The link in an entry, if it is the expected one (null: any).
std::shared_ptr<PeerLink> PeerLinks::State::takeLink(const PublicKey &peer, const PeerLink *expected) {
  std::lock_guard lock(mutex);
  const auto found = entries.find(peer);
  if (found == entries.end() || (expected && found->second.link.get() != expected)) {
    return nullptr;
  }
  return std::exchange(found->second.link, nullptr);
}

/// In place of a link of before, whose groups have ended with it.
void PeerLinks::State::adopt(const PublicKey &peer, stream::OwnedStream stream) {
  auto link = std::make_shared<PeerLink>(peer, std::move(stream), *this, kQueueMost);
  std::lock_guard change(changing);
  if (link->open()) {
    return;
  }
  if (auto before = takeLink(peer, nullptr)) {
    before->close();
    groups->lose(peer);
    std::lock_guard lock(mutex);
    gone.push_back(std::move(before));
  }
  {
    std::lock_guard lock(mutex);
    Entry *entry = registered(peer);
    if (isStopping || !entry) {
      return;
    }
    gone.reserve(gone.size() + entries.size() + 1);
    entry->link = link;
    spdlog::info("linked with {}", entry->record.name);
  }
  link->start();
  changed.notify_all();
}

void PeerLinks::State::ended(PeerLink &link) noexcept {
  std::lock_guard change(changing);
  std::shared_ptr<PeerLink> own = takeLink(link.peer, &link);
  if (!own) {
    return; // another one is in its place, or the server stops
  }
  groups->lose(link.peer);
  try {
    spdlog::info("the link with the owner with key {} has ended", signing::shortKeyText(link.peer));
  } catch (const std::exception &) { // no memory for the line
  }
  std::lock_guard lock(mutex);
  gone.push_back(std::move(own)); // for which there is room
  changed.notify_all();
}

std::shared_ptr<PeerLink> PeerLinks::State::find(const PublicKey &peer) {
  std::lock_guard lock(mutex);
  const auto found = entries.find(peer);
  return found == entries.end() ? nullptr : found->second.link;
}

llvm::Error PeerLinks::State::await(const PublicKey &member) {
  readRegistered();
  std::unique_lock lock(mutex);
  Entry *entry = registered(member);
  if (entry) {
    entry->next = Clock::time_point();
    changed.notify_all();
  }
  const auto begin = Clock::now();
  auto goesOn = [&] {
    const auto waited = Clock::now() - begin;
    return entry && !entry->link && !isStopping &&
           waited < (entry->isDialing || !dials(member) ? kLinkWait : kPatience);
  };
  for (; goesOn(); entry = registered(member)) {
    changed.wait_for(lock, kLookEvery);
  }
  if (entry && entry->link) {
    return llvm::Error::success();
  }
  if (entry) {
    return requestError(wire::ErrorCode_Peer,
                        "there is no link between the owner with key " + signing::shortKeyText(key.publicKey()) +
                            " and owner " + entry->record.name +
                            "; its data owner sees the reason with: sojourn-owner peer check " + entry->record.name);
  }
  return requestError(wire::ErrorCode_Refused, "the owner with key " + signing::shortKeyText(key.publicKey()) +
                                                   " does not know the owner with key " + signing::keyText(member) +
                                                   "; its data owner adds it with: sojourn-owner peer add NAME --key " +
                                                   signing::keyText(member) + " --address ADDRESS");
}

void PeerLinks::State::send(const PublicKey &to, const GroupId &group, const PeerFrame &frame) noexcept {
  if (const auto link = find(to)) {
    link->send(group, frame);
  }
}

PeerLinkEvents::Room PeerLinks::State::room(const PeerLink &link, const GroupId &group, size_t bytes) {
  using Dropped = PeerFrame::Dropped;
  const auto found = groups->waitingOf(link.peer, group);
  if (!found || !take(*waitingBytes, bytes, bytesMost)) {
    return {nullptr, Dropped::all};
  }
  const auto ofClient = found->waitingOfClient;
  const auto ofGroup = found->waitingBytes;
  if (!take(*ofGroup, bytes, bytesMost / kPartOfGroup)) {
    *waitingBytes -= bytes;
    return {nullptr, Dropped::group};
  }
  if (!take(ofClient->count, bytes, bytesMost / ofClient->part)) {
    *ofGroup -= bytes;
    *waitingBytes -= bytes;
    return {nullptr, Dropped::client};
  }
  auto giveBack = [all = waitingBytes, ofClient, ofGroup, bytes](void *address) {
    *all -= bytes;
    ofClient->count -= bytes;
    *ofGroup -= bytes;
    std::free(address);
  };
  void *memory = std::aligned_alloc(runtime::kAlignment, (bytes / runtime::kAlignment + 1) * runtime::kAlignment);
  if (!memory) {
    giveBack(nullptr);
    return {nullptr, Dropped::all};
  }
  try {
    std::shared_ptr<void> keep(memory, giveBack);
    return {std::make_shared<runtime::Buffer>(memory, bytes, -1, 0, std::move(keep))};
  } catch (const std::bad_alloc &) { // which has given it back
    return {nullptr, Dropped::all};
  }
}

LinkFigures PeerLinks::State::figures() {
  LinkFigures figures;
  std::lock_guard lock(mutex);
  for (const auto &[peer, entry] : entries) {
    figures.registered += entry.isRegistered ? 1 : 0;
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
