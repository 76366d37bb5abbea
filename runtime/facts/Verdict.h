// SPDX-License-Identifier: Apache-2.0
// The findings of the proof of a program on private tables, for one set of terms: plain data, which needs neither MLIR
// nor torch, and its bytes.
#ifndef SOJOURN_RUNTIME_FACTS_VERDICT_H
#define SOJOURN_RUNTIME_FACTS_VERDICT_H
#include "runtime/Tensor.h"
#include "runtime/facts/ProgramFacts.h"
#include "runtime/privacy/Charge.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::runtime {

/// One release, for receipts and logs.
struct SiteInfo {
  std::string what, op, location;
  bool isBeside = false, isLaplace = false;
  double bound = 0, sensitivity = 0, cost = 0;
  int64_t exponent = 0, scale = 0, coordinates = 0;
  std::optional<unsigned> result;
  std::vector<unsigned> tables; ///< private table arguments that pay for it
  bool operator==(const SiteInfo &) const = default;
};

/// An argument that the owner draws before a run, an i64 tensor.
struct CoinInfo {
  enum class Kind : uint8_t { draw, gaussian, laplace } kind = Kind::draw;
  TensorType type;
  int64_t rows = 0, expected = 0, scale = 0;
  uint64_t site = 0; ///< of noise: the release that it belongs to
  bool operator==(const CoinInfo &) const = default;
};

/// The cost of the step for the people of one table: as a part of its run, and beside it.
struct TableCharge {
  uint64_t argument = 0;
  privacy::Charge step, beside;
  /// `beside` where a row may become any other row.
  privacy::Charge besideReplaced;
  bool operator==(const TableCharge &) const = default;
};

/// Whether a result of the step may leave, and the private tables in it.
struct ResultVerdict {
  bool isReleased = false; ///< whether it may leave
  bool isTainted = true;   ///< whether rows or draws reach it without noise
  /// What it holds of private tables where it stays: numbers of their arguments, ascending. Nothing is the most careful
  /// reading.
  std::optional<std::vector<unsigned>> tables;
  bool operator==(const ResultVerdict &) const = default;
};

/// Why a program cannot be proved, for the scientist. `code`: an ErrorCode of Messages.fbs.
struct Refusal {
  uint8_t code = 0;
  std::string message, op, location;
  bool operator==(const Refusal &) const = default;
};

struct Verdict {
  std::vector<CoinInfo> coins; ///< in the order of the coin arguments
  std::vector<SiteInfo> sites;
  std::vector<ResultVerdict> results; ///< one for each result of the program
  std::vector<TableCharge> charges;
  std::vector<std::string> notes; ///< for the scientist: what was changed
  /// Whether a draw is sampled, and whether a site is paid for by the step (not beside it).
  bool isSampled = false, spendsInStep = false;
  uint64_t operations = 0; ///< of its price, coins among them
  RunMemory memory;        ///< of a run, with its coins
  /// Of the programs that compute lists of row numbers before the run: the largest of each kind of memory.
  RunMemory listMemory;
  /// Of the rewritten module (runtime::hashModule), by which another process can tell whether it runs what was proved.
  std::array<uint8_t, 32> moduleDigest{};
  std::optional<Refusal> refusal; ///< then the rest is empty

  bool operator==(const Verdict &) const = default;
  /// Memory of a run on `threads` threads, in bytes.
  size_t runBytes(unsigned threads) const { return std::max(memory.bytes(threads), listMemory.bytes(threads)); }
  /// Memory that the verdict takes, in bytes.
  size_t bytes() const;
};

/// The verdict as bytes (Verdict.fbs).
std::string writeVerdict(const Verdict &verdict);
/// A verdict on the program of `facts`, from bytes that may be anything: ProgramError, Malformed, with the first rule
/// that they break. Each noise is of a site, each site is paid by all of its tables, nothing tainted is released, and
/// what is drawn is within the bounds of the samplers. Not checked, for it would need the proof: whether costs follow
/// from sensitivities, and whether a result that is called released or open is.
llvm::Expected<Verdict> readVerdict(llvm::StringRef bytes, const ProgramFacts &facts);

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_FACTS_VERDICT_H
