// SPDX-License-Identifier: Apache-2.0
// Integers that may vary (see General.h).
#include "frontend/compile/General.h"

#include "dialect/Box.h"
#include "frontend/recording/TraceWalk.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace sojourn::frontend {

namespace {

/// Sizes of a dense storage in the order of memory, without dims of one element; nothing where it is not dense, or
/// empty.
std::vector<int64_t> memoryDims(const Word *sizes, const Word *strides, size_t rank) {
  std::vector<size_t> order;
  for (size_t dim = 0; dim < rank; ++dim) {
    if (sizes[dim] == 0) {
      return {};
    }
    if (sizes[dim] != 1) {
      order.push_back(dim);
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  std::vector<int64_t> dims;
  int64_t next = 1;
  for (size_t k = order.size(); k-- > 0;) {
    if (strides[order[k]] != next) {
      return {};
    }
    next *= sizes[order[k]];
    dims.push_back(sizes[order[k]]);
  }
  std::reverse(dims.begin(), dims.end());
  return dims;
}

class Finder : public TraceVisitor {
public:
  Finder(const Trace &trace, Skeleton &skeleton) : trace_(trace), skeleton_(skeleton) {
    storages_.resize(static_cast<size_t>(trace.storageCount));
    isInput_.assign(static_cast<size_t>(trace.storageCount), false);
    for (size_t at = 0; at < trace.inputs.size();) {
      const auto id = static_cast<size_t>(trace.inputs[at]);
      const auto rank = static_cast<size_t>(trace.inputs[at + 3]);
      isInput_[id] = true;
      const Word *sizes = trace.inputs.data() + at + 4;
      storages_[id] = memoryDims(sizes, sizes + rank, rank);
      at += 4 + 2 * rank;
    }
  }

  void beginArgument(size_t index) { argument_ = static_cast<uint16_t>(index); }
  void number(size_t at) {
    skeleton_.integers.push_back({at, trace_.words[at], op_, -1, argument_});
    skeleton_.words[at] = 0;
  }
  void reference(size_t at, bool isView, bool) {
    if (!isView) {
      return;
    }
    std::vector<int64_t> seen = storages_[static_cast<size_t>(trace_.words[at])];
    const auto rank = static_cast<size_t>(trace_.words[at + 1]);
    const Word *sizes = trace_.words.data() + at + 2, *strides = sizes + rank;
    const size_t offset = at + 2 + 2 * rank;
    // Dims that the window crosses are one dim to it.
    int64_t crossed = -1;
    std::optional<Box> box;
    while (!seen.empty() && !(box = boxOf(seen, {sizes, rank}, {strides, rank}, trace_.words[offset], &crossed)) &&
           crossed > 0) {
      auto dim = seen.begin() + crossed;
      dim[-1] *= dim[0];
      seen.erase(dim);
    }
    if (!box) {
      return;
    }
    skeleton_.words[offset] = 0;
    const size_t seenAt = skeleton_.seen.size();
    skeleton_.seen.push_back(static_cast<Word>(seen.size()));
    skeleton_.seen.insert(skeleton_.seen.end(), seen.begin(), seen.end());
    for (size_t dim = 0; dim < seen.size(); ++dim) {
      if (box->spans[dim] < seen[dim]) {
        skeleton_.integers.push_back(
            {offset, box->starts[dim], op_, static_cast<int32_t>(dim), argument_, seenAt, rank});
      }
    }
  }
  void result(size_t at) {
    const Word *words = trace_.words.data() + at;
    if (words[0] < 0) {
      return;
    }
    while (isInput_[nextResult_]) {
      ++nextResult_;
    }
    const auto rank = static_cast<size_t>(words[1]);
    storages_[nextResult_++] = memoryDims(words + 2, words + 2 + rank, rank);
  }
  void endOp(size_t) { ++op_; }

private:
  const Trace &trace_;
  Skeleton &skeleton_;
  std::vector<std::vector<int64_t>> storages_;
  std::vector<bool> isInput_;
  size_t nextResult_ = 0;
  uint32_t op_ = 0;
  uint16_t argument_ = 0;
};

} // namespace

Skeleton::Skeleton(const Trace &trace) : words(trace.words) {
  Finder finder(trace, *this);
  TraceWalk(trace.words, finder).run();
}

std::vector<uint64_t> runNumbers(const Skeleton &skeleton, const Classes &classes) {
  std::vector<uint64_t> numbers;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] >= static_cast<int32_t>(numbers.size())) {
      numbers.resize(static_cast<size_t>(classes[i]) + 1);
    }
    if (classes[i] >= 0) {
      numbers[static_cast<size_t>(classes[i])] = static_cast<uint64_t>(skeleton.integers[i].value);
    }
  }
  return numbers;
}

