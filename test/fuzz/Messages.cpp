// SPDX-License-Identifier: Apache-2.0
// Messages of three clients at an owner of private and open tables. Session ids, sequence numbers, hashes of programs
// and versions of tables are put right in each message, so that it gets past the first checks; nothing else is.
#include "owner/Text.h"
#include "runtime/Limits.h"
#include "runtime/Program.h"
#include "runtime/wire/Step.h"
#include "test/attack/World.h"
#include "test/fuzz/MessageMutator.h"
#include "test/fuzz/Target.h"
#include "test/fuzz/Traffic.h"

#include "llvm/ADT/StringExtras.h"

#include <cstring>
#include <map>

namespace sojourn::fuzz {

namespace wire_ = sojourn_wire;

namespace {

/// A world remembers programs and budgets: inputs share one, so that they are many, and it is renewed, so that a
/// finding needs few of them.
constexpr size_t kInputsPerWorld = 50;
constexpr size_t kMessagesMost = 48;
constexpr int64_t kPauseMs = 11 * 60 * 1000;

owner::Limits smallLimits() {
  owner::Limits limits;
  limits.requestBytes = limits.replyBytes = size_t{1} << 22;
  limits.handleBytes = size_t{1} << 26;
  limits.price.operations = 3'000'000;
  limits.price.arenaBytes = limits.price.scratchBytes = uint64_t{16} << 20;
  limits.price.planBytes = uint64_t{64} << 20;
  limits.runningArenaBytes = size_t{256} << 20;
  limits.threads = 2;
  limits.cachedPlans = 32;
  return limits;
}

/// Writes a number into a field of a verified table; a field that is absent stays so.
template <class T>
void setField(const flatbuffers::Table *table, flatbuffers::voffset_t field, T value) {
  if (const uint8_t *place = table->GetAddressOf(field)) {
    std::memcpy(const_cast<uint8_t *>(place), &value, sizeof value);
  }
}

const flatbuffers::Table *asTable(const void *message) { return static_cast<const flatbuffers::Table *>(message); }

struct ClientState {
  uint64_t session = 0, committed = 0;
  bool isTried = false;
};

class Messages final : public Target {
protected:
  void play(std::string_view input) override;
  std::string change(std::string input, size_t most, Dice &dice) override {
    return mutateTraffic(std::move(input), most, kMessagesMost, dice);
  }

public:
  bool beginsAnew() const override { return used == kInputsPerWorld || !world; }

private:
  void answer(Sent &sent);
  void putRight(Sent &sent, ClientState &client, const wire_::Request &request);
  void putStepRight(const wire_::Step &step, ClientState &client);
  void check(std::string_view reply, bool isStep, ClientState &client);

