// SPDX-License-Identifier: Apache-2.0
// The cache of traces, and when a general form is made (see Cache.h).
#include "frontend/compile/Cache.h"

#include <algorithm>
#include <map>

namespace sojourn::frontend {

namespace {

size_t bytesOf(const CompiledTrace &compiled) { return compiled.program.size() + compiled.debug.size(); }

std::string hexOf(const std::array<uint8_t, 32> &hash) {
  std::string text;
  for (size_t i = 0; i < 8; ++i) {
    static const char *digits = "0123456789abcdef";
    text += {digits[hash[i] >> 4], digits[hash[i] & 15]};
  }
  return text;
}

} // namespace

bool TraceCache::Variant::serves(const Skeleton &skeleton) const {
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

/// What is one class by all sightings, this one included: equal before and equal now.
Classes TraceCache::Variant::widened(const Skeleton &skeleton, const std::vector<bool> &isFixed) const {
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

TraceCache::Variant *TraceCache::Family::find(const Skeleton &skeleton) {
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

size_t TraceCache::Family::bytes() const {
  size_t words = inputs.size() + this->words.size() + seen.size() + tables.size(), bytes = words * sizeof(Word);
  for (const Variant &variant : variants) {
    bytes += variant.values.size() * (sizeof(int64_t) + sizeof(int32_t));
    bytes += variant.general ? bytesOf(*variant.general) : 0;
  }
  return bytes;
}

TraceCache::Family &TraceCache::familyOf(const Trace &trace, Skeleton &skeleton, Key &key) {
  key = {hashTrace(trace, skeleton.words, skeleton.seen), 0};
  for (; Family *family = families_.find(key); ++key.second) {
    if (family->words == skeleton.words && family->seen == skeleton.seen && family->inputs == trace.inputs &&
        family->tables == trace.tables) {
      return *family;
    }
  }
  Family family{trace.inputs, skeleton.words, skeleton.seen, trace.tables, {}, {}, {}};
  family.isFixed.assign(skeleton.integers.size(), false);
  const size_t bytes = family.bytes();
  return families_.insert(key, std::move(family), bytes);
}

void TraceCache::explain(const Trace &trace, Explanation explanation, const Compilation &compilation) {
  if (!compilation.compiled) {
    return;
  }
  explanation.ops = trace.origins.size();
  explanation.seconds = compilation.compiled->compileSeconds;
  explanation.program = hexOf(compilation.compiled->hash);
  explanations_.push_back(std::move(explanation));
}

Compilation TraceCache::compileSpecial(const Trace &trace, const Key &key, const Family *family,
                                       const Skeleton *skeleton) {
  Compilation compilation = compileTrace(trace);
  if (!compilation.compiled) {
    return compilation;
  }
  Explanation explanation;
  if (family && !family->variants.empty()) {
    const Variant &last = family->variants.back();
    for (size_t i = 0; i < last.values.size(); ++i) {
      if (family->isFixed[i] && last.values[i] != skeleton->integers[i].value) {
        explanation = explainInteger(trace, *skeleton, i, last.values[i]);
        explanation.why += "; each of its values compiles to a separate program, because " + family->whyFixed;
        break;
      }
    }
  }
  if (explanation.why.empty()) {
    constexpr size_t kCompared = 32;
    size_t left = kCompared, best = 0;
    TraceWords nearest{};
    entries_.each([&](const Entry &entry) {
      const size_t agrees = agreement(trace, entry.words) + 1;
      if (agrees > best) {
        best = agrees;
        nearest = {&entry.inputs, &entry.words};
      }
      return --left > 0;
    });
    explanation = explainDifference(trace, best > 0 ? &nearest : nullptr);
  }
  explain(trace, std::move(explanation), compilation);
  const size_t words = trace.inputs.size() + trace.words.size() + trace.tables.size();
  entries_.insert(key, {trace.inputs, trace.words, trace.tables, compilation.compiled},
                  words * sizeof(Word) + bytesOf(*compilation.compiled));
  return compilation;
}

/// Which integers the refusal of a general form is about: of those that vary newly, the ones of the op to blame, else
/// all of them.
void TraceCache::fix(Family &family, const Variant &variant, const Skeleton &skeleton, const Classes &classes,
                     const Compilation &refused) {
  auto fixWhere = [&](auto isMeant) {
    bool any = false;
    for (size_t i = 0; i < classes.size(); ++i) {
      if (classes[i] >= 0 && isMeant(i)) {
        family.isFixed[i] = any = true;
      }
    }
    return any;
  };
  auto isNew = [&](size_t i) { return variant.classes[i] < 0; };
  auto isBlamed = [&](size_t i) { return refused.refusedOp == skeleton.integers[i].op; };
  fixWhere([&](size_t i) { return isNew(i) && isBlamed(i); }) || fixWhere(isBlamed) || fixWhere(isNew) ||
      fixWhere([](size_t) { return true; });
  family.whyFixed = refused.failure;
}

Compilation TraceCache::find(const Trace &trace, bool &hit, Forms forms) {
  Key key{hashTrace(trace), 0};
  for (; const Entry *entry = entries_.find(key); ++key.second) {
    if (entry->words == trace.words && entry->inputs == trace.inputs && entry->tables == trace.tables) {
      hit = true;
      return {entry->compiled, {}, {}, {}, {}};
    }
  }
  hit = false;
  if (forms == Forms::SpecialOnly) {
    return compileSpecial(trace, key, nullptr, nullptr);
  }
  Skeleton skeleton(trace);
  if (skeleton.integers.empty()) {
    return compileSpecial(trace, key, nullptr, nullptr);
  }
  Key familyKey;
  Family &family = familyOf(trace, skeleton, familyKey);
  const std::vector<bool> wasFixed = family.isFixed;
  if (Variant *variant = family.find(skeleton)) {
    if (variant->serves(skeleton)) {
      hit = true;
      return {variant->general, {}, {}, {}, runNumbers(skeleton, variant->classes)};
    }
    Compilation compilation = compileGeneral(trace, skeleton, family, *variant);
    if (compilation.compiled) {
      families_.resize(familyKey, family.bytes());
      return compilation;
    }
  }
  Compilation compilation = compileSpecial(trace, key, &family, &skeleton);
  if (compilation.compiled) {
    if (family.variants.size() == kVariants) {
      family.variants.pop_front();
    }
    Variant first;
    for (const Skeleton::Integer &integer : skeleton.integers) {
      first.values.push_back(integer.value);
    }
    first.classes.assign(first.values.size(), -1);
    family.variants.push_back(std::move(first));
    families_.resize(familyKey, family.bytes());
  } else {
    family.isFixed = wasFixed; // the refusal was not about integers that vary
  }
  return compilation;
}

Compilation TraceCache::compileGeneral(const Trace &trace, const Skeleton &skeleton, Family &family, Variant &variant) {
  Classes classes = variant.widened(skeleton, family.isFixed);
  auto varies = [](int32_t number) { return number >= 0; };
  if (std::none_of(classes.begin(), classes.end(), varies)) {
    return {}; // as it was first seen: its own program has been forgotten
  }
  // Why: an integer that was the same until now, else one that has parted from others.
  size_t differing = 0;
  while (differing < classes.size() && (classes[differing] < 0 || variant.classes[differing] >= 0)) {
    ++differing;
  }
  Explanation explanation;
  if (differing < classes.size()) {
    explanation = explainInteger(trace, skeleton, differing, variant.values[differing]);
    explanation.why += "; from now on it is a run-time number";
  } else {
    const auto first = static_cast<size_t>(std::find_if(classes.begin(), classes.end(), varies) - classes.begin());
    explanation = explainInteger(trace, skeleton, first, variant.values[first]);
    explanation.why += "; integers that were equal until now differ";
  }
  explanation.isGeneral = true;
  Compilation compilation = compileTrace(generalForm(trace, skeleton, classes));
  if (!compilation.compiled) {
    fix(family, variant, skeleton, classes, compilation);
    return {};
  }
  variant.classes = std::move(classes);
  variant.general = compilation.compiled;
  compilation.numbers = runNumbers(skeleton, variant.classes);
  explain(trace, std::move(explanation), compilation);
  return compilation;
}

void TraceCache::keepSpecial(const Trace &trace, const std::string &why) {
  Skeleton skeleton(trace);
  Key key;
  Family &family = familyOf(trace, skeleton, key);
  family.isFixed.assign(skeleton.integers.size(), true);
  family.whyFixed = why;
  for (Variant &variant : family.variants) {
    variant.general = nullptr;
    variant.classes.assign(variant.values.size(), -1);
  }
}

} // namespace sojourn::frontend
