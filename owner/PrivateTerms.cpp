// SPDX-License-Identifier: Apache-2.0
// PrivateStep's terms: sources, noise, clip and prices that a step asks for, within what its owner allows.
#include "owner/PrivateStep.h"

#include "owner/Dataset.h"
#include "owner/Error.h"
#include "owner/Limits.h"
#include "owner/Text.h"
#include "runtime/privacy/Plan.h"
#include "runtime/wire/Terms.h"

#include <map>
#include <set>

namespace sojourn::owner {

using llvm::Twine;

using sojourn::wire::kBounds;
using sojourn::wire::kNoiseMultipliers;
static_assert(sojourn::wire::kEpsilonMost == privacy::kEpsilonMax, "what a client may ask for is what can be charged");

/// A number of the message that a step may not choose freely. Above 0 it is at least `least`.
static llvm::Error checkNumber(const char *what, double number, double most, double least = 0) {
  if (number == 0 || (number > 0 && number >= least && number <= most)) {
    return llvm::Error::success();
  }
  auto text = [](double value) {
    std::string text;
    llvm::raw_string_ostream(text) << llvm::format("%g", value);
    return text;
  };
  return requestError(wire::ErrorCode_Refused,
                      Twine(what) + " is " + text(number) + ", expected a number " +
                          (least > 0 ? "from " + text(least) + " to " : "above 0 and at most ") + text(most));
}

llvm::Error checkDefaults(const PrivacyDefaults &defaults) {
  struct Number {
    const char *what;
    double number, least, most;
  };
  for (auto [what, number, least, most] :
       {Number{"noise multiplier", defaults.noiseMultiplier, kNoiseMultipliers.least, kNoiseMultipliers.most},
        Number{"clip", defaults.clip, kBounds.least, kBounds.most},
        Number{"metric bound", defaults.metricBound, kBounds.least, kBounds.most}}) {
    if (!(number >= least && number <= most)) {
      return failure("the " + Twine(what) + " is " + numberText(number) + ", expected a number from " +
                     numberText(least) + " to " + numberText(most));
    }
  }
  return llvm::Error::success();
}

llvm::Error PrivateStep::setSources(const StepBindings &bound) {
  auto args = plan->executable->args();
  sources.resize(args.size());
  terms.publicArguments.resize(args.size());
  std::map<Source, Policy> policies;
  llvm::Error failed = llvm::Error::success();
  auto policyOf = [&](const Source &source) {
    auto [at, fresh] = policies.try_emplace(source, Policy::privateOnly);
    if (fresh) {
      if (auto policy = context->store.policy(source)) {
        at->second = *policy;
      } else {
        failed = llvm::joinErrors(std::move(failed), policy.takeError());
      }
    }
    return at->second;
  };
  std::lock_guard lock(context->mutex);
  for (size_t index = 0; index < args.size(); ++index) {
    // One label is often that of many states.
    bool isSame = index > 0 && bound.labels[index] == bound.labels[index - 1];
    terms.publicArguments[index] =
        isSame ? bool(terms.publicArguments[index - 1]) : blockers(bound.labels[index], policyOf).empty();
    if (!isSame && !terms.publicArguments[index] && bound.labels[index]) {
      llvm::copy_if(bound.labels[index]->sources(), std::inserter(unreleased, unreleased.end()),
                    [&](const Source &source) { return policyOf(source) != Policy::open; });
    }
    if (args[index].kind == StepArg::Table && !terms.publicArguments[index]) {
      const auto *dataset = static_cast<const Dataset *>(bound.bindings[index].table);
      bool isFirst = llvm::none_of(sources, [](const auto &source) { return source.has_value(); });
      sources[index] = Source{dataset->name(), dataset->version()};
      auto own = context->store.defaults(*sources[index]);
      if (!own) {
        return llvm::joinErrors(std::move(failed), own.takeError());
      }
      defaults = isFirst ? *own
                         : PrivacyDefaults{std::max(defaults.noiseMultiplier, own->noiseMultiplier),
                                           std::min(defaults.clip, own->clip),
                                           std::min(defaults.metricBound, own->metricBound)};
    }
  }
  return failed;
}

void PrivateStep::setTerms(const StepPart &part, const StepBindings &bound) {
  auto args = plan->executable->args();
  argumentLabels = bound.labels;
  if (!plan->samplesRows && part.slots) {
    terms.slots.assign(part.slots->begin(), part.slots->end());
  }
  terms.tables.resize(args.size());
  for (size_t index = 0; index < args.size(); ++index) {
    if (args[index].kind != StepArg::Table) {
      continue;
    }
    terms.tables[index].isPrivate = sources[index].has_value();
    terms.tables[index].rows = bound.bindings[index].table->rows();
    for (const Column &column : static_cast<const Dataset *>(bound.bindings[index].table)->columns()) {
      terms.tables[index].columns.push_back({column.name, column.element, column.bounds, nullptr, column.dims});
    }
  }
}

llvm::Error PrivateStep::setReleases() {
  if (request->spending()) {
    spending = sojourn::wire::decode(*request->spending());
  }
  terms.noiseMultiplier = spending.noiseMultiplier != 0 ? spending.noiseMultiplier : defaults.noiseMultiplier;
  terms.clip = spending.clip != 0 ? spending.clip : defaults.clip;
  terms.metricShare = spending.metricShare >= 0 ? spending.metricShare : kMetricShare;
  terms.metricBound = defaults.metricBound;
  terms.perLayer = spending.perLayer;
  terms.lossIsSum = spending.lossIsSum;
  llvm::Error error = checkNumber("the noise multiplier", terms.noiseMultiplier, kNoiseMultipliers.most);
  error = error ? std::move(error) : checkNumber("clip", terms.clip, kBounds.most, kBounds.least);
  error = error ? std::move(error) : checkNumber("metric_share", terms.metricShare, sojourn::wire::kMetricShareMost);
  if (error) {
    return error;
  }
  if (terms.noiseMultiplier < kNoiseMultipliers.least) {
    return requestError(wire::ErrorCode_Refused, "the noise multiplier is below 2^-10, which no budget pays for");
  }
  size_t published = static_cast<size_t>(llvm::count_if(
      plan->executable->results(), [](const auto &result) { return result.kind == StepResult::Publish; }));
  auto isPriced = [](const sojourn::wire::ReleaseTerms &asked) { return asked.epsilon != 0; };
  size_t priced = static_cast<size_t>(llvm::count_if(spending.releases, isPriced));
  if (spending.releases.size() > published || priced > kPricedReleases) {
    return requestError(wire::ErrorCode_Malformed,
                        "the step gives terms of " + Twine(spending.releases.size()) + " releases, " + Twine(priced) +
                            " of them with a price; it publishes " + Twine(published) + " values, and up to " +
                            Twine(kPricedReleases) + " may have a price");
  }
  for (const sojourn::wire::ReleaseTerms &asked : spending.releases) {
    PrivateTerms::Release release;
    error = checkNumber("bound", asked.bound, kBounds.most, kBounds.least);
    error = error ? std::move(error) : checkNumber("epsilon", asked.epsilon, sojourn::wire::kEpsilonMost);
    error = error ? std::move(error) : checkNumber("delta", asked.delta, sojourn::wire::kDeltaMost);
    if (error) {
      return error;
    }
    release.bound = asked.bound;
    const sojourn::wire::ReleaseTerms *before = terms.releases.empty() ? nullptr : &asked - 1;
    release.continues = asked.continues && before && before->epsilon == asked.epsilon && before->delta == asked.delta;
    if (asked.epsilon > 0) {
      delta = 1;
      for (const auto &source : sources) {
        if (source) {
          auto granted = context->accounts.deltaOf(session->account, source->name);
          if (!granted) {
            return granted.takeError();
          }
          delta = std::min(delta, *granted);
        }
      }
      if (asked.delta > delta) {
        return checkNumber("delta", asked.delta, delta);
      }
      // With a delta of its own the price is still that of the grant's: the smallest grant that admits it.
      privacy::Grant grant{asked.epsilon, delta};
      auto price = asked.delta > 0 ? privacy::gaussianRhoFor(grant) : privacy::pureEpsilonFor(grant);
      if (!price) {
        return requestError(wire::ErrorCode_Refused, price.error());
      }
      (asked.delta > 0 ? release.rho : release.laplaceEpsilon) = *price;
    }
    terms.releases.push_back(release);
  }
  return llvm::Error::success();
}

} // namespace sojourn::owner
