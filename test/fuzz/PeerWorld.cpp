// SPDX-License-Identifier: Apache-2.0
#include "test/fuzz/PeerWorld.h"

#include "owner/Accounts.h"
#include "owner/Text.h"
#include "owner/links/Introduce.h"
#include "owner/links/PeerLink.h"
#include "owner/links/Talk.h"
#include "owner/peers/Digest.h"
#include "runtime/Limits.h"
#include "runtime/signing/Bytes.h"
#include "test/fuzz/Target.h"

#include <algorithm>
#include <thread>

namespace sojourn::fuzz {

using namespace owner::test;
namespace wire_ = sojourn_wire;
using owner::GroupId;
using owner::PeerFrame;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

/// Of rows 0 to 3, 10 to 13 and 20 to 23.
constexpr double kSum = 4 * (0 + 10 + 20) + 3 * 6;
/// Elements of a sum that three members add up in shares.
constexpr const char *kWide = "4500";
/// Without frames for so long, a step of changed frames waits for one that does not come.
constexpr milliseconds kStill{10};
/// Nothing that ends takes longer, on any machine.
constexpr std::chrono::seconds kLong{60};

owner::Limits smallLimits() {
  owner::Limits limits;
  limits.sharedRowsLeast = 4;
  limits.memberWaitMs = 20'000;
  limits.peerBytes = size_t{1} << 20;
  limits.handleBytes = size_t{1} << 26;
  limits.threads = 1;
  return limits;
}

/// Keeps and publishes the sum of all tables; a wide one is the sum of rows that are that many times as long.
runtime::EncodedProgram sumsOf(bool isWide) {
  std::string arguments, body;
  for (unsigned role = 0; role < PeerWorld::kMembers; ++role) {
    const std::string k = std::to_string(role);
    arguments += (role ? ", " : "") + ("%t" + k) + ": !sojourn.table<4, \"a\" : f64> {sojourn.kind = \"table\", " +
                 "sojourn.party = " + k + " : i64}";
    body += "    %x" + k + " = sojourn.read_rows %t" + k +
            ", %i, columns = [\"a\"] : !sojourn.table<4, \"a\" : f64>, tensor<4xi64> -> tensor<4x1xf64>\n";
  }
  const std::string wide = kWide, sum = isWide ? "tensor<" + wide + "xf64>" : "tensor<f64>";
  body += "    %x = sojourn.concat %x0, %x1, %x2 dim = 0 : tensor<4x1xf64>, tensor<4x1xf64>, tensor<4x1xf64>\n";
  body += isWide ? "    %w = sojourn.broadcast %x, dims = [0, 1] : tensor<12x1xf64> -> tensor<12x" + wide +
                       "xf64>\n    %s = sojourn.reduce_sum %w, dims = [0] : tensor<12x" + wide + "xf64>\n"
                 : "    %s = sojourn.reduce_sum %x, dims = [0, 1] : tensor<12x1xf64>\n";
  return encode("module attributes {sojourn.parties = 3 : i64, sojourn.promotion = \"torch\", sojourn.phase = "
                "\"core\"} {\n  func.func @step(" +
                arguments + ") -> (" + sum + " {sojourn.result = \"keep\"}, " + sum +
                " {sojourn.result = \"publish\"}) {\n    %i = sojourn.iota dim = 0 : tensor<4xi64>\n" + body +
                "    return %s, %s : " + sum + ", " + sum + "\n  }\n}\n");
}

std::string joinBytes(uint64_t session, unsigned role, const std::string &nonce,
                      const std::vector<signing::PublicKey> &members) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<wire_::Member>> offsets;
  for (const signing::PublicKey &member : members) {
    offsets.push_back(wire_::CreateMember(builder, builder.CreateVector(member.data(), member.size())));
  }
  auto list = builder.CreateVector(offsets);
  auto bytes = builder.CreateVector(reinterpret_cast<const uint8_t *>(nonce.data()), nonce.size());
  return finish(builder, wire_::RequestBody_Join,
                wire_::CreateJoin(builder, session, static_cast<uint8_t>(role), bytes, list).Union());
}