  std::unique_ptr<attack::World> world;
  size_t used = 0;
  std::map<size_t, ClientState> clients;
  /// Hashes that messages of this input named, and what their programs have.
  std::map<std::string, runtime::ProgramHash> hashes;
};

void Messages::play(std::string_view input) {
  if (beginsAnew()) {
    world.reset();
    world = std::make_unique<attack::World>(7, smallLimits());
    used = 0;
  }
  ++used;
  clients.clear();
  hashes.clear();
  for (Sent &sent : readTraffic(input, kMessagesMost)) {
    answer(sent);
  }
  for (const auto &[client, state] : clients) {
    if (state.session != 0) {
      (void)world->send(owner::test::byeBytes(state.session), client);
    }
  }
}

void Messages::answer(Sent &sent) {
  const size_t number = sent.client % attack::kClients;
  ClientState &client = clients[number];
  if ((sent.flags & Sent::kAfterPause) != 0) {
    world->passTime(kPauseMs);
  }
  if (client.session == 0) {
    client = {world->connect(number), 0};
  }
  const wire_::Request *request = requestIn(sent.bytes);
  if (request != nullptr && (sent.flags & Sent::kAsItIs) == 0) {
    putRight(sent, client, *request);
  }
  const bool isStep = request != nullptr && request->body_type() == wire_::RequestBody_Step;
  check(world->send(sent.bytes, number), isStep, client);
  if (request != nullptr && request->body_type() == wire_::RequestBody_Bye) {
    client.session = 0;
  }
}

void Messages::putRight(Sent &sent, ClientState &client, const wire_::Request &request) {
  const flatbuffers::Table *body = asTable(request.body());
  switch (request.body_type()) {
  case wire_::RequestBody_ListDatasets: return setField(body, wire_::ListDatasets::VT_SESSION, client.session);
  case wire_::RequestBody_Release: return setField(body, wire_::Release::VT_SESSION, client.session);
  case wire_::RequestBody_Bye: return setField(body, wire_::Bye::VT_SESSION, client.session);
  case wire_::RequestBody_Upload: return setField(body, wire_::Upload::VT_SESSION, client.session);
  case wire_::RequestBody_GetBudget: return setField(body, wire_::GetBudget::VT_SESSION, client.session);
  case wire_::RequestBody_Watch: return setField(body, wire_::Watch::VT_SESSION, client.session);
  case wire_::RequestBody_Join: return setField(body, wire_::Join::VT_SESSION, client.session);
  case wire_::RequestBody_Borrow:
    setField(body, wire_::Borrow::VT_FROM, client.session);
    return setField(body, wire_::Borrow::VT_SESSION, client.session);
  case wire_::RequestBody_NameValues: return setField(body, wire_::NameValues::VT_SESSION, client.session);
  case wire_::RequestBody_ListValues: return setField(body, wire_::ListValues::VT_SESSION, client.session);
  case wire_::RequestBody_TakeValues: return setField(body, wire_::TakeValues::VT_SESSION, client.session);
  case wire_::RequestBody_ReleaseNames: return setField(body, wire_::ReleaseNames::VT_SESSION, client.session);
  case wire_::RequestBody_Step: return putStepRight(*request.body_as_Step(), client);
  default: return;
  }
}

void Messages::putStepRight(const wire_::Step &step, ClientState &client) {
  setField(asTable(&step), wire_::Step::VT_SESSION, client.session);
  setField(asTable(&step), wire_::Step::VT_SEQUENCE, client.committed + 1);
  const auto *hash = step.program_hash();
  if (hash != nullptr && hash->size() == wire::kHashBytes) {
    const std::string named(reinterpret_cast<const char *>(hash->data()), hash->size());
    const auto *program = step.program();
    if (program != nullptr && program->size() > 0) {
      hashes[named] = runtime::hashProgram({reinterpret_cast<const char *>(program->data()), program->size()});
    }
    if (auto known = hashes.find(named); known != hashes.end()) {
      std::memcpy(const_cast<uint8_t *>(hash->data()), known->second.data(), known->second.size());
    }
  }
  for (flatbuffers::uoffset_t at = 0; step.tables() != nullptr && at < step.tables()->size(); ++at) {
    const wire_::TableBinding *table = step.tables()->Get(at);
    if (table->name() == nullptr || table->version() == nullptr) {
      continue;
    }
    const std::string version = world->version(table->name()->str());
    if (version.size() == table->version()->size()) {
      std::memcpy(const_cast<char *>(table->version()->c_str()), version.data(), version.size());
    }
  }
}

void Messages::check(std::string_view reply, bool isStep, ClientState &client) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(reply.data()), reply.size());
  if (!verifier.VerifyBuffer<wire_::Reply>(wire_::RequestIdentifier())) {
    broken("a reply of " + std::to_string(reply.size()) + " bytes is none");
  }
  const auto &root = *flatbuffers::GetRoot<wire_::Reply>(reply.data());
  if (const auto *done = root.body_as_Done()) {
    for (const wire_::Tensor *tensor : *done->published()) {
      wire::TensorView view;
      if (std::string problem = wire::decode(*tensor, view); !problem.empty()) {
        broken("a published value is malformed: " + problem);
      }
    }
  }
  client.committed += root.body_type() == wire_::ReplyBody_Done && isStep;
  if (root.body_type() == wire_::ReplyBody_NeedProgram) {
    ++counts.late;
    return;
  }
  const auto *error = root.body_as_Error();
  if (error == nullptr) {
    ++counts.done;
    return;
  }
  const std::string text = error->message() != nullptr ? error->message()->str() : "";
  if (text.empty() || text.size() > runtime::limits::kErrorTextBytes ||
      owner::printable(text, runtime::limits::kErrorTextBytes) != text) {
    broken("an error's text is empty, too long or not printable: " + llvm::toHex(text));
  }
  switch (error->code()) {
  case wire_::ErrorCode_Internal: broken("the owner fails inside: " + text);
  case wire_::ErrorCode_Session: client.session = 0; [[fallthrough]];
  case wire_::ErrorCode_Malformed:
  case wire_::ErrorCode_Version: ++counts.refused; return;
  default: ++counts.late;
  }
}

const Registered known("messages", [] { return std::unique_ptr<Target>(std::make_unique<Messages>()); });

} // namespace

} // namespace sojourn::fuzz
