// SPDX-License-Identifier: Apache-2.0
// The table behind the discrete Gaussian: one narrow base distribution as an alias table, and the two
// factors that widen four draws of it to the distribution asked for. DiscreteGaussian.h says when to use it.
#ifndef SOJOURN_RUNTIME_PRIVACY_GAUSSIANTABLE_H
#define SOJOURN_RUNTIME_PRIVACY_GAUSSIANTABLE_H

#include "runtime/privacy/Coins.h"
#include "runtime/privacy/WideFraction.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sojourn::privacy {

/// A draw of 16 bytes is a column (11 bits) and a fraction (117 bits), its upper 53 bits beside the column.
inline constexpr unsigned kColumnBits = 11;
inline constexpr int kColumns = 1 << kColumnBits;
/// The base distribution lives on [-kReach, kReach]; column c stands for the value c - kReach.
inline constexpr int kReach = kColumns / 2 - 1;

/// x = outer * (inner * x1 + x2) + (inner * x3 + x4), the x's with base variance
/// sigma^2 / ((1 + inner^2) (1 + outer^2)). A factor 0 switches its stage off.
struct Widening {
  uint32_t inner;
  uint32_t outer;
};

/// The widening for a sigma in [1, kSigmaMax] whose error is smallest; each of kSigmaMax's range has
/// one. The conditions are integer inequalities, spelled out and proved at the definition.
std::optional<Widening> wideningFor(uint64_t sigma);

/// Probabilities of the base distribution in units of 2^-128, by column; they sum to 2^128 exactly.
/// `numerator / denominator` is 1 / (2 s^2) for base deviation s, at most 1/2.
std::vector<Uint128> gaussianWeights(uint64_t numerator, uint64_t denominator);

/// Walker's alias method (1977) over integers, so that columns reproduce the weights exactly.
struct AliasTable {
  /// Per column the threshold of its own value, at most 2^117.
  std::array<Uint128, kColumns> threshold;
  /// The value taken otherwise.
  std::array<int16_t, kColumns> alias;

  /// `weights` as gaussianWeights gives them.
  explicit AliasTable(const std::vector<Uint128> &weights);

  /// The value that 16 bytes of coins select: `first` is the column below the fraction's upper bits,
  /// `second` the fraction's lower 64 bits. No branch depends on them.
  int64_t pick(uint64_t first, uint64_t second) const {
    unsigned column = static_cast<unsigned>(first) & (kColumns - 1);
    Uint128 fraction = Uint128{first >> kColumnBits} << 64 | second;
    int64_t own = static_cast<int64_t>(column) - kReach, other = alias[column];
    int64_t keep = -static_cast<int64_t>(fraction < threshold[column]);
    return (own & keep) | (other & ~keep);
  }
};

/// What the first 8 bytes of a draw tell: all, unless they tie with the threshold (2^-53).
class FirstWords {
public:
  explicit FirstWords(const AliasTable &table);

  /// AliasTable::pick(first, second) for every `second`, unless `tied` became 1.
  int64_t pick(uint64_t first, uint64_t &tied) const {
    uint64_t column = first & (kColumns - 1), upper = first >> kColumnBits;
    uint64_t cell = cells[column], bound = cell >> kColumnBits;
    uint64_t keep = -static_cast<uint64_t>(upper < bound);
    tied |= static_cast<uint64_t>(upper == bound);
    return static_cast<int64_t>((column & keep) | (cell & (kColumns - 1) & ~keep)) - kReach;
  }

private:
  /// Per column the upper 53 bits of its threshold, then the column of its alias: 16 KiB.
  std::array<uint64_t, kColumns> cells;
};

struct GaussianTable {
  Widening widening;
  AliasTable base;
  FirstWords first;

  /// The value of four picks.
  int64_t widened(const std::array<int64_t, 4> &x) const {
    const int64_t inner = widening.inner, outer = widening.outer;
    return outer * (inner * x[0] + x[1]) + (inner * x[2] + x[3]);
  }
};

/// fillDiscreteGaussian with a table of one's own.
void fillFromTable(const GaussianTable &table, const Coins &coins, uint32_t site, uint64_t first,
                   std::span<int64_t> out);

/// From a cache of the last 32 sigmas; about 0.3 ms where it is not there. Thread-safe; sigma in
/// [1, kSigmaMax].
std::shared_ptr<const GaussianTable> gaussianTable(uint64_t sigma);

} // namespace sojourn::privacy

#endif // SOJOURN_RUNTIME_PRIVACY_GAUSSIANTABLE_H
