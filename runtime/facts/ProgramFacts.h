// SPDX-License-Identifier: Apache-2.0
// Facts of a program, apart from its code: plain data, which needs neither MLIR nor torch, and its bytes.
#ifndef SOJOURN_RUNTIME_FACTS_PROGRAMFACTS_H
#define SOJOURN_RUNTIME_FACTS_PROGRAMFACTS_H
#include "passes/DependenceSummary.h"
#include "runtime/Exchange.h"
#include "runtime/facts/Signature.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::runtime {

/// Memory that runs take beside their results, in bytes.
struct RunMemory {
  uint64_t arena = 0;   ///< of one run
  uint64_t scratch = 0; ///< of each of its threads
  uint64_t library = 0; ///< of the largest call of the kernel library
  /// Of a run on `threads` threads; the largest number where it is more.
  size_t bytes(unsigned threads) const;
  bool operator==(const RunMemory &) const = default;
};

/// How other roles see terms that depend on an argument.
enum class Shown : uint8_t {
  No,    ///< there are none
  Sums,  ///< as masked sums
  Clear, ///< as they are
};

/// Facts of one role's part of a joint step: the counts of a message, which are for all roles, and the positions of
/// the part's own arguments and results in it.
struct JointFacts {
  uint32_t role = 0, parties = 0;
  std::array<uint32_t, kStepArgs.size()> counts{}; ///< arguments of the joint step, by kind
  uint32_t keeps = 0;                              ///< its kept results
  std::vector<uint32_t> positions; ///< of each argument of the part, among those of its kind in the joint step
  std::vector<uint32_t> kept;      ///< of each kept result of the part, among those of the joint step
  std::vector<Shown> shown;        ///< per argument of the part
  std::vector<Exchange> exchanges; ///< in order
  std::vector<uint32_t> copies;    ///< results of the part that all roles have, in order
  /// States of the part that all roles have and on which copies depend, in order: numbers of arguments.
  std::vector<uint32_t> copiedStates;
  /// The least rows of this role that a masked sum is over.
  std::optional<uint64_t> leastRows;
  /// Op and line of the first term that others see as it is; empty where there is none.
  std::string clearOp, clearLocation;

  bool operator==(const JointFacts &) const = default;
};

struct ProgramFacts {
  std::vector<ArgSpec> args;
  std::vector<ResultSpec> results;
  DependenceSummary dependence; ///< of results on arguments
  bool samplesRows = false;     ///< whether the program draws rows
  uint64_t ops = 0;
  uint64_t operations = 0; ///< of its price (passes/Price.h)
  RunMemory memory;
  std::optional<JointFacts> joint;

  // From `count`: bindings that a request must bring, and results that it must name.
  size_t states = 0, uploads = 0, slots = 0, seeds = 0, tables = 0, keeps = 0, publishes = 0;
  uint64_t publishBytes = 0; ///< of the published values

  bool operator==(const ProgramFacts &) const = default;
  /// Checks that an owner can serve this signature, and counts. Unsupported: a slot or seed of another type than these
  /// have, a coin; Malformed: a commit to anything but a state of its type, or a second one to the same; Internal:
  /// dependences of another number of arguments or results. ProgramError.
  llvm::Error count();
  /// Memory that the facts take, in bytes.
  size_t bytes() const;
};

/// The facts as bytes (Facts.fbs), without what `count` finds.
std::string writeFacts(const ProgramFacts &facts);
/// Facts from bytes that may be anything, counted. ProgramError, Malformed: the first rule that they break.
llvm::Expected<ProgramFacts> readFacts(llvm::StringRef bytes);

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_FACTS_PROGRAMFACTS_H
