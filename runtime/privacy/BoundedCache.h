// SPDX-License-Identifier: Apache-2.0
// A small map from parameters to tables that are dear to compute. Header only, thread-safe.
#ifndef SOJOURN_RUNTIME_PRIVACY_BOUNDEDCACHE_H
#define SOJOURN_RUNTIME_PRIVACY_BOUNDEDCACHE_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace sojourn::privacy {

/// Keeps the `limit` values that were asked for last. A value lives on while somebody holds it.
template <typename Key, typename Value>
class BoundedCache {
public:
  explicit BoundedCache(size_t limit) : limit(limit) {}

  /// The value of a key, made by `make()` (a std::shared_ptr<const Value>) if it is not here. It is made
  /// outside the lock: two threads may make it at once, and then share the first one's.
  template <typename Make>
  std::shared_ptr<const Value> get(const Key &key, Make make) {
    if (auto found = find(key)) {
      return found;
    }
    std::shared_ptr<const Value> made = make();
    std::lock_guard lock(mutex);
    if (Entry *entry = at(key)) {
      return entry->value;
    }
    if (entries.size() >= limit) {
      entries.erase(std::min_element(entries.begin(), entries.end(),
                                     [](const Entry &a, const Entry &b) { return a.used < b.used; }));
    }
    entries.push_back({key, made, ++clock});
    return made;
  }

  size_t size() {
    std::lock_guard lock(mutex);
    return entries.size();
  }

private:
  struct Entry {
    Key key;
    std::shared_ptr<const Value> value;
    uint64_t used;
  };

  std::shared_ptr<const Value> find(const Key &key) {
    std::lock_guard lock(mutex);
    Entry *entry = at(key);
    return entry ? entry->value : nullptr;
  }
  Entry *at(const Key &key) {
    for (Entry &entry : entries) {
      if (entry.key == key) {
        entry.used = ++clock;
        return &entry;
      }
    }
    return nullptr;
  }

  const size_t limit;
  std::mutex mutex;
  std::vector<Entry> entries;
  uint64_t clock = 0;
};

} // namespace sojourn::privacy

#endif // SOJOURN_RUNTIME_PRIVACY_BOUNDEDCACHE_H
