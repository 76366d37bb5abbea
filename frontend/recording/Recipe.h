// SPDX-License-Identifier: Apache-2.0
// The record of a call, which can be sent again.
#ifndef SOJOURN_FRONTEND_RECORDING_RECIPE_H
#define SOJOURN_FRONTEND_RECORDING_RECIPE_H

#include "frontend/recording/Trace.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace sojourn::frontend {

struct CompiledTrace;

/// The ops of a call, as words with numbers for the values that they refer to; and the programs to which traces with no
/// other ops compiled. A trace that refers to a recipe needs no words, and no search in the cache, where its program is
/// known (`Recording::recipe`). Not for several threads.
struct Recipe {
  std::vector<Word> words;        ///< with 0 for its integers that may vary
  std::vector<size_t> references; ///< positions of values in `words`
  /// Positions of these in `words`, and their values in the call that was captured.
  std::vector<std::pair<size_t, int64_t>> integers;
  std::vector<uint32_t> slotOps;
  std::vector<Origin> origins;

  /// A finished trace of the recipe: besides its words it has only its inputs (values at the owner, or uploads) and its
  /// outputs (results that live on, and values that are published).
  struct Program {
    std::vector<int64_t> ids; ///< in the trace, of each number
    std::vector<Word> inputs, outputs;
    std::shared_ptr<const CompiledTrace> compiled;
  };

  /// `trace`: finished, without the recipe's words. Null where no trace like it was compiled, or not lately.
  std::shared_ptr<const CompiledTrace> find(const std::vector<int64_t> &ids, const Trace &trace) const {
    auto found = std::find_if(programs_.begin(), programs_.end(), [&](const Program &program) {
      return program.ids == ids && program.inputs == trace.inputs && program.outputs == trace.words;
    });
    return found == programs_.end() ? nullptr : found->compiled;
  }
  void note(Program program) {
    constexpr size_t kMost = 4;
    if (programs_.size() == kMost) {
      programs_.erase(programs_.begin());
    }
    programs_.push_back(std::move(program));
  }
  /// Puts the recipe's words in front of those of `trace`, which has no others than its outputs.
  void writeTo(Trace &trace, const std::vector<int64_t> &ids) const {
    trace.words.insert(trace.words.begin(), words.begin(), words.end());
    for (size_t at : references) {
      trace.words[at] = ids[static_cast<size_t>(trace.words[at])];
    }
    for (auto [at, value] : integers) {
      trace.words[at] = value;
    }
    trace.origins = origins;
    trace.slotOps = slotOps;
  }

private:
  std::vector<Program> programs_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_RECIPE_H
