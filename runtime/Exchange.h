// SPDX-License-Identifier: Apache-2.0
// Exchanges of a joint step as bytes: where terms lie in frames, and their sums. Knows neither MLIR nor torch.
#ifndef SOJOURN_RUNTIME_EXCHANGE_H
#define SOJOURN_RUNTIME_EXCHANGE_H

#include "dialect/elements/Elements.h"

#include "llvm/ADT/ArrayRef.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sojourn::runtime {

/// One sum of an exchange.
struct ExchangeTerm {
  Element element = Element::f32;
  uint64_t elements = 0;
  uint32_t from = 0;     ///< roles with a term, bit by bit
  bool isMasked = false; ///< of i64, mod 2^64; masks of the roles cancel in the sum

  bool isOf(unsigned role) const { return from >> role & 1; }
  bool operator==(const ExchangeTerm &) const = default;
};
using Exchange = std::vector<ExchangeTerm>;

/// The bytes of a term in a frame: terms lie one after another, each from the next multiple of kAlignment on.
size_t framedBytes(size_t termBytes);

/// The elements of each term that one of `of` roles adds up; all of them by default.
struct Share {
  unsigned index = 0, of = 1;
  uint64_t first(uint64_t elements) const { return elements / of * index + elements % of * index / of; }
  uint64_t count(uint64_t elements) const { return Share{index + 1, of}.first(elements) - first(elements); }
};

/// Where a share of each term lies in a frame.
struct FramePlaces {
  static constexpr size_t kNone = SIZE_MAX;
  std::vector<size_t> offsets; ///< per term; kNone where the frame has none
  size_t bytes = 0;
};
/// Of the frame of a role's terms.
FramePlaces placesOfTerms(const Exchange &exchange, unsigned role, Share share = {});
/// Of the frame of the sums.
FramePlaces placesOfSums(const Exchange &exchange, Share share = {});

/// The sums of a share of the terms, added in the order of roles, each addition rounded in the element type (f16 and
/// bf16 in f32, and then once); integers wrap around. `frames`: of the terms of each role, of the bytes that
/// `placesOfTerms` says; null for roles without terms. `sums`: of the bytes that `placesOfSums` says.
void addTerms(const Exchange &exchange, Share share, llvm::ArrayRef<const std::byte *> frames, std::byte *sums);

/// Copies a share out of a frame of whole terms, or of whole sums into it.
void cutShare(const Exchange &exchange, Share share, const FramePlaces &whole, const std::byte *from,
              const FramePlaces &part, std::byte *to);
void pasteShare(const Exchange &exchange, Share share, const FramePlaces &part, const std::byte *from,
                const FramePlaces &whole, std::byte *to);

/// Zeros between the sums of a frame whose shares are pasted.
void clearPadding(const Exchange &exchange, const FramePlaces &whole, std::byte *sums);

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_EXCHANGE_H
