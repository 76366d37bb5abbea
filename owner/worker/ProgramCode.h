// SPDX-License-Identifier: Apache-2.0
// The worker's code of a program; opaque to the front.
#ifndef SOJOURN_OWNER_WORKER_PROGRAMCODE_H
#define SOJOURN_OWNER_WORKER_PROGRAMCODE_H

#include "passes/PriceLimits.h"
#include "passes/privacy/NoiseForm.h"
#include "runtime/Engine.h"
#include "runtime/facts/Verdict.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::owner {

/// Immutable.
struct ProgramCode {
  std::unique_ptr<runtime::Code> step;
  /// The bytes it was made from, which the front has, too: `decodeProgram` gives the verified module again.
  std::shared_ptr<const runtime::Buffer> program, debug;
  /// Per result its number among those that are published.
  std::vector<std::optional<unsigned>> published;
  /// Of a joint program: results that all members have.
  std::vector<uint32_t> copies;
};

/// Immutable but for what it remembers of lists.
struct PrivateCode {
  std::unique_ptr<runtime::Code> step;
  /// Lists of row numbers that are known with the program, and with the message (RowLists.h); null where there are
  /// none.
  std::unique_ptr<runtime::Code> fixedLists, sentLists;
  mutable std::atomic<bool> areFixedListsChecked = false;
  std::vector<std::optional<NoiseForm>> forms; ///< per result: how noise arrives in it
  std::vector<runtime::CoinInfo> coins;        ///< in the order of the coin arguments, which come last
};

/// The bytes of a program, or of its debug table.
inline llvm::StringRef textOf(const runtime::Buffer &buffer) {
  return {static_cast<const char *>(buffer.data()), buffer.size()};
}

/// Refuses a program with a call of the kernel library that would take longer than `limits` allow: a stop of the step
/// waits for it.
llvm::Error checkLibraryCalls(mlir::ModuleOp core, const runtime::Code &code, const PriceLimits &limits);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_WORKER_PROGRAMCODE_H