template <class Condition>
bool comesTrue(const Condition &condition) {
  const auto until = Clock::now() + kLong;
  while (!condition() && Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return condition();
}

/// The error of a reply; empty where the step has committed, with the right sum or, where `isAny`, with another.
std::string outcomeOf(const std::string &bytes, bool isAny) {
  const Reply reply(bytes);
  if (const auto *error = reply.root->body_as_Error()) {
    const std::string text = error->message()->str();
    if (error->code() == wire_::ErrorCode_Internal || text.empty() ||
        owner::printable(text, runtime::limits::kErrorTextBytes) != text) {
      broken("the owner fails inside, or its text is empty or not printable: " + reply.error());
    }
    return reply.error();
  }
  for (double sum : values<double>(reply.published(0))) {
    if (sum != kSum && !isAny) {
      broken("a sum is " + std::to_string(sum) + ", expected " + std::to_string(kSum));
    }
  }
  return "";
}

} // namespace

/// A member's end of its link with the owner: what comes is heard, what is written is the script's.
class PeerWorld::Link final : public owner::PeerLinkEvents {
public:
  Link(PeerWorld &world, Member &member, stream::OwnedStream given)
      : world(world), groups(member.owner->groups()), stream(given.get()),
        link(world.own.key, std::move(given), *this, size_t{1} << 30) {
    if (nng_aio_alloc(&aio, nullptr, nullptr) != 0 || link.open() != 0) {
      broken("no memory for a link");
    }
    link.start();
  }
  ~Link() override {
    finish();
    nng_aio_free(aio);
  }
  /// On no thread of the link.
  void finish() {
    close();
    link.finish();
  }
  Room room(const owner::PeerLink &, const GroupId &, size_t bytes) override {
    return {runtime::BufferPool::global().allocate(bytes)};
  }
  void came(const owner::PeerLink &from, const GroupId &group, const PeerFrame &frame) override {
    world.tell();
    groups->take(from.peer, group, frame);
  }
  void ended(owner::PeerLink &from) noexcept override {
    isEnded = true;
    nng_aio_abort(aio, NNG_ECLOSED);
    groups->lose(from.peer);
  }
  void write(const std::string &bytes) {
    std::lock_guard lock(mutex);
    for (size_t at = 0; at < bytes.size() && !isOver();) {
      nng_iov part{const_cast<char *>(bytes.data()) + at, bytes.size() - at};
      nng_aio_set_iov(aio, 1, &part);
      nng_stream_send(stream, aio);
      if (isOver()) { // nng answers no request of a stream that was closed meanwhile
        nng_aio_abort(aio, NNG_ECLOSED);
      }
      nng_aio_wait(aio);
      if (nng_aio_result(aio) != 0) { // the other side has closed
        return;
      }
      at += nng_aio_count(aio);
    }
  }
  /// At this side. nng may not tell of the end of a stream that it has closed.
  void close() {
    isClosed = true;
    nng_aio_abort(aio, NNG_ECLOSED);
    link.close();
    groups->lose(link.peer);
  }

  bool isOver() const { return isEnded || isClosed; }

  std::atomic<bool> isEnded = false, isClosed = false;

private:
  PeerWorld &world;
  const std::shared_ptr<owner::Peers> groups;
  nng_stream *const stream;
  nng_aio *aio = nullptr;
  std::mutex mutex;
  owner::PeerLink link;
};

/// The ways of a member whose frames are changed.
class PeerWorld::Routes final : public owner::PeerRoutes {
public:
  Routes(PeerWorld &world, unsigned number) : world(world), number(number) {}
  llvm::Error await(const signing::PublicKey &) override { return llvm::Error::success(); }
  bool isLinked(const signing::PublicKey &) override { return true; }
  void send(const signing::PublicKey &to, const GroupId &group, const PeerFrame &frame) noexcept override {
    world.tell();
    if (to != world.own.key) {
      world.changedMembers[1 - number].owner->groups()->take(world.changedMembers[number].key, group, frame);
      return;
    }
    if (const std::shared_ptr<Link> link = world.endOf(number)) {
      link->write(world.script.bytesOf(number, group, frame));
    }
  }
  owner::LinkFigures figures() override { return {}; }

private:
  PeerWorld &world;
  const unsigned number;
};

