// SPDX-License-Identifier: Apache-2.0
// The cache of traces, and when a general form is made (see Cache.h).
#include "frontend/compile/Cache.h"

#include <algorithm>
#include <utility>

namespace sojourn::frontend {

namespace {

std::string hexOf(const std::array<uint8_t, 32> &hash) {
  std::string text;
  for (size_t i = 0; i < 8; ++i) {
    static const char *digits = "0123456789abcdef";
    text += {digits[hash[i] >> 4], digits[hash[i] & 15]};
  }
  return text;
}

} // namespace

Family &TraceCache::familyOf(const Trace &trace, Skeleton &skeleton, Key &key) {
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

/// The difference from the nearest of the latest traces.
Explanation TraceCache::explainNew(const Trace &trace) {
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
  return explainDifference(trace, best > 0 ? &nearest : nullptr);
}

/// The integer, known when compiling, in which a trace differs from the last of its family; none: nothing.
std::optional<Explanation> TraceCache::explainFixed(const Trace &trace, const Skeleton &skeleton,
                                                    const Family &family) {
  if (family.variants.empty()) {
    return std::nullopt;
  }
  const Family::Variant &last = family.variants.back();
  for (size_t i = 0; i < last.values.size(); ++i) {
    if (family.isFixed[i] && last.values[i] != skeleton.integers[i].value) {
      Explanation explanation = explainInteger(trace, skeleton, i, last.values[i]);
      explanation.why += "; each of its values compiles to a separate program, because " + family.whyFixed;
      return explanation;
    }
  }
  return std::nullopt;
}

Compilation TraceCache::compileSpecial(const Trace &trace, const Key &key, std::optional<Explanation> explanation) {
  Compilation compilation = compileTrace(trace);
  if (compilation.compiled) {
    explain(trace, explanation ? *std::move(explanation) : explainNew(trace), compilation);
    const size_t words = trace.inputs.size() + trace.words.size() + trace.tables.size();
    entries_.insert(key, {trace.inputs, trace.words, trace.tables, compilation.compiled},
                    words * sizeof(Word) + compilation.compiled->bytes());
  }
  return compilation;
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
  if (forms == Forms::Any) {
    if (Skeleton skeleton(trace); !skeleton.integers.empty()) {
      return findGeneral(trace, key, skeleton, hit);
    }
  }
  return compileSpecial(trace, key);
}

/// The program of a trace that has none of its own yet: an existing general form, a new one, or a program of its own.
Compilation TraceCache::findGeneral(const Trace &trace, const Key &key, Skeleton &skeleton, bool &hit) {
  Key familyKey;
  Family &family = familyOf(trace, skeleton, familyKey);
  Family::Variant *variant = family.find(skeleton);
  if (variant && variant->serves(skeleton)) {
    hit = true;
    return {variant->general, {}, {}, {}, runNumbers(skeleton, variant->classes)};
  }
  const std::vector<bool> wasFixed = family.isFixed;
  Compilation compilation = variant ? compileGeneral(trace, skeleton, family, *variant) : Compilation();
  if (!compilation.compiled) {
    compilation = compileSpecial(trace, key, explainFixed(trace, skeleton, family));
    if (!compilation.compiled) {
      family.isFixed = wasFixed; // the refusal was not about integers that vary
      return compilation;
    }
    family.see(skeleton);
  }
  families_.resize(familyKey, family.bytes());
  return compilation;
}

Compilation TraceCache::compileGeneral(const Trace &trace, const Skeleton &skeleton, Family &family,
                                       Family::Variant &variant) {
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
    family.fix(variant, skeleton, classes, compilation);
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
  familyOf(trace, skeleton, key).separate(why);
}

} // namespace sojourn::frontend
