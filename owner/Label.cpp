// SPDX-License-Identifier: Apache-2.0
// Labels: join, covering, and what keeps a value here.
#include "owner/Label.h"

#include <algorithm>
#include <map>

namespace sojourn::owner {

const char *policyName(Policy policy) { return policy == Policy::open ? "open" : "private"; }

std::optional<Policy> parsePolicy(const std::string &text) {
  if (text == "open") {
    return Policy::open;
  }
  if (text == "private") {
    return Policy::privateOnly;
  }
  return std::nullopt;
}

namespace {

// One pair of rules per type of field. A new type has none, and does not compile before it has.

template <class T>
void joinField(std::set<T> &field, const std::set<T> &other) {
  field.insert(other.begin(), other.end());
}

template <class T>
bool fieldCovers(const std::set<T> &field, const std::set<T> &part) {
  return std::includes(field.begin(), field.end(), part.begin(), part.end());
}

template <class Mine, class Other, size_t... at>
void joinFields(Mine mine, Other other, std::index_sequence<at...>) {
  (joinField(std::get<at>(mine), std::get<at>(other)), ...);
}

template <class Mine, class Part, size_t... at>
bool fieldsCover(Mine mine, Part part, std::index_sequence<at...>) {
  return (fieldCovers(std::get<at>(mine), std::get<at>(part)) && ...);
}

template <class Members>
using Indices = std::make_index_sequence<std::tuple_size_v<Members>>;

} // namespace

LabelPtr Label::client() {
  static const LabelPtr own(new Label());
  return own;
}

LabelPtr Label::of(Source source) {
  std::shared_ptr<Label> label(new Label());
  label->sources_.insert(std::move(source));
  return label;
}

void Label::join(const Label &other) { joinFields(members(), other.members(), Indices<decltype(other.members())>()); }

bool Label::covers(const Label &part) const {
  return fieldsCover(members(), part.members(), Indices<decltype(part.members())>());
}

LabelPtr joinLabels(const LabelPtr &a, const LabelPtr &b) {
  if (!a || !b) {
    return nullptr;
  }
  if (a == b || a->covers(*b)) {
    return a;
  }
  if (b->covers(*a)) {
    return b;
  }
  auto both = std::make_shared<Label>(*a);
  both->join(*b);
  return both;
}

std::vector<LabelPtr> joinLabels(llvm::ArrayRef<LabelPtr> arguments, llvm::ArrayRef<llvm::SmallBitVector> sets) {
  // Arguments have few distinct labels: each is joined once per set, however many bear it.
  struct Group {
    LabelPtr label;
    llvm::SmallBitVector arguments;
  };
  struct ByValue {
    bool operator()(const LabelPtr &a, const LabelPtr &b) const { return a && b ? *a < *b : !a && b; }
  };
  std::vector<Group> groups;
  std::map<const Label *, size_t> known;
  std::map<LabelPtr, size_t, ByValue> equal;
  size_t last = 0;
  for (size_t index = 0; index < arguments.size(); ++index) {
    const LabelPtr &label = arguments[index];
    if (index > 0 && label == arguments[index - 1]) {
      groups[last].arguments.set(static_cast<unsigned>(index)); // as nearly always
      continue;
    }
    auto [at, fresh] = known.try_emplace(label.get(), groups.size());
    if (fresh) {
      at->second = equal.try_emplace(label, groups.size()).first->second;
    }
    if (at->second == groups.size()) {
      groups.push_back({label, llvm::SmallBitVector(static_cast<unsigned>(arguments.size()))});
    }
    last = at->second;
    groups[last].arguments.set(static_cast<unsigned>(index));
  }
  std::vector<LabelPtr> results;
  results.reserve(sets.size());
  for (const llvm::SmallBitVector &set : sets) {
    LabelPtr label = Label::client();
    for (const Group &group : groups) {
      if (set.anyCommon(group.arguments)) {
        label = joinLabels(label, group.label);
      }
    }
    results.push_back(std::move(label));
  }
  return results;
}

std::string blockers(const LabelPtr &label, llvm::function_ref<Policy(const Source &)> policyOf) {
  if (!label) {
    return "data of unknown origin";
  }
  std::set<std::string> names;
  for (const Source &source : label->sources()) {
    if (policyOf(source) != Policy::open) {
      names.insert(source.name);
    }
  }
  std::string text;
  for (const std::string &name : names) {
    text += (text.empty() ? "private dataset '" : ", '") + name + "'";
  }
  return text;
}

} // namespace sojourn::owner