PeerWorld::PeerWorld(PeerScript &script)
    : script(script),
      address("inproc://fuzz-peers-" + std::to_string(reinterpret_cast<uintptr_t>(this))), programs{sumsOf(false),
                                                                                                    sumsOf(false),
                                                                                                    sumsOf(true)} {
  unsigned seed = 1;
  make(honestMembers[0], ++seed, /*isNeighbour=*/true);
  make(honestMembers[1], ++seed, /*isNeighbour=*/true);
  do { // of two owners, the one with the smaller key dials
    make(changedMembers[0], ++seed, /*isNeighbour=*/false);
    make(changedMembers[1], ++seed, /*isNeighbour=*/false);
    make(own, ++seed, /*isNeighbour=*/true);
  } while (own.key < changedMembers[0].key || own.key < changedMembers[1].key);
  for (unsigned number = 0; number < 2; ++number) {
    llvm::cantFail(own.owner->addPeer({"peer" + std::to_string(number), changedMembers[number].key, "inproc://none"}));
    changedMembers[number].owner->groups()->attach(std::make_shared<Routes>(*this, number));
    registerTables(honestMembers[number], 20 * number);
    registerTables(changedMembers[number], 20 * number);
  }
  registerTables(own, 10);
  links = llvm::cantFail(owner::PeerLinks::start(*own.owner, address));
  honestId = join({&own, &honestMembers[0], &honestMembers[1]}, honestClients);
}

PeerWorld::~PeerWorld() {
  leave();
  links.reset();
  setEnd(0, nullptr);
  setEnd(1, nullptr);
}

void PeerWorld::setEnd(unsigned number, std::shared_ptr<Link> end) {
  {
    std::lock_guard lock(endsMutex);
    ends[number].swap(end);
  }
  if (end) {
    end->finish(); // a thread of it may hold it still, and would end itself
  }
}

std::shared_ptr<PeerWorld::Link> PeerWorld::endOf(unsigned number) {
  std::lock_guard lock(endsMutex);
  return ends[number];
}

void PeerWorld::make(Member &member, unsigned seed, bool isNeighbour) {
  member.world.random.seed(seed);
  owner::Environment environment = member.world.environment();
  environment.isNeighbour = isNeighbour;
  member.owner = std::make_unique<owner::Owner>(environment, smallLimits());
  member.key = *signing::parseKey(member.owner->key());
}

/// "c", shared in the clear with all others, and "s", as sums: four rows from `first` on.
void PeerWorld::registerTables(Member &member, unsigned first) {
  std::vector<signing::PublicKey> others;
  for (const Member *each : {&own, &changedMembers[0], &changedMembers[1], &honestMembers[0], &honestMembers[1]}) {
    if (each != &member) {
      others.push_back(each->key);
    }
  }
  std::array<double, 4> rows{};
  for (size_t row = 0; row < rows.size(); ++row) {
    rows[row] = static_cast<double>(first + row);
  }
  for (const char *name : {"c", "s"}) {
    owner::RegisterOptions options;
    options.name = name;
    options.policy = owner::Policy::open;
    owner::DatasetSource source;
    source.arrays = {{"a", runtime::Element::f64, 4, rows.data(), {}}};
    llvm::cantFail(member.owner->registerDataset(source, options));
    llvm::cantFail(member.owner->share(name, others, name[0] == 'c' ? owner::Sharing::clear : owner::Sharing::sums));
  }
}

bool PeerWorld::isLinkOver() const {
  return std::any_of(ends.begin(), ends.end(), [](const std::shared_ptr<Link> &end) { return !end || end->isOver(); });
}

