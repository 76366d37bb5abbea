// SPDX-License-Identifier: Apache-2.0
// Traces that differ in integers alone: which integers may vary, and the one form that serves for all of their values.
// An integer may vary that no shape and no way to compute depends on: factors, values to fill with, where a window
// begins along a dim of its storage (`x[k]`, `x[k:k + 5]`, `x.split(5)[k]`), starts and ends of ranges.
#ifndef SOJOURN_FRONTEND_COMPILE_GENERAL_H
#define SOJOURN_FRONTEND_COMPILE_GENERAL_H

#include "frontend/compile/Compile.h"
#include "frontend/recording/Trace.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace sojourn::frontend {

/// A trace without its integers that may vary, and these. Two traces with equal words and seen dims differ in them at
/// most.
struct Skeleton {
  struct Integer {
    size_t at;     ///< position of its word; of a view: of its offset
    int64_t value; ///< of a view: where it begins along `dim`
    uint32_t op;   ///< position of its op record
    int32_t dim;   ///< of the storage as the view sees it; -1 where it is no view's
    uint16_t argument;
    size_t seen = 0; ///< of a view: position of its storage's dims in `seen`
    size_t rank = 0; ///< of the view
  };
  std::vector<Word> words;
  /// Per view that may move: its storage's dims as it sees them (those that it crosses are one): rank, sizes....
  std::vector<Word> seen;
  std::vector<Integer> integers; ///< those of one view one after another

  explicit Skeleton(const Trace &trace);
};

/// Which integers of a skeleton are numbers of the run: per integer its class, -1 for a constant. All of one class are
/// equal in all sightings and share a slot.
using Classes = std::vector<int32_t>;

/// The general form of a trace: `classes` of the integers are numbers of the run, each a slot after those recorded.
/// Depends on the skeleton, the classes and the constants alone.
Trace generalForm(const Trace &trace, const Skeleton &skeleton, const Classes &classes);
/// What fills these slots.
std::vector<uint64_t> runNumbers(const Skeleton &skeleton, const Classes &classes);

/// The traces of one skeleton: which of its integers have to be known when compiling, and a general form for each set
/// of values of those.
struct Family {
  /// Bound of `variants`; the oldest is forgotten.
  static constexpr size_t kVariants = 64;

  /// The integers as they were first seen, and the form that serves for others.
  struct Variant {
    std::vector<int64_t> values;
    Classes classes;
    std::shared_ptr<const CompiledTrace> general; ///< nothing before the second sighting
    bool serves(const Skeleton &skeleton) const;
    Classes widened(const Skeleton &skeleton, const std::vector<bool> &isFixed) const;
  };

  std::vector<Word> inputs, words, seen, tables;
  std::vector<bool> isFixed; ///< per integer: it has to be known when compiling
  std::string whyFixed;      ///< of the last one
  std::deque<Variant> variants;

  Variant *find(const Skeleton &skeleton);
  /// Notes the first trace with these fixed integers, which has a program of its own.
  void see(const Skeleton &skeleton);
  /// `refused`: what came of a general form of `classes`; the integers that it is about are fixed.
  void fix(const Variant &variant, const Skeleton &skeleton, const Classes &classes, const Compilation &refused);
  /// All integers are fixed from now on; `why` ends a sentence about them.
  void separate(const std::string &why);
  size_t bytes() const;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_COMPILE_GENERAL_H
