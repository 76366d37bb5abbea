// SPDX-License-Identifier: Apache-2.0
// Sessions at an owner (see World.h).
#include "test/attack/World.h"

#include "test/attack/Seam.h"

#include "llvm/ADT/STLExtras.h"

#include <sodium.h>

#include <random>

using namespace sojourn;
using namespace sojourn::attack;

/// libsodium's randomness, repeatable: keys and coins of a world follow from its seed.
/// Without a world, as for other owners of the process, from a source that outlives all.
static std::mt19937_64 &rest = *new std::mt19937_64(std::random_device{}());
static std::mt19937_64 *source = &rest;
static const char *name() { return "attack"; }
static void fill(void *const out, const size_t size) {
  for (size_t index = 0; index < size; ++index) {
    static_cast<uint8_t *>(out)[index] = static_cast<uint8_t>((*source)());
  }
}
static uint32_t number() { return static_cast<uint32_t>((*source)()); }

World::World(uint64_t seed, const owner::Limits &limits) : system(seed) {
  static randombytes_implementation implementation = {name, number, nullptr, nullptr, fill, nullptr};
  source = &system;
  static const bool isSet = randombytes_set_implementation(&implementation) == 0 && sodium_init() >= 0;
  if (!isSet) {
    llvm::report_fatal_error("libsodium takes no randomness of the tool");
  }
  system.seed(seed); // libsodium takes some of it when it starts
  support.random.seed(seed);
  owner = std::make_unique<owner::Owner>(support.environment(), limits);
  if (!owner->status().empty()) {
    llvm::report_fatal_error(llvm::Twine("no owner: ") + owner->status());
  }
  Dice dice(seed);
  for (const TableShape &shape : tableShapes()) {
    Contents(shape, dice).enter(*owner);
    versions.push_back(llvm::cantFail(owner->dataset(shape.name)).version);
  }
  clients = std::make_unique<Clients>(*owner);
}

World::~World() {
  source = &system;
  owner.reset();
  source = &rest;
}

std::string World::send(const std::string &request, size_t client) {
  source = &system;
  ++support.now;
  ++support.elapsed;
  return owner->handle(request, clients->peer(client));
}

uint64_t World::connect(size_t client) {
  return clients->connect(client, [&](const std::string &bytes) { return send(bytes, client); });
}

void World::passTime(int64_t milliseconds) {
  support.now += milliseconds;
  support.elapsed += milliseconds;
}

std::string World::version(llvm::StringRef table) const {
  for (auto [shape, text] : llvm::zip(tableShapes(), versions)) {
    if (shape.name == table) {
      return text;
    }
  }
  return "";
}

World::Session &World::session(size_t client) {
  auto [known, isNew] = sessions.try_emplace(client);
  if (isNew) {
    known->second.id = connect(client);
  }
  return known->second;
}

void World::sendAhead(owner::test::StepRequest &step, size_t client) {
  auto sendAll = [&](std::vector<owner::test::Upload> &uploads) {
    for (owner::test::Upload &upload : uploads) {
      if (upload.sentAhead == 0) {
        continue;
      }
      size_t half = upload.data.size() / 2;
      for (size_t from : {size_t{0}, half}) {
        send(owner::test::uploadBytes(step.session, upload.sentAhead, upload.data.size(), from,
                                      upload.data.substr(from, from == 0 && half > 0 ? half : std::string::npos)),
             client);
      }
      upload.data.clear();
    }
  };
  sendAll(step.uploads);
  for (owner::test::StepRequest &next : step.repetitions) {
    sendAll(next.uploads);
  }
}

Transcript World::play(const Attack &attack, const std::vector<runtime::EncodedProgram> &programs) {
  source = &system;
  system.seed(attack.seed); // whatever came before it
  support.random.seed(attack.seed);
  support.logged.clear();
  sessions.clear();
  Transcript transcript;
  bool hasClients = llvm::any_of(attack.steps, [](const AttackStep &step) { return step.client > 0; });
  std::vector<std::string> before = hasClients ? clients->spent(*owner) : std::vector<std::string>();
  for (size_t number = 0; number < attack.steps.size(); ++number) {
    owner::test::StepRequest step = attack.steps[number].terms;
    size_t client = attack.steps[number].client;
    const runtime::EncodedProgram &program = programs[number];
    Session &mine = session(client);
    step.session = mine.id;
    step.sequence = mine.sequence;
    step.hash.assign(program.hash.begin(), program.hash.end());
    if (!attack.steps[number].isNamed) {
      step.program = program.program;
      step.debug = program.debug;
    }
    for (owner::test::TableName &table : step.tables) {
      for (auto [shape, version] : llvm::zip(tableShapes(), versions)) {
        table.version = shape.name == table.name ? version : table.version;
      }
    }
    sendAhead(step, client);
    std::string bytes = send(owner::test::stepBytes(step), client);
    if (owner::test::Reply(bytes).kind() == sojourn_wire::ReplyBody_NeedProgram) {
      step.program = program.program;
      step.debug = program.debug;
      bytes = send(owner::test::stepBytes(step), client);
    }
    owner::test::Reply reply(bytes);
    const auto *done = reply.root->body_as_Done();
    transcript.replies.push_back(bytes);
    transcript.accepted.push_back(done != nullptr);
    transcript.errors.push_back(reply.error());
    mine.sequence += transcript.accepted.back();
    std::vector<std::string> after = hasClients ? clients->spent(*owner) : std::vector<std::string>();
    for (auto [other, was, is] : llvm::enumerate(before, after)) {
      if (other != client && was != is) {
        transcript.meddled = "step " + std::to_string(number) + " of client " + std::to_string(client) +
                             " changes the books of client " + std::to_string(other) + ": " + was + "becomes " + is;
      }
    }
    before = std::move(after);
  }
  for (const auto &[client, mine] : sessions) {
    send(owner::test::byeBytes(mine.id), client);
  }
  for (const std::string &line : support.logged) {
    transcript.log += line + "\n";
  }
  for (const std::string &charges : clients->spent(*owner)) {
    transcript.spent += charges;
  }
  return transcript;
}
