// SPDX-License-Identifier: Apache-2.0
// The step message to bytes and back.
#include "runtime/wire/Protocol.h"
#include "runtime/wire/Step.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace sojourn::wire {

namespace {

namespace schema = sojourn_wire;

/// A rank that no tensor reaches; more is garbage.
constexpr size_t kRankMax = 64;
/// Ids that are written as a range: fewer take fewer bytes in a list.
constexpr size_t kRangeLeast = 3;
/// And the most that are read from the ranges of a message together: a few bytes say as many as they like.
constexpr size_t kRangeMost = size_t{1} << 20;

std::atomic<uint64_t> copied{0};

flatbuffers::Offset<flatbuffers::Vector<uint8_t>> bytes(flatbuffers::FlatBufferBuilder &builder,
                                                        std::span<const uint8_t> data, size_t alignment) {
  // Nested buffers and tensors are read in place: they keep an alignment of their own.
  builder.ForceVectorAlignment(data.size(), 1, alignment);
  uint8_t *target = nullptr;
  auto vector = builder.CreateUninitializedVector<uint8_t>(data.size(), &target);
  if (!data.empty()) {
    std::memcpy(target, data.data(), data.size());
  }
  return vector;
}

std::span<const uint8_t> bytesOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

std::string_view textOf(const flatbuffers::Vector<uint8_t> *vector) {
  return vector ? std::string_view(reinterpret_cast<const char *>(vector->data()), vector->size()) : std::string_view();
}

/// The verifier does not ask where elements stand: these may be at any address.
template <typename T>
std::vector<T> copyOf(const flatbuffers::Vector<T> *vector) {
  std::vector<T> numbers(vector ? vector->size() : 0);
  if (!numbers.empty()) {
    std::memcpy(numbers.data(), vector->Data(), numbers.size() * sizeof(T));
  }
  return numbers;
}

std::string nameOf(const flatbuffers::String *text) { return text ? text->str() : std::string(); }

/// Nothing where everything is default.
flatbuffers::Offset<schema::Spending> encode(flatbuffers::FlatBufferBuilder &builder, const Spending &spending) {
  if (spending.isDefault()) {
    return 0;
  }
  std::vector<flatbuffers::Offset<schema::ReleaseTerms>> releases;
  for (const ReleaseTerms &terms : spending.releases) {
    releases.push_back(schema::CreateReleaseTerms(builder, terms.bound, terms.epsilon, terms.delta, terms.continues));
  }
  auto releaseVector = builder.CreateVector(releases);
  return schema::CreateSpending(builder, spending.run, spending.steps, spending.noiseMultiplier, spending.clip,
                                spending.perLayer, spending.lossIsSum, spending.metricShare, releaseVector);
}

using NumbersOffset = flatbuffers::Offset<flatbuffers::Vector<uint64_t>>;
using TensorsOffset = flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<schema::Tensor>>>;

/// Absent vectors cost nothing on the wire.
NumbersOffset encode(flatbuffers::FlatBufferBuilder &builder, const std::vector<uint64_t> &numbers) {
  return numbers.empty() ? NumbersOffset() : builder.CreateVector(numbers);
}

/// Handle ids as a message has them: consecutive ones at the end need a number and a count.
struct WrittenIds {
  NumbersOffset list;
  uint64_t first = 0;
  uint32_t count = 0;
};

WrittenIds encodeIds(flatbuffers::FlatBufferBuilder &builder, const std::vector<uint64_t> &ids) {
  size_t begin = ids.size();
  while (begin > 0 && (begin == ids.size() || ids[begin - 1] + 1 == ids[begin])) {
    --begin;
  }
  if (ids.size() - begin < kRangeLeast) {
    return {encode(builder, ids)};
  }
  return {begin == 0 ? NumbersOffset() : builder.CreateVector(ids.data(), begin), ids[begin],
          static_cast<uint32_t>(ids.size() - begin)};
}

/// Releases have no order.
WrittenIds encodeSorted(flatbuffers::FlatBufferBuilder &builder, std::vector<uint64_t> ids) {
  std::sort(ids.begin(), ids.end());
  return encodeIds(builder, ids);
}

/// Takes the handles of a range from `room`. Returns the problem, or an empty text.
std::string decode(const HandleIds &message, std::vector<uint64_t> &ids, size_t &room) {
  if (message.count() > room) {
    return "a range has " + std::to_string(message.count()) + " handles, expected up to " + std::to_string(room) +
           " more in this message";
  }
  room -= message.count();
  ids = copyOf(message.list());
  for (size_t index = ids.size(); index < message.size(); ++index) {
    ids.push_back(message[index]);
  }
  return {};
}

TensorsOffset encode(flatbuffers::FlatBufferBuilder &builder, const std::vector<TensorView> &tensors) {
  std::vector<flatbuffers::Offset<schema::Tensor>> written;
  for (const TensorView &tensor : tensors) {
    auto data = bytes(builder, tensor.sentAhead ? std::span<const uint8_t>() : tensor.data, kUploadAlignment);
    countCopied(tensor.sentAhead ? 0 : tensor.data.size());
    written.push_back(
        schema::CreateTensor(builder, tensor.element, builder.CreateVector(tensor.dims), data, tensor.sentAhead));
  }
  return written.empty() ? TensorsOffset() : builder.CreateVector(written);
}

flatbuffers::Offset<schema::Repetition> encode(flatbuffers::FlatBufferBuilder &builder, const Repetition &repetition) {
  auto uploads = encode(builder, repetition.uploads);
  auto states = encode(builder, repetition.states), slots = encode(builder, repetition.slots);
  auto seeds = encode(builder, repetition.seeds);
  const WrittenIds results = encodeIds(builder, repetition.results);
  const WrittenIds releases = encodeSorted(builder, repetition.releases);
  return schema::CreateRepetition(builder, states, uploads, slots, seeds, results.list, releases.list, results.first,
                                  results.count, releases.first, releases.count);
}

size_t boundOf(const std::vector<TensorView> &tensors) {
  size_t total = 0;
  for (const TensorView &tensor : tensors) {
    total += 96 + 8 * tensor.dims.size() + (tensor.sentAhead ? 0 : tensor.data.size());
  }
  return total;
}

std::string decode(const flatbuffers::Vector<flatbuffers::Offset<schema::Tensor>> *message,
                   std::vector<TensorView> &tensors) {
  if (message) {
    for (const schema::Tensor *tensor : *message) {
      if (std::string problem = wire::decode(*tensor, tensors.emplace_back()); !problem.empty()) {
        return problem;
      }
    }
  }
  return {};
}

} // namespace