/// The owner has forgotten a link before the next one comes: else that would end a group that was made meanwhile.
void PeerWorld::linkAll() {
  const std::atomic<bool> never = false;
  const auto isLinked = [&](size_t count) { return own.owner->figures().linkedPeers == count; };
  size_t left = 0;
  for (unsigned number = 0; number < 2; ++number) {
    if (ends[number] && ends[number]->isOver()) {
      setEnd(number, nullptr);
    }
    left += ends[number] != nullptr;
  }
  if (!comesTrue([&] { return isLinked(left); })) {
    broken("an owner keeps a link that has ended");
  }
  for (unsigned number = 0; number < 2; ++number) {
    if (ends[number]) {
      continue;
    }
    auto stream = owner::dialPeer({"own", own.key, address}, changedMembers[number].owner->accounts().key(),
                                  owner::LinkPurpose::link, never);
    if (!stream) {
      broken("an owner whose links ended gets no new one: " + llvm::toString(stream.takeError()));
    }
    setEnd(number, std::make_shared<Link>(*this, changedMembers[number], std::move(*stream)));
  }
  if (!comesTrue([&] { return isLinked(2); })) {
    broken("an owner does not keep a new link");
  }
}

GroupId PeerWorld::join(const Roles &roles, Clients &clients) {
  std::vector<signing::PublicKey> keys;
  for (const Member *member : roles) {
    keys.push_back(member->key);
  }
  std::string nonce(32, 'n');
  std::memcpy(nonce.data(), &++nonces, sizeof nonces);
  for (unsigned role = 0; role < kMembers; ++role) {
    clients[role] = std::make_unique<Client>(*roles[role]->owner);
    const Reply joined = clients[role]->send(joinBytes(clients[role]->session, role, nonce, keys));
    if (!joined.error().empty()) {
      broken("a group cannot be made: " + joined.error());
    }
  }
  return owner::groupIdOf(nonce, "", keys);
}

void PeerWorld::leave() {
  for (std::unique_ptr<Client> &client : changedClients) {
    if (client) {
      client->send(byeBytes(client->session));
      client.reset();
    }
  }
  isJoined = false;
  if (script.isChanged()) { // a link may wait for the rest of a frame, or end later by what is on its way
    setEnd(0, nullptr);
    setEnd(1, nullptr);
  }
  if (!comesTrue([&] { return own.owner->figures().peerBytesWaiting == 0; })) {
    broken("terms outlive their group");
  }
}

void PeerWorld::joinChanged() {
  if (isLinkOver()) {
    isJoined = false;
  }
  if (isJoined) {
    return;
  }
  leave();
  linkAll();
  script.forget();
  changedSequence = {};
  join({&changedMembers[0], &own, &changedMembers[1]}, changedClients);
  isJoined = true;
}

/// Until all have answered. A step that waits for what was changed ends with its links.
void PeerWorld::watch(const std::atomic<unsigned> &left) {
  const auto begin = Clock::now();
  for (bool isClosed = false; left > 0; std::this_thread::sleep_for(std::chrono::microseconds(100))) {
    if (Clock::now() - begin > kLong) {
      broken("a step waits without end at " + std::to_string(left) + " members");
    }
    const auto still = Clock::now() - Clock::time_point(Clock::duration(crossed.load()));
    if (!isClosed && script.isChanged() && still > kStill) {
      isClosed = true;
      for (const std::shared_ptr<Link> &end : ends) {
        end->close();
      }
    }
  }
}

