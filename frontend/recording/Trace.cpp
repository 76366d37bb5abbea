// SPDX-License-Identifier: Apache-2.0
// Intern tables and the key of a trace.
#include "frontend/recording/Trace.h"

#include <xxhash.h>

#include <atomic>
#include <mutex>
#include <stdexcept>

namespace sojourn::frontend {

namespace {
std::mutex tableMutex;
std::atomic<bool> collide{false};
} // namespace

OpTable &OpTable::get() {
  static OpTable table;
  return table;
}

Word OpTable::intern(const OpEntry &entry) {
  std::lock_guard lock(tableMutex);
  entries_.push_back(entry);
  return static_cast<Word>(entries_.size()) - 1;
}

const OpEntry &OpTable::at(Word id) const {
  std::lock_guard lock(tableMutex);
  return entries_.at(id);
}

PlaceTable &PlaceTable::get() {
  static PlaceTable table;
  return table;
}

Word PlaceTable::intern(const wire::Place &place) {
  if (place.kind == wire::Place::Kind::All) {
    return 0;
  }
  std::lock_guard lock(mutex_);
  auto [known, isNew] = ids_.try_emplace(place, static_cast<Word>(places_.size()));
  if (isNew) {
    places_.push_back(place);
  }
  return known->second;
}

wire::Place PlaceTable::at(Word id) const {
  std::lock_guard lock(mutex_);
  return places_[static_cast<size_t>(id)];
}

StringTable &StringTable::get() {
  static StringTable table;
  return table;
}

Word StringTable::intern(std::string_view text) {
  std::lock_guard lock(tableMutex);
  auto [it, inserted] = ids_.try_emplace(std::string(text), static_cast<Word>(entries_.size()));
  if (inserted) {
    entries_.emplace_back(text);
  }
  return it->second;
}

const std::string &StringTable::at(Word id) const {
  std::lock_guard lock(tableMutex);
  return entries_.at(id);
}

Trace::Mark Trace::mark() const {
  return {inputs.size(), words.size(), slots.size(), seeds.size(), origins.size(), storageCount, defaultFloat};
}

void Trace::truncate(const Mark &mark) {
  inputs.resize(mark.inputs);
  words.resize(mark.words);
  slots.resize(mark.slots);
  slotOps.resize(mark.slots);
  seeds.resize(mark.seeds);
  origins.resize(mark.origins);
  storageCount = mark.storages;
  defaultFloat = mark.defaultFloat;
}

void Trace::clear() {
  constexpr size_t kUsualWords = size_t{1} << 20;
  if (words.capacity() > kUsualWords) {
    *this = {};
    return;
  }
  inputs.clear();
  words.clear();
  tables.clear();
  slots.clear();
  slotOps.clear();
  runNumbers = 0;
  seeds.clear();
  origins.clear();
  storageCount = 0;
  defaultFloat = Element::f32;
}

std::vector<Origin> originsOfSlots(const Trace &trace) {
  std::vector<Origin> origins;
  for (uint32_t op : trace.slotOps) {
    origins.push_back(trace.origins.at(op));
  }
  return origins;
}

TraceKey hashTrace(const Trace &trace) { return hashTrace(trace, trace.words, {}); }

TraceKey hashTrace(const Trace &trace, const std::vector<Word> &words, const std::vector<Word> &more) {
  if (collide) {
    return {1, 1};
  }
  auto hashOf = [](const std::vector<Word> &part) { return XXH3_64bits(part.data(), part.size() * sizeof(Word)); };
  XXH64_hash_t seed = hashOf(trace.inputs) ^ hashOf(trace.tables) * 31 ^ hashOf(more) * 961;
  XXH128_hash_t hash = XXH3_128bits_withSeed(words.data(), words.size() * sizeof(Word), seed);
  return {hash.low64, hash.high64};
}

void forceHashCollisions(bool enabled) { collide = enabled; }

} // namespace sojourn::frontend