bool Spending::isDefault() const {
  return run == 0 && steps == 0 && noiseMultiplier == 0 && clip == 0 && !perLayer && !lossIsSum && metricShare < 0 &&
         std::all_of(releases.begin(), releases.end(), [](const ReleaseTerms &terms) {
           return terms.bound == 0 && terms.epsilon == 0 && terms.delta == 0;
         });
}

void Step::begin(Repetition next) {
  auto unlessEmpty = [](auto &mine, auto &given) {
    if (!given.empty()) {
      mine = std::move(given);
    }
  };
  unlessEmpty(states, next.states);
  unlessEmpty(slots, next.slots);
  unlessEmpty(uploads, next.uploads);
  seeds = std::move(next.seeds);
  results = std::move(next.results);
  releases = std::move(next.releases);
}

flatbuffers::Offset<schema::Step> encode(flatbuffers::FlatBufferBuilder &builder, const Step &step) {
  auto optional = [&](std::string_view text) {
    return text.empty() ? flatbuffers::Offset<flatbuffers::Vector<uint8_t>>() : bytes(builder, bytesOf(text), 8);
  };
  auto program = optional(step.program), debug = optional(step.debug);
  auto uploads = encode(builder, step.uploads);
  std::vector<flatbuffers::Offset<schema::TableBinding>> tables;
  for (const TableBinding &table : step.tables) {
    // Tables of several owners often share their name.
    auto name = builder.CreateSharedString(table.name), version = builder.CreateSharedString(table.version);
    tables.push_back(schema::CreateTableBinding(builder, name, version));
  }
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<schema::TableBinding>>> tableVector;
  if (!tables.empty()) {
    tableVector = builder.CreateVector(tables);
  }
  auto hash = builder.CreateVector(step.hash.data(), step.hash.size());
  auto states = encode(builder, step.states), slots = encode(builder, step.slots);
  auto seeds = encode(builder, step.seeds);
  const WrittenIds results = encodeIds(builder, step.results), releases = encodeSorted(builder, step.releases);
  auto spending = encode(builder, step.spending);
  std::vector<flatbuffers::Offset<schema::Repetition>> repetitions;
  for (const Repetition &repetition : step.repetitions) {
    repetitions.push_back(encode(builder, repetition));
  }
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<schema::Repetition>>> repetitionVector;
  if (!repetitions.empty()) {
    repetitionVector = builder.CreateVector(repetitions);
  }
  return schema::CreateStep(builder, step.session, step.sequence, hash, program, debug, states, uploads, slots, seeds,
                            tableVector, results.list, releases.list, spending, repetitionVector, step.deadlineMs,
                            step.mark, step.attempt, step.isMasked, results.first, results.count, releases.first,
                            releases.count);
}

