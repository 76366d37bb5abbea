// SPDX-License-Identifier: Apache-2.0
// Sessions at an owner (see World.h).
#include "test/attack/World.h"

#include "owner/Accounts.h"
#include "test/attack/Seam.h"

#include <sodium.h>

using namespace sojourn;
using namespace sojourn::attack;

/// libsodium's randomness, repeatable: keys and coins of a world follow from its seed.
static std::mt19937_64 *source = nullptr;
static const char *name() { return "attack"; }
static void fill(void *const out, const size_t size) {
  for (size_t index = 0; index < size; ++index) {
    static_cast<uint8_t *>(out)[index] = static_cast<uint8_t>((*source)());
  }
}
static uint32_t number() { return static_cast<uint32_t>((*source)()); }

World::World(uint64_t seed) : system(seed) {
  static randombytes_implementation implementation = {name, number, nullptr, nullptr, fill, nullptr};
  source = &system;
  static const bool isSet = randombytes_set_implementation(&implementation) == 0 && sodium_init() >= 0;
  if (!isSet) {
    llvm::report_fatal_error("libsodium takes no randomness of the tool");
  }
  system.seed(seed); // libsodium takes some of it when it starts
  support.random.seed(seed);
  owner = std::make_unique<owner::Owner>(support.environment());
  if (!owner->status().empty()) {
    llvm::report_fatal_error(llvm::Twine("no owner: ") + owner->status());
  }
  Dice dice(seed);
  for (const TableShape &shape : tableShapes()) {
    Contents(shape, dice).enter(*owner);
    versions.push_back(llvm::cantFail(owner->dataset(shape.name)).version);
    if (shape.isPrivate) {
      llvm::cantFail(owner->grant(owner::kLocalClient, shape.name, 0x1p16, 1e-5));
    }
  }
}

World::~World() {
  source = &system;
  owner.reset();
}

std::string World::send(const std::string &request, owner::Peer peer) {
  ++support.now;
  ++support.elapsed;
  return owner->handle(request, peer);
}

Transcript World::play(const Attack &attack, const std::vector<runtime::EncodedProgram> &programs) {
  source = &system;
  system.seed(attack.seed); // whatever came before it
  support.random.seed(attack.seed);
  support.logged.clear();
  Transcript transcript;
  owner::Peer peer = owner::Peer::owner;
  owner::test::Reply hello(send(owner::test::helloBytes("mallory"), peer));
  const auto *welcome = hello.root->body_as_Welcome();
  uint64_t session = welcome ? welcome->session() : 0, sequence = 1;
  for (size_t number = 0; number < attack.steps.size(); ++number) {
    owner::test::StepRequest step = attack.steps[number].terms;
    const runtime::EncodedProgram &program = programs[number];
    step.session = session;
    step.sequence = sequence;
    step.hash.assign(program.hash.begin(), program.hash.end());
    step.program = program.program;
    step.debug = program.debug;
    for (owner::test::TableName &table : step.tables) {
      for (auto [shape, version] : llvm::zip(tableShapes(), versions)) {
        table.version = shape.name == table.name ? version : table.version;
      }
    }
    std::string bytes = send(owner::test::stepBytes(step), peer);
    owner::test::Reply reply(bytes);
    transcript.replies.push_back(bytes);
    transcript.accepted.push_back(reply.kind() == sojourn_wire::ReplyBody_Done);
    transcript.errors.push_back(reply.error());
    sequence += transcript.accepted.back();
  }
  send(owner::test::byeBytes(session), peer);
  for (const std::string &line : support.logged) {
    transcript.log += line + "\n";
  }
  for (const TableShape &shape : tableShapes()) {
    if (shape.isPrivate) {
      auto budget = owner->accounts().budget(owner::kLocalClient, shape.name);
      transcript.budgets += budget ? std::to_string(budget->epsilonLeft) + " " : llvm::toString(budget.takeError());
    }
  }
  return transcript;
}
