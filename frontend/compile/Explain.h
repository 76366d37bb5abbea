// SPDX-License-Identifier: Apache-2.0
// Why a program was compiled: how its trace differs from the nearest one before it.
#ifndef SOJOURN_FRONTEND_COMPILE_EXPLAIN_H
#define SOJOURN_FRONTEND_COMPILE_EXPLAIN_H

#include "frontend/compile/General.h"

#include <string>

namespace sojourn::frontend {

struct Explanation {
  std::string why;          ///< one sentence
  std::string op, argument; ///< that differ; empty where it is something else
  std::string before, now;  ///< what it was and is; shapes, types and integers, never a value of a tensor or float
  SourceLine line;          ///< the user's
  size_t ops = 0;           ///< of the trace
  bool isGeneral = false;   ///< integers of it are numbers of the run
  double seconds = 0;       ///< that compiling took
  std::string program;      ///< its hash, as SOJOURN_DUMP and the owner's log show it
};

/// The words of a trace that was seen earlier.
struct TraceWords {
  const std::vector<Word> *inputs, *words;
};
/// A program of its own for a trace that has not been seen. `before`: an earlier trace, or null.
Explanation explainDifference(const Trace &trace, const TraceWords *before);
/// How many words agree from the beginning on: the nearest earlier trace has the most.
size_t agreement(const Trace &trace, const std::vector<Word> &words);
/// One integer that was `before`.
Explanation explainInteger(const Trace &trace, const Skeleton &skeleton, size_t integer, int64_t before);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_COMPILE_EXPLAIN_H
