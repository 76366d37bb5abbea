// SPDX-License-Identifier: Apache-2.0
// Labels: join, covering, and what keeps a value here.
#include "owner/Label.h"

#include <algorithm>
#include <bit>
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

/// Who may be sent both.
void joinField(Audience &field, const Audience &other) {
  if (!field) {
    field = other;
  } else if (other) {
    std::erase_if(*field, [&](const signing::PublicKey &key) { return !other->contains(key); });
  }
}

bool fieldCovers(const Audience &field, const Audience &part) {
  return !part || (field && std::includes(part->begin(), part->end(), field->begin(), field->end()));
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

LabelPtr Label::within(const LabelPtr &label, const std::set<signing::PublicKey> &members) {
  if (!label) {
    return nullptr;
  }
  std::shared_ptr<Label> found(new Label());
  found->audience_ = members;
  found->join(*label);
  return found;
}

LabelPtr Label::released(const LabelPtr &label) {
  if (label && !label->audience_) {
    return client();
  }
  return within(client(), label ? *label->audience_ : std::set<signing::PublicKey>());
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

std::vector<LabelPtr> joinLabels(llvm::ArrayRef<LabelPtr> arguments, const DependenceSummary &dependence) {
  // Arguments have few distinct labels, and results few distinct sets of those: each set is joined once.
  struct ByValue {
    bool operator()(const LabelPtr &a, const LabelPtr &b) const { return a && b ? *a < *b : !a && b; }
  };
  std::vector<LabelPtr> groups;
  std::vector<size_t> groupOf;
  std::map<const Label *, size_t> known;
  std::map<LabelPtr, size_t, ByValue> equal;
  groupOf.reserve(arguments.size());
  for (size_t index = 0; index < arguments.size(); ++index) {
    const LabelPtr &label = arguments[index];
    if (index > 0 && label == arguments[index - 1]) {
      groupOf.push_back(groupOf.back()); // as nearly always
      continue;
    }
    auto [at, fresh] = known.try_emplace(label.get(), groups.size());
    if (fresh) {
      at->second = equal.try_emplace(label, groups.size()).first->second;
    }
    if (at->second == groups.size()) {
      groups.push_back(label);
    }
    groupOf.push_back(at->second);
  }
  const size_t results = dependence.resultCount();
  std::vector<LabelPtr> labels(results, Label::client());
  if (groups.size() == 1 && groups.front() == Label::client()) {
    return labels;
  }
  std::vector<uint64_t> words(arguments.size());
  for (size_t first = 0; first < groups.size(); first += 64) {
    for (size_t index = 0; index < words.size(); ++index) {
      size_t bit = groupOf[index] - first;
      words[index] = bit < 64 ? uint64_t{1} << bit : 0;
    }
    std::vector<uint64_t> sets = dependence.gather(words);
    std::map<uint64_t, LabelPtr> ofSets;
    for (size_t result = 0; result < results; ++result) {
      auto [at, fresh] = ofSets.try_emplace(sets[result], Label::client());
      if (fresh) {
        for (uint64_t rest = sets[result]; rest != 0; rest &= rest - 1) {
          at->second = joinLabels(at->second, groups[first + static_cast<size_t>(std::countr_zero(rest))]);
        }
      }
      labels[result] = joinLabels(labels[result], at->second);
    }
  }
  return labels;
}

std::string privateDatasets(const std::set<Source> &sources, const signing::PublicKey &own) {
  std::set<std::pair<std::string, std::string>> names; // versions of one are one name to people
  for (const Source &source : sources) {
    names.emplace(source.name, source.owner == own ? "" : signing::shortKeyText(source.owner));
  }
  std::string text;
  for (const auto &[name, owner] : names) {
    text += (text.empty() ? "private dataset '" : ", '") + name + "'";
    text += owner.empty() ? "" : " of owner " + owner + "...";
  }
  return text;
}

std::string blockers(const LabelPtr &label, const signing::PublicKey &own,
                     llvm::function_ref<Policy(const Source &)> policyOf) {
  if (!label) {
    return "data of unknown origin";
  }
  std::set<Source> blocking;
  for (const Source &source : label->sources()) {
    if (policyOf(source) != Policy::open) {
      blocking.insert(source);
    }
  }
  return privateDatasets(blocking, own);
}

} // namespace sojourn::owner
