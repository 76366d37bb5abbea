// SPDX-License-Identifier: Apache-2.0
// The memory plan: best fit over freed ranges, in order of time; and stride arithmetic.
#include "runtime/Plan.h"
#include "runtime/Buffer.h"
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace sojourn::runtime {

namespace {

/// Free ranges of the arena, merged with their neighbours.
class FreeRanges {
public:
  size_t take(size_t bytes) {
    auto fit = bySize_.lower_bound({bytes, 0});
    if (fit == bySize_.end()) {
      // Grow; a free range at the very end is part of the new one.
      if (!byOffset_.empty()) {
        auto last = std::prev(byOffset_.end());
        if (last->first + last->second == end_) {
          size_t offset = last->first;
          bySize_.erase({last->second, offset});
          byOffset_.erase(last);
          end_ = offset + bytes;
          return offset;
        }
      }
      size_t offset = end_;
      end_ += bytes;
      return offset;
    }
    auto [size, offset] = *fit;
    bySize_.erase(fit);
    byOffset_.erase(offset);
    if (size > bytes) {
      insert(offset + bytes, size - bytes);
    }
    return offset;
  }

  void give(size_t offset, size_t bytes) {
    auto next = byOffset_.lower_bound(offset);
    if (next != byOffset_.end() && offset + bytes == next->first) {
      bytes += next->second;
      bySize_.erase({next->second, next->first});
      next = byOffset_.erase(next);
    }
    if (next != byOffset_.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        bySize_.erase({previous->second, previous->first});
        byOffset_.erase(previous);
      }
    }
    insert(offset, bytes);
  }

  size_t end() const { return end_; }

private:
  void insert(size_t offset, size_t bytes) {
    byOffset_[offset] = bytes;
    bySize_.insert({bytes, offset});
  }

  std::map<size_t, size_t> byOffset_;
  std::set<std::pair<size_t, size_t>> bySize_;
  size_t end_ = 0;
};

size_t aligned(size_t bytes) { return (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment; }

} // namespace

size_t planArena(std::vector<Slot> &slots, const std::vector<Reuse> &reuses) {
  std::vector<SlotId> order, ends;
  for (SlotId id = 0; id < slots.size(); ++id) {
    if (slots[id].kind == SlotKind::arena && slots[id].first != UINT32_MAX) {
      order.push_back(id);
    }
  }
  ends = order;
  std::stable_sort(order.begin(), order.end(), [&](SlotId a, SlotId b) { return slots[a].first < slots[b].first; });
  std::stable_sort(ends.begin(), ends.end(), [&](SlotId a, SlotId b) { return slots[a].last < slots[b].last; });

  std::vector<SlotId> wish(slots.size(), kNoSlot);
  std::vector<bool> given(slots.size(), false);
  for (const Reuse &reuse : reuses) {
    const Slot &result = slots[reuse.result], &operand = slots[reuse.operand];
    if (result.kind == SlotKind::arena && operand.kind == SlotKind::arena && wish[reuse.result] == kNoSlot &&
        !given[reuse.operand] && operand.last == result.first && operand.first < result.first &&
        operand.bytes == result.bytes) {
      wish[reuse.result] = reuse.operand;
      given[reuse.operand] = true;
    }
  }

  FreeRanges ranges;
  size_t freed = 0;
  for (SlotId id : order) {
    // What ended before this instruction is free; what ends at it is still read by it.
    for (; freed < ends.size() && slots[ends[freed]].last < slots[id].first; ++freed) {
      const Slot &dead = slots[ends[freed]];
      if (!given[ends[freed]]) {
        ranges.give(dead.offset, aligned(dead.bytes));
      }
    }
    slots[id].offset = wish[id] != kNoSlot ? slots[wish[id]].offset : ranges.take(aligned(slots[id].bytes));
  }
  return ranges.end();
}

llvm::SmallVector<int64_t, 4> denseStrides(llvm::ArrayRef<int64_t> dims) {
  llvm::SmallVector<int64_t, 4> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<int64_t>(dims[i], 1);
  }
  return strides;
}

bool isDense(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> strides) {
  int64_t expected = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 0) {
      return true;
    }
    if (dims[i] != 1) {
      if (strides[i] != expected) {
        return false;
      }
      expected *= dims[i];
    }
  }
  return true;
}

bool reshapeStrides(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> strides, llvm::ArrayRef<int64_t> newDims,
                    llvm::SmallVector<int64_t, 4> &newStrides) {
  newStrides.assign(newDims.size(), 1);
  if (llvm::is_contained(newDims, 0)) {
    newStrides = denseStrides(newDims);
    return true;
  }
  // Walk both shapes from the back: each run of old dims that is one strided line may be cut anew.
  size_t left = newDims.size();
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1) {
      continue;
    }
    int64_t base = strides[i], run = dims[i];
    while (i > 0 && (dims[i - 1] == 1 || strides[i - 1] == base * run)) {
      run *= dims[--i];
    }
    int64_t taken = 1;
    while (taken < run && left > 0) {
      --left;
      newStrides[left] = base * taken;
      taken *= newDims[left];
    }
    if (taken != run) {
      return false;
    }
  }
  while (left > 0) {
    --left; // only dims of size 1 remain
  }
  return true;
}

} // namespace sojourn::runtime