Trace generalForm(const Trace &trace, const Skeleton &skeleton, const Classes &classes) {
  Trace form = trace;
  std::vector<Word> &words = form.words;
  words.clear();
  size_t copied = 0;
  auto copyUpTo = [&](size_t end) {
    words.insert(words.end(), trace.words.begin() + static_cast<std::ptrdiff_t>(copied),
                 trace.words.begin() + static_cast<std::ptrdiff_t>(end));
    copied = end;
  };
  for (size_t i = 0, end = 0; i < classes.size(); i = end) {
    const Skeleton::Integer &first = skeleton.integers[i];
    end = i + 1;
    if (first.dim < 0) {
      if (classes[i] >= 0) {
        copyUpTo(first.at);
        words.back() = static_cast<Word>(Tag::RunNumber);
        words.push_back(classes[i]);
        copied = first.at + 1;
      }
      continue;
    }
    while (end < classes.size() && skeleton.integers[end].at == first.at) {
      ++end;
    }
    const auto rank = static_cast<size_t>(skeleton.seen[first.seen]);
    const Word *seen = skeleton.seen.data() + first.seen + 1;
    std::vector<int64_t> places(rank, 1);
    for (size_t dim = rank; dim-- > 1;) {
      places[dim - 1] = places[dim] * seen[dim];
    }
    std::vector<Word> moves;
    Word offset = trace.words[first.at];
    for (size_t k = i; k < end; ++k) {
      const Skeleton::Integer &integer = skeleton.integers[k];
      if (classes[k] >= 0) {
        moves.insert(moves.end(), {integer.dim, classes[k]});
        offset -= integer.value * places[static_cast<size_t>(integer.dim)];
      }
    }
    if (moves.empty()) {
      continue;
    }
    copyUpTo(first.at);
    // Back over strides, sizes, rank and id to the tag.
    const size_t tag = words.size() - 2 * first.rank - 3;
    words[tag] = static_cast<Word>(Tag::MovedView);
    words.push_back(offset);
    words.push_back(static_cast<Word>(rank));
    words.insert(words.end(), seen, seen + rank);
    words.push_back(static_cast<Word>(moves.size() / 2));
    words.insert(words.end(), moves.begin(), moves.end());
    copied = first.at + 1;
  }
  copyUpTo(trace.words.size());
  form.runNumbers = runNumbers(skeleton, classes).size();
  return form;
}

// --- Families -------------------------------------------------------------------------------------

bool Family::Variant::serves(const Skeleton &skeleton) const {
  if (!general) {
    return false;
  }
  std::vector<std::pair<bool, int64_t>> shared;
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t value = skeleton.integers[i].value;
    if (classes[i] < 0) {
      if (value != values[i]) {
        return false;
      }
      continue;
    }
    const auto slot = static_cast<size_t>(classes[i]);
    if (slot >= shared.size()) {
      shared.resize(slot + 1);
    }
    if (shared[slot].first && shared[slot].second != value) {
      return false;
    }
    shared[slot] = {true, value};
  }
  return true;
}

/// Classes by all sightings, this one included: integers that were equal before and are equal now.
Classes Family::Variant::widened(const Skeleton &skeleton, const std::vector<bool> &isFixed) const {
  Classes wide(values.size(), -1);
  std::map<std::pair<std::pair<int32_t, int64_t>, int64_t>, int32_t> known;
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t value = skeleton.integers[i].value;
    if (isFixed[i] || (classes[i] < 0 && value == values[i])) {
      continue; // a fixed one is what it was
    }
    const std::pair<int32_t, int64_t> before{classes[i], classes[i] < 0 ? values[i] : 0};
    wide[i] = known.try_emplace({before, value}, static_cast<int32_t>(known.size())).first->second;
  }
  return wide;
}

Family::Variant *Family::find(const Skeleton &skeleton) {
  auto fits = [&](const Variant &variant) {
    for (size_t i = 0; i < isFixed.size(); ++i) {
      if (isFixed[i] && variant.values[i] != skeleton.integers[i].value) {
        return false;
      }
    }
    return true;
  };
  auto found = std::find_if(variants.rbegin(), variants.rend(), fits);
  return found == variants.rend() ? nullptr : &*found;
}

size_t Family::bytes() const {
  size_t words = inputs.size() + this->words.size() + seen.size() + tables.size(), bytes = words * sizeof(Word);
  for (const Variant &variant : variants) {
    bytes += variant.values.size() * (sizeof(int64_t) + sizeof(int32_t));
    bytes += variant.general ? variant.general->bytes() : 0;
  }
  return bytes;
}

/// Fixes the integers to blame for a refused general form: of those that vary newly, the ones of the refused op, else
/// all of them.
void Family::fix(const Variant &variant, const Skeleton &skeleton, const Classes &classes, const Compilation &refused) {
  auto fixWhere = [&](auto isMeant) {
    bool any = false;
    for (size_t i = 0; i < classes.size(); ++i) {
      if (classes[i] >= 0 && isMeant(i)) {
        isFixed[i] = any = true;
      }
    }
    return any;
  };
  auto isNew = [&](size_t i) { return variant.classes[i] < 0; };
  auto isBlamed = [&](size_t i) { return refused.refusedOp == skeleton.integers[i].op; };
  fixWhere([&](size_t i) { return isNew(i) && isBlamed(i); }) || fixWhere(isBlamed) || fixWhere(isNew) ||
      fixWhere([](size_t) { return true; });
  whyFixed = refused.failure;
}

void Family::see(const Skeleton &skeleton) {
  if (variants.size() == kVariants) {
    variants.pop_front();
  }
  Variant first;
  for (const Skeleton::Integer &integer : skeleton.integers) {
    first.values.push_back(integer.value);
  }
  first.classes.assign(first.values.size(), -1);
  variants.push_back(std::move(first));
}

void Family::separate(const std::string &why) {
  isFixed.assign(isFixed.size(), true);
  whyFixed = why;
  for (Variant &variant : variants) {
    variant.general = nullptr;
    variant.classes.assign(variant.values.size(), -1);
  }
}

} // namespace sojourn::frontend
