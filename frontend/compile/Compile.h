// SPDX-License-Identifier: Apache-2.0
// Traces to programs: import, phases, encoding.
#ifndef SOJOURN_FRONTEND_COMPILE_COMPILE_H
#define SOJOURN_FRONTEND_COMPILE_COMPILE_H

#include "frontend/Raise.h"
#include "frontend/recording/Trace.h"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::frontend {

/// A trace as the owner runs it. Immutable.
struct CompiledTrace {
  std::string program, debug;
  std::array<uint8_t, 32> hash{};
  std::shared_ptr<const wire::ResultPlaces> places; ///< of a group's program; else null
  double compileSeconds = 0;
  size_t bytes() const { return program.size() + debug.size(); }
};

/// What came of a trace.
struct Compilation {
  std::shared_ptr<const CompiledTrace> compiled; ///< nothing if it was refused
  std::string failure;                           ///< then the reason, with the op and its line
  ErrorKind kind = ErrorKind::Unsupported;
  std::optional<size_t> refusedOp; ///< position of the op record to blame, if it is known
  std::vector<uint64_t> numbers;   ///< slots of a general form after those recorded (General.h)
};

/// Called with each phase's name and text ("captured" .. "core") of one compilation.
using PhaseListener = std::function<void(const std::string &phase, const std::string &text)>;

/// Core form of an encoded program, with locations. Throws Error if the bytes do not decode.
std::string decodeToText(const std::string &program, const std::string &debug);

/// Where the results of an encoded program of `parties` roles lie. Throws Error if the bytes do not decode, or are of a
/// program with other roles.
std::shared_ptr<const wire::ResultPlaces> placesOfProgram(const std::string &program, unsigned parties);

/// Process-wide; empty removes it.
void setPhaseListener(PhaseListener listener);

/// Imports, lowers and encodes. Independent of torch's state. Needs the interpreter (for lines, for
/// a listener) only while it holds no lock.
Compilation compileTrace(const Trace &trace);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_COMPILE_COMPILE_H
