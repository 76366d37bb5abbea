// SPDX-License-Identifier: Apache-2.0
// PrivateStep's terms: sources, noise, clip and prices that a step asks for, within what its owner allows.
#include "dialect/Signature.h"
#include "owner/PrivateStep.h"

#include "owner/Dataset.h"
#include "owner/Error.h"
#include "owner/Limits.h"
#include "owner/Text.h"
#include "runtime/terms/StepTerms.h"

#include <map>
#include <set>

namespace sojourn::owner {

using llvm::Twine;

llvm::Error checkDefaults(const PrivacyDefaults &defaults) {
  std::string wrong = terms::problemOf(defaults);
  return wrong.empty() ? llvm::Error::success() : failure(wrong);
}

llvm::Error PrivateStep::setSources(const StepBindings &bound) {
  const auto &args = plan->facts.args;
  sources.resize(args.size());
  terms.publicArguments.resize(args.size());
  std::map<Source, Policy> policies;
  llvm::Error failed = llvm::Error::success();
  auto policyOf = [&](const Source &source) {
    auto [at, fresh] = policies.try_emplace(source, Policy::privateOnly);
    if (fresh) {
      if (auto policy = books->store->policy(source)) {
        at->second = *policy;
      } else {
        failed = llvm::joinErrors(std::move(failed), policy.takeError());
      }
    }
    return at->second;
  };
  std::lock_guard lock(books->mutex);
  for (size_t index = 0; index < args.size(); ++index) {
    // One label is often that of many states.
    bool isSame = index > 0 && bound.labels[index] == bound.labels[index - 1];
    terms.publicArguments[index] = isSame ? bool(terms.publicArguments[index - 1])
                                          : blockers(bound.labels[index], books->store->owner(), policyOf).empty();
    if (!isSame && !terms.publicArguments[index] && bound.labels[index]) {
      llvm::copy_if(bound.labels[index]->sources(), std::inserter(unreleased, unreleased.end()),
                    [&](const Source &source) { return policyOf(source) != Policy::open; });
    }
    if (args[index].kind == StepArg::Table && !terms.publicArguments[index]) {
      const Dataset *dataset = bound.tables[index];
      bool isFirst = llvm::none_of(sources, [](const auto &source) { return source.has_value(); });
      sources[index] = Source{books->store->owner(), dataset->name(), dataset->version()};
      auto own = books->store->defaults(*sources[index]);
      if (!own) {
        return llvm::joinErrors(std::move(failed), own.takeError());
      }
      defaults = isFirst ? *own : terms::mostCareful(defaults, *own);
    }
  }
  return failed;
}

void PrivateStep::setTerms(const StepPart &part, const StepBindings &bound) {
  const auto &args = plan->facts.args;
  argumentLabels = bound.labels;
  if (!plan->facts.samplesRows && part.slots) {
    terms.slots.assign(part.slots->begin(), part.slots->end());
  }
  terms.tables.resize(args.size());
  for (size_t index = 0; index < args.size(); ++index) {
    if (args[index].kind != StepArg::Table) {
      continue;
    }
    terms.tables[index].isPrivate = sources[index].has_value();
    terms.tables[index].rows = bound.tables[index]->rows();
    for (const Column &column : bound.tables[index]->columns()) {
      std::optional<runtime::Extent> bounds;
      if (column.bounds) {
        bounds = {column.bounds->lower, column.bounds->upper};
      }
      terms.tables[index].columns.push_back({column.name, column.element, bounds});
    }
  }
}

llvm::Error PrivateStep::setReleases() {
  if (request->spending()) {
    spending = sojourn::wire::decode(*request->spending());
  }
  auto asked = terms::termsOf(spending, defaults);
  if (!asked) {
    return requestError(wire::ErrorCode_Refused, asked.error());
  }
  static_cast<terms::StepTerms &>(terms) = *asked;
  size_t published = static_cast<size_t>(
      llvm::count_if(plan->facts.results, [](const auto &result) { return result.kind == StepResult::Publish; }));
  auto isPriced = [](const sojourn::wire::ReleaseTerms &asked) { return asked.epsilon != 0; };
  size_t priced = static_cast<size_t>(llvm::count_if(spending.releases, isPriced));
  if (spending.releases.size() > published || priced > kPricedReleases) {
    return requestError(wire::ErrorCode_Malformed,
                        "the step gives terms for " + Twine(spending.releases.size()) + " releases, " + Twine(priced) +
                            " of them with a price; it publishes " + Twine(published) + " values, and up to " +
                            Twine(kPricedReleases) + " may have a price");
  }
  if (priced > 0) {
    delta = 1;
    for (const auto &source : sources) {
      if (source) {
        auto granted = books->accounts->deltaOf(session->account, source->name);
        if (!granted) {
          return granted.takeError();
        }
        delta = std::min(delta, *granted);
      }
    }
  }
  const sojourn::wire::ReleaseTerms *before = nullptr;
  for (const sojourn::wire::ReleaseTerms &each : spending.releases) {
    auto release = terms::releaseOf(each, before, delta);
    if (!release) {
      return requestError(wire::ErrorCode_Refused, release.error());
    }
    terms.releases.push_back(*release);
    before = &each;
  }
  return llvm::Error::success();
}

} // namespace sojourn::owner
