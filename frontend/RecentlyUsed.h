// SPDX-License-Identifier: Apache-2.0
// A map that forgets: what a session remembers of programs is bounded, whatever a script does.
#ifndef SOJOURN_FRONTEND_RECENTLYUSED_H
#define SOJOURN_FRONTEND_RECENTLYUSED_H

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <utility>

namespace sojourn::frontend {

/// Keeps at most `count` entries of at most `bytes` together; the one that was used longest ago goes first. The last
/// one stays, however large. Not for several threads at once.
template <class Key, class Value>
class RecentlyUsed {
public:
  explicit RecentlyUsed(size_t count, size_t bytes = SIZE_MAX) : count_(count), bytes_(bytes) {}

  /// nullptr: not here (any more). Valid until the next insert or erase.
  Value *find(const Key &key) {
    auto found = places_.find(key);
    if (found == places_.end()) {
      return nullptr;
    }
    entries_.splice(entries_.begin(), entries_, found->second);
    return &entries_.front().value;
  }

  /// Replaces an entry of the same key.
  Value &insert(const Key &key, Value value, size_t bytes = 0) {
    erase(key);
    entries_.push_front({key, std::move(value), bytes});
    places_.emplace(key, entries_.begin());
    used_ += bytes;
    trim();
    return entries_.front().value;
  }

  /// The entry takes as many bytes now; others go where they are too many.
  void resize(const Key &key, size_t bytes) {
    auto found = places_.find(key);
    if (found != places_.end()) {
      used_ += bytes - found->second->bytes;
      found->second->bytes = bytes;
      entries_.splice(entries_.begin(), entries_, found->second);
      trim();
    }
  }

  /// Visits entries, last used first, until `visit(value)` is false.
  template <class Visit>
  void each(Visit visit) const {
    for (const Entry &entry : entries_) {
      if (!visit(entry.value)) {
        return;
      }
    }
  }

  void erase(const Key &key) {
    auto found = places_.find(key);
    if (found != places_.end()) {
      used_ -= found->second->bytes;
      entries_.erase(found->second);
      places_.erase(found);
    }
  }

  size_t size() const { return entries_.size(); }

private:
  struct Entry {
    Key key;
    Value value;
    size_t bytes;
  };

  void trim() {
    while (entries_.size() > 1 && (entries_.size() > count_ || used_ > bytes_)) {
      used_ -= entries_.back().bytes;
      places_.erase(entries_.back().key);
      entries_.pop_back();
    }
  }

  const size_t count_, bytes_;
  size_t used_ = 0;
  std::list<Entry> entries_; ///< last used first
  std::map<Key, typename std::list<Entry>::iterator> places_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECENTLYUSED_H
