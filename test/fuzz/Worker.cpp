// SPDX-License-Identifier: Apache-2.0
// The wire between the front of an owner and its worker: a day of one client, of which some calls and answers are
// changed on their way. An input is a list of changes.
#include "owner/Owner.h"
#include "test/fuzz/Target.h"
#include "test/owner/ProxyPort.h"
#include "test/owner/Support.h"

#include <cstring>

namespace sojourn::fuzz {

using namespace owner::test;

namespace {

/// A change of one call, or of its answer.
struct Change {
  uint8_t number; ///< of the call
  uint8_t what;   ///< bit 0: the answer; the rest: the kind of change
  uint16_t place; ///< in bytes
  uint8_t value, index;
  uint16_t rest;
};
static_assert(sizeof(Change) == 8);
constexpr size_t kChangesMost = 6;

void apply(const Change &change, Parcel &parcel) {
  const size_t size = parcel.bytes.size();
  auto word = [&](size_t bytes, uint64_t number) {
    if (size >= bytes) {
      std::memcpy(parcel.bytes.data() + change.place % (size - bytes + 1) / bytes * bytes, &number, bytes);
    }
  };
  static constexpr uint64_t kNumbers[] = {0, 1, 2, 3, 16, 4'096, 65'536, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX};
  const uint64_t number = kNumbers[change.value % std::size(kNumbers)];
  switch (change.what / 2 % 8) {
  case 0: word(1, change.value); break;
  case 1: word(4, number); break;
  case 2:
  case 3: word(8, number); break;
  case 4: parcel.bytes.resize(change.place % (size + 1)); break;
  case 5:
    if (!parcel.memory.empty()) {
      parcel.memory.erase(parcel.memory.begin() + change.index % static_cast<int>(parcel.memory.size()));
    }
    break;
  case 6: parcel.memory.push_back(runtime::copyOf("some bytes", change.value % 11)); break;
  case 7:
    if (!parcel.memory.empty()) {
      auto &buffer = parcel.memory[change.index % parcel.memory.size()];
      buffer = !buffer ? nullptr : runtime::copyOf(buffer->data(), std::min<size_t>(buffer->size(), change.value));
    }
    break;
  }
}

class Worker final : public Target {
protected:
  void play(std::string_view input) override;
  std::string change(std::string input, size_t most, Dice &dice) override;

private:
  struct Programs {
    runtime::EncodedProgram keep = keepProgram(), publish = publishProgram(), read = readProgram(), sum = sumProgram();
  };
  const Programs programs;
};

void Worker::play(std::string_view input) {
  std::vector<Change> changes(std::min(input.size() / sizeof(Change), kChangesMost));
  if (!changes.empty()) {
    std::memcpy(changes.data(), input.data(), changes.size() * sizeof(Change));
  }
  World world;
  auto hooks = std::make_shared<ProxyPort::Hooks>();
  size_t number = 0;
  hooks->call = [&](Parcel &parcel) {
    for (const Change &each : changes) {
      if (each.number == number % 256 && each.what % 2 == 0) {
        apply(each, parcel);
      }
    }
  };
  hooks->answer = [&](Parcel &parcel) {
    for (const Change &each : changes) {
      if (each.number == number % 256 && each.what % 2 == 1) {
        apply(each, parcel);
      }
    }
    ++number;
  };
  owner::Environment environment = world.environment();
  environment.worker = ProxyPort::factory(hooks);
  owner::Limits limits;
  limits.handleBytes = size_t{1} << 26;
  limits.threads = 1;
  owner::Owner owner(environment, limits);
  registerNumbers(owner, "open", owner::Policy::open);
  registerNumbers(owner, "private", owner::Policy::privateOnly);
  llvm::cantFail(owner.grant(owner::kLocalClient, "private", 100, 1e-5));
  Client client(owner);
  auto tell = [&](const Reply &reply) { ++(reply.kind() == owner::wire::ReplyBody_Error ? counts.late : counts.done); };
  for (uint64_t round = 1; round <= 2; ++round) {
    StepRequest keep, ahead, publish, read, sum, several;
    keep.uploads = {f32({3}, {1, 2, 3})};
    keep.results = {10 * round};
    tell(client.run(programs.keep, keep));
    tell(client.send(uploadBytes(client.session, round, 12, 0, bytes<float>({4, 5}))));
    tell(client.send(uploadBytes(client.session, round, 12, 8, bytes<float>({6}))));
    ahead.uploads = {f32({3}, {})};
    ahead.uploads[0].sentAhead = round;
    ahead.results = {10 * round + 1};
    tell(client.run(programs.keep, ahead));
    publish.states = {10 * round};
    Reply published = client.run(programs.publish, publish);
    tell(published);
    if (published.kind() == owner::wire::ReplyBody_Done && published.published(0).size() > 12) {
      broken("a published value has more bytes than the value"); // facts may tell of a smaller type
    }
    read.tables = {"open"};
    read.results = {10 * round + 2};
    tell(client.run(programs.read, read));
    sum.tables = {"private"};
    sum.spending.releases = {{0, 0.5, 0, false}};
    tell(client.run(programs.sum, sum));
    several.uploads = {f32({3}, {1, 2, 3})};
    several.results = {10 * round + 3};
    several.repetitions.resize(3);
    for (size_t at = 0; at < 3; ++at) {
      several.repetitions[at].results = {10 * round + 4 + at};
    }
    tell(client.run(programs.keep, several));
    tell(client.send(releaseBytes(client.session, {10 * round})));
  }
  client.send(byeBytes(client.session));
  // Another worker gets a value and an upload.
  owner::WorkerStub another(environment.worker());
  const runtime::TensorType type{runtime::Element::f32, {3}};
  const std::vector<float> numbers = {1, 2, 3};
  auto memory = [&] { return runtime::copyOf(numbers.data(), type.bytes()); };
  llvm::Error error = another.adopt({{.value = {.type = type, .id = another.newId()}, .memory = memory()},
                                     {.value = {.type = type, .id = another.newId()},
                                      .memory = memory(),
                                      .isUpload = true,
                                      .received = {.bytes = 8, .memory = nullptr}}});
  ++(error ? counts.late : counts.done);
  llvm::consumeError(std::move(error));
}

std::string Worker::change(std::string input, size_t most, Dice &dice) {
  std::vector<Change> changes(std::min(input.size() / sizeof(Change), kChangesMost));
  if (!changes.empty()) {
    std::memcpy(changes.data(), input.data(), changes.size() * sizeof(Change));
  }
  if (changes.empty() || (changes.size() < kChangesMost && dice.chance(0.2))) {
    changes.emplace_back();
  }
  if (changes.size() > 2 && dice.chance(0.4)) {
    changes.erase(changes.begin() + static_cast<std::ptrdiff_t>(dice.below(changes.size())));
  }
  Change &one = changes[dice.below(changes.size())];
  switch (dice.below(4)) {
  case 0: one.number = static_cast<uint8_t>(dice.below(44)); break;
  case 1: one.what = static_cast<uint8_t>(dice.below(16)); break;
  case 2: one.place = static_cast<uint16_t>(dice.below(512)); break;
  default: one.value = static_cast<uint8_t>(dice.below(256)); one.index = static_cast<uint8_t>(dice.below(4));
  }
  std::string made(changes.size() * sizeof(Change), '\0');
  std::memcpy(made.data(), changes.data(), made.size());
  made.resize(std::min(made.size(), most));
  return made;
}

const Registered worker("worker", []() -> std::unique_ptr<Target> { return std::make_unique<Worker>(); });

} // namespace

} // namespace sojourn::fuzz
