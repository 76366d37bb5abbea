// SPDX-License-Identifier: Apache-2.0
// The worker: the side of an owner that has the code of programs. It decodes, proves, draws coins and runs; sessions,
// accounts, labels and books are the front's, which knows neither MLIR nor torch. Service.h puts it behind bytes.
#ifndef SOJOURN_OWNER_WORKER_WORKER_H
#define SOJOURN_OWNER_WORKER_WORKER_H

#include "owner/worker/Port.h"
#include "passes/PriceLimits.h"
#include "runtime/Engine.h"
#include "runtime/facts/PrivateTerms.h"
#include "runtime/facts/Verdict.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sojourn::owner {

using runtime::PrivateTerms;

struct ProgramCode; // as it was sent: owner/worker/ProgramCode.h
struct PrivateCode; // made private for one set of terms

/// A program that passed every check that does not depend on a request.
struct DescribedProgram {
  std::string facts; ///< as bytes: runtime::readFacts
  std::string text;  ///< core form with the scientist's locations, at most kProgramTextBytes
  std::shared_ptr<const ProgramCode> code;
  size_t codeBytes = 0; ///< memory of the code
};

/// A program proved for one set of terms.
struct ProvedProgram {
  std::string verdict; ///< as bytes: runtime::readVerdict
  /// Per result the standard error of its noise; NaN where it is not known, nothing where an argument changes it.
  std::vector<std::optional<double>> errors;
  std::array<uint8_t, 32> digest{}; ///< of the rewritten module, as in the verdict
  std::shared_ptr<const PrivateCode> code;
  size_t codeBytes = 0;
};

/// Bytes of a program's text for the log, at most.
inline constexpr size_t kProgramTextBytes = size_t{4} << 20;

/// Thread-safe. Errors are those of requests (owner/RequestError.h) or ProgramError.
class Worker {
public:
  explicit Worker(const runtime::Engine &engine) : engine(engine) {}

  /// Decodes and verifies a program, holds its price against the limits and prepares it on the engine. `role`: it is a
  /// joint one, of which this is done with the part of that role.
  llvm::Expected<DescribedProgram> describe(std::shared_ptr<const runtime::Buffer> program,
                                            std::shared_ptr<const runtime::Buffer> debug,
                                            const PriceLimits &limits = {}, const RoleOfGroup &role = {}) const;
  /// Of bytes that it copies.
  llvm::Expected<DescribedProgram> describe(llvm::StringRef program, llvm::StringRef debug,
                                            const PriceLimits &limits = {}) const;
  /// Decodes the program again, rewrites, proves and prepares it. Refused with op, line and reasons where it cannot be
  /// proved, or costs more than the limits.
  llvm::Expected<ProvedProgram> prove(const ProgramCode &program, const PrivateTerms &terms,
                                      const PriceLimits &limits = {}) const;

  using ArgumentValues = llvm::function_ref<std::optional<std::vector<double>>(unsigned argument)>;
  /// The standard error of a result whose noise depends on arguments: `values` tells the elements of public ones.
  /// Nothing where it is not known.
  std::optional<double> errorOf(const PrivateCode &code, size_t result, ArgumentValues values) const;
  /// Refused where a private table would be read at a list of row numbers that names one twice, as far as lists are
  /// known before the step runs. `bindings` are those of the step, without coins.
  llvm::Error checkRowLists(const PrivateCode &code, llvm::ArrayRef<runtime::Binding> bindings,
                            const runtime::RunOptions &options) const;

  /// Empty where the engine has the traits that proofs rest on at this moment; else the reason of a refusal.
  std::string lacksForPrivateTables() const;

  const runtime::Engine &engine;
};

/// On the engine of this process.
const Worker &cpuWorker();

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_WORKER_WORKER_H