PeerWorld::Errors PeerWorld::run(const Roles &roles, Clients &clients, Sequence &sequence, unsigned program,
                                 bool isChanged) {
  StepRequest request;
  request.sequence = sequence.number;
  request.attempt = sequence.attempt;
  request.masked = true;
  request.results = {sequence.handle + 1};
  if (sequence.handle > 0) {
    request.releases = {sequence.handle};
  }
  const runtime::EncodedProgram &encoded = programs[program];
  request.hash.assign(encoded.hash.begin(), encoded.hash.end());
  request.program = encoded.program;
  request.debug = encoded.debug;
  const char *table = program == 0 ? "c" : "s";
  for (const Member *member : roles) {
    request.tables.emplace_back(table, llvm::cantFail(member->owner->dataset(table)).version);
  }
  std::array<std::string, kMembers> replies;
  std::vector<std::thread> threads;
  std::atomic<unsigned> left = kMembers;
  tell();
  for (unsigned role = 0; role < kMembers; ++role) {
    request.session = clients[role]->session;
    threads.emplace_back([&, role, bytes = stepBytes(request)] {
      replies[role] = roles[role]->owner->handle(bytes, owner::Peer::owner);
      --left;
    });
  }
  watch(left);
  for (std::thread &thread : threads) {
    thread.join();
  }
  const bool isAny = isChanged && script.isChanged();
  Errors errors;
  for (unsigned role = 0; role < kMembers; ++role) {
    errors[role] = outcomeOf(replies[role], isAny);
    if (!errors[role].empty() && !isAny) {
      broken("an honest step fails: " + errors[role]);
    }
  }
  return errors;
}

PeerWorld::Outcome PeerWorld::step(uint8_t message) {
  joinChanged();
  script.beginMessage(message); // what members said when they left a group before does not count
  Outcome outcome;
  outcome.errors =
      run({&changedMembers[0], &own, &changedMembers[1]}, changedClients, changedSequence, message % kPrograms,
          /*isChanged=*/true);
  if (const size_t waiting = own.owner->figures().peerBytesWaiting; waiting > smallLimits().peerBytes) {
    broken(std::to_string(waiting) + " bytes of terms wait");
  }
  for (const std::shared_ptr<Link> &end : ends) {
    outcome.isLinkEnded |= end->isEnded && !end->isClosed;
  }
  const auto failed = static_cast<unsigned>(
      std::count_if(outcome.errors.begin(), outcome.errors.end(), [](const auto &error) { return !error.empty(); }));
  if (failed == 0) {
    ++changedSequence.number;
    ++changedSequence.handle;
    changedSequence.attempt = 0;
  } else if (failed == kMembers && changedSequence.attempt == 0) {
    ++changedSequence.attempt; // as a client does
  } else {
    isJoined = false;
  }
  return outcome;
}

void PeerWorld::honestStep(unsigned program) {
  run({&own, &honestMembers[0], &honestMembers[1]}, honestClients, honestSequence, program, /*isChanged=*/false);
  ++honestSequence.number;
  ++honestSequence.handle;
}

void PeerWorld::connect(const PeerChange &change) {
  const std::atomic<bool> never = false;
  owner::Talk talk(Clock::now() + milliseconds(500), never);
  if (talk.dial(address, nullptr) != 0) {
    return;
  }
  const signing::PublicKey &key = changedMembers[change.member % 2].key;
  signing::Writer hello;
  hello(owner::kLinkVersion, key, own.key, std::array<uint8_t, 32>{change.index}, owner::LinkPurpose::link);
  std::string bytes = std::move(hello.bytes);
  if (change.index % 2) {
    bytes[change.place % bytes.size()] ^= static_cast<char>(1 << change.value % 8);
  } else if (change.index % 4 == 2) {
    bytes.resize(change.place % (2 * bytes.size()));
  }
  auto kind = change.index % 16 == 5 ? stream::FrameKind::peer : stream::FrameKind::message;
  if (talk.send(kind, bytes) != 0 || talk.receive(kind, bytes, 4'096) != 0) {
    return;
  }
  bytes.assign(change.value % 3 == 0 ? change.place % 128 : sizeof(signing::Signature),
               static_cast<char>(change.value));
  if (talk.send(stream::FrameKind::message, bytes) == 0 && talk.receive(kind, bytes, 4'096) == 0) {
    broken("a connection without the proof of its key gets an answer");
  }
}

} // namespace sojourn::fuzz