size_t encodedBound(const Step &step) {
  size_t total = 512 + step.program.size() + step.debug.size();
  total +=
      8 * (step.states.size() + step.slots.size() + step.seeds.size() + step.results.size() + step.releases.size());
  total += boundOf(step.uploads);
  for (const Repetition &each : step.repetitions) {
    total += 128 + boundOf(each.uploads);
    total +=
        8 * (each.states.size() + each.slots.size() + each.seeds.size() + each.results.size() + each.releases.size());
  }
  for (const TableBinding &table : step.tables) {
    total += 64 + table.name.size() + table.version.size();
  }
  total += 128 + 64 * step.spending.releases.size();
  return total;
}

std::string decode(const schema::Tensor &message, TensorView &tensor) {
  tensor = {};
  if (message.element() >= kElementCount) {
    return "element type " + std::to_string(message.element()) + " is unknown";
  }
  tensor.element = message.element();
  tensor.dims = copyOf(message.dims());
  if (tensor.dims.size() > kRankMax ||
      std::any_of(tensor.dims.begin(), tensor.dims.end(), [](int64_t dim) { return dim < 0; })) {
    return "a tensor has invalid sizes";
  }
  tensor.data = bytesOf(textOf(message.data()));
  tensor.sentAhead = message.sent_ahead();
  return {};
}

Spending decode(const schema::Spending &message) {
  Spending spending;
  spending.run = message.run();
  spending.steps = message.steps();
  spending.noiseMultiplier = message.noise_multiplier();
  spending.clip = message.clip();
  spending.perLayer = message.per_layer();
  spending.lossIsSum = message.loss_is_sum();
  spending.metricShare = message.metric_share();
  if (message.releases()) {
    for (const schema::ReleaseTerms *terms : *message.releases()) {
      spending.releases.push_back({terms->bound(), terms->epsilon(), terms->delta(), terms->continues()});
    }
  }
  return spending;
}

std::string decode(const schema::Step &message, Step &step) {
  step = {};
  step.session = message.session();
  step.sequence = message.sequence();
  std::string_view hash = textOf(message.program_hash());
  if (hash.size() != step.hash.size()) {
    return "a program hash has " + std::to_string(hash.size()) + " bytes, expected " + std::to_string(step.hash.size());
  }
  std::copy(hash.begin(), hash.end(), step.hash.begin());
  step.program = textOf(message.program());
  step.debug = textOf(message.debug());
  step.states = numbersOf(message.states());
  step.slots = numbersOf(message.slots());
  step.seeds = numbersOf(message.seeds());
  size_t room = kRangeMost;
  std::string problem = decode(HandleIds::results(message), step.results, room);
  problem = problem.empty() ? decode(HandleIds::releases(message), step.releases, room) : problem;
  problem = problem.empty() ? decode(message.uploads(), step.uploads) : problem;
  if (!problem.empty()) {
    return problem;
  }
  if (message.tables()) {
    for (const schema::TableBinding *table : *message.tables()) {
      step.tables.push_back({nameOf(table->name()), nameOf(table->version())});
    }
  }
  if (const schema::Spending *spending = message.spending()) {
    step.spending = decode(*spending);
  }
  if (message.repetitions()) {
    for (const schema::Repetition *each : *message.repetitions()) {
      Repetition &repetition = step.repetitions.emplace_back();
      repetition.states = numbersOf(each->states());
      repetition.slots = numbersOf(each->slots());
      repetition.seeds = numbersOf(each->seeds());
      problem = decode(HandleIds::results(*each), repetition.results, room);
      problem = problem.empty() ? decode(HandleIds::releases(*each), repetition.releases, room) : problem;
      problem = problem.empty() ? decode(each->uploads(), repetition.uploads) : problem;
      if (!problem.empty()) {
        return problem;
      }
    }
  }
  step.deadlineMs = message.deadline_ms();
  step.attempt = message.attempt();
  step.isMasked = message.masked();
  return {};
}

std::vector<uint64_t> numbersOf(const flatbuffers::Vector<uint64_t> *vector) { return copyOf(vector); }

uint64_t copiedBytes() { return copied; }

void countCopied(size_t bytes) { copied += bytes; }

} // namespace sojourn::wire
