// SPDX-License-Identifier: Apache-2.0
// What traces compiled to, so that each compiles once; and one program for traces that differ in integers alone.
#ifndef SOJOURN_FRONTEND_COMPILE_CACHE_H
#define SOJOURN_FRONTEND_COMPILE_CACHE_H

#include "frontend/compile/Compile.h"
#include "frontend/compile/Explain.h"
#include "frontend/compile/General.h"
#include "frontend/RecentlyUsed.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sojourn::frontend {

/// Programs by their traces, found by hash and compared in full. A trace that is seen first compiles to a program of
/// its own. One that differs from an earlier one only in integers that may vary (General.h) compiles to a general form
/// beside it, which serves from then on; integers that an op needs when it is compiled stay part of the program.
/// Bounded: a script that makes new programs all the time compiles the oldest ones anew. Not for several threads.
class TraceCache {
public:
  static constexpr size_t kTraces = 4096, kBytes = size_t{256} << 20;

  explicit TraceCache(size_t traces = kTraces, size_t bytes = kBytes)
      : entries_(traces, bytes), families_(traces, bytes) {}

  enum class Forms { Any, SpecialOnly };
  /// `traceFinished`: the trace with its Outputs record. Compiles on a miss; a refusal is not kept.
  Compilation find(const Trace &traceFinished, bool &hit, Forms forms = Forms::Any);
  /// Traces like this one get programs of their own from now on; `why` ends a sentence about them.
  void keepSpecial(const Trace &traceFinished, const std::string &why);
  size_t size() const { return entries_.size(); }
  /// Why programs were compiled since this was last asked.
  std::vector<Explanation> takeExplanations() { return std::exchange(explanations_, {}); }

private:
  struct Entry {
    std::vector<Word> inputs, words, tables;
    std::shared_ptr<const CompiledTrace> compiled;
  };
  /// Traces of one hash count from 0.
  using Key = std::pair<TraceKey, size_t>;

  /// `explanation`: why it is compiled, if it is not that no trace like it was.
  Compilation compileSpecial(const Trace &trace, const Key &key, std::optional<Explanation> explanation = {});
  Compilation findGeneral(const Trace &trace, const Key &key, Skeleton &skeleton, bool &hit);
  Family &familyOf(const Trace &trace, Skeleton &skeleton, Key &key);
  /// Nothing is compiled where there is nothing to generalise, or an op needs the integers that vary: those are fixed.
  Compilation compileGeneral(const Trace &trace, const Skeleton &skeleton, Family &family, Family::Variant &variant);
  Explanation explainNew(const Trace &trace);
  static std::optional<Explanation> explainFixed(const Trace &trace, const Skeleton &skeleton, const Family &family);
  void explain(const Trace &trace, Explanation explanation, const Compilation &compilation);

  RecentlyUsed<Key, Entry> entries_;
  RecentlyUsed<Key, Family> families_;
  std::vector<Explanation> explanations_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_COMPILE_CACHE_H
