// SPDX-License-Identifier: Apache-2.0
// Frames and sums of exchanges (see Exchange.h).
#include "runtime/Exchange.h"

#include "runtime/Buffer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace sojourn::runtime {

size_t framedBytes(size_t termBytes) { return (termBytes + kAlignment - 1) / kAlignment * kAlignment; }

static FramePlaces placesOf(const Exchange &exchange, std::optional<unsigned> role, Share share) {
  FramePlaces places;
  for (const ExchangeTerm &term : exchange) {
    const bool isHere = !role || term.isOf(*role);
    places.offsets.push_back(isHere ? places.bytes : FramePlaces::kNone);
    places.bytes += isHere ? framedBytes(share.count(term.elements) * byteWidth(term.element)) : 0;
  }
  return places;
}

FramePlaces placesOfTerms(const Exchange &exchange, unsigned role, Share share) {
  return placesOf(exchange, role, share);
}

FramePlaces placesOfSums(const Exchange &exchange, Share share) { return placesOf(exchange, std::nullopt, share); }

namespace {

/// Terms of one sum, in the order of roles.
using Terms = llvm::ArrayRef<const std::byte *>;

template <class Number>
Number at(const std::byte *from, size_t index) {
  Number number;
  std::memcpy(&number, from + index * sizeof(Number), sizeof(Number));
  return number;
}

template <class Number>
void addTwo(const std::byte *first, const std::byte *second, size_t count, std::byte *sums) {
  using Block [[gnu::vector_size(64)]] = Number;
  size_t index = 0;
  for (constexpr size_t kNumbers = sizeof(Block) / sizeof(Number); index + kNumbers <= count; index += kNumbers) {
    const size_t from = index * sizeof(Number);
    Block a, b;
    std::memcpy(&a, first + from, sizeof a);
    std::memcpy(&b, second + from, sizeof b);
    a += b;
    std::memcpy(sums + from, &a, sizeof a);
  }
  for (; index < count; ++index) {
    const auto sum = static_cast<Number>(at<Number>(first, index) + at<Number>(second, index));
    std::memcpy(sums + index * sizeof(Number), &sum, sizeof(Number));
  }
}

/// Integers as unsigned ones, which wrap around. In pieces whose sums stay in the first cache for all terms.
template <class Number>
void addNumbers(Terms terms, size_t count, std::byte *sums) {
  constexpr size_t kPiece = 8'192 / sizeof(Number);
  if (terms.size() == 1) {
    std::memcpy(sums, terms.front(), count * sizeof(Number));
    return;
  }
  for (size_t done = 0; done < count; done += kPiece) {
    const size_t from = done * sizeof(Number), now = std::min(kPiece, count - done);
    addTwo<Number>(terms[0] + from, terms[1] + from, now, sums + from);
    for (const std::byte *term : terms.drop_front(2)) {
      addTwo<Number>(sums + from, term + from, now, sums + from);
    }
  }
}

struct BFloat {
  uint16_t bits = 0;
  float wide() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  static BFloat of(float number) {
    const auto word = std::bit_cast<uint32_t>(number);
    if (std::isnan(number)) {
      return {static_cast<uint16_t>(word >> 16 | 0x40)};
    }
    return {static_cast<uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16)}; // to nearest, ties to even
  }
};

struct Half {
  _Float16 number = 0;
  float wide() const { return static_cast<float>(number); }
  static Half of(float number) { return {static_cast<_Float16>(number)}; }
};

template <class Narrow>
void addNarrow(Terms terms, size_t count, std::byte *sums) {
  for (size_t index = 0; index < count; ++index) {
    float sum = at<Narrow>(terms.front(), index).wide();
    for (const std::byte *term : terms.drop_front()) {
      sum += at<Narrow>(term, index).wide();
    }
    const Narrow rounded = Narrow::of(sum);
    std::memcpy(sums + index * sizeof(Narrow), &rounded, sizeof(Narrow));
  }
}

void addElements(Element element, Terms terms, size_t count, std::byte *sums) {
  switch (element) {
  case Element::f64: return addNumbers<double>(terms, count, sums);
  case Element::f32: return addNumbers<float>(terms, count, sums);
  case Element::c128: return addNumbers<double>(terms, 2 * count, sums);
  case Element::c64: return addNumbers<float>(terms, 2 * count, sums);
  case Element::f16: return addNarrow<Half>(terms, count, sums);
  case Element::bf16: return addNarrow<BFloat>(terms, count, sums);
  case Element::i64: return addNumbers<uint64_t>(terms, count, sums);
  case Element::i32: return addNumbers<uint32_t>(terms, count, sums);
  case Element::i16: return addNumbers<uint16_t>(terms, count, sums);
  case Element::i8:
  case Element::u8:
  case Element::i1: return addNumbers<uint8_t>(terms, count, sums);
  }
}

} // namespace

void addTerms(const Exchange &exchange, Share share, llvm::ArrayRef<const std::byte *> frames, std::byte *sums) {
  std::vector<FramePlaces> places;
  for (unsigned role = 0; role < frames.size(); ++role) {
    places.push_back(placesOfTerms(exchange, role, share));
  }
  const FramePlaces own = placesOfSums(exchange, share);
  for (size_t index = 0; index < exchange.size(); ++index) {
    const ExchangeTerm &term = exchange[index];
    llvm::SmallVector<const std::byte *, 16> terms;
    for (unsigned role = 0; role < frames.size(); ++role) {
      if (term.isOf(role)) {
        terms.push_back(frames[role] + places[role].offsets[index]);
      }
    }
    const size_t count = share.count(term.elements), bytes = count * byteWidth(term.element);
    std::byte *to = sums + own.offsets[index];
    if (count > 0 && !terms.empty()) {
      addElements(term.element, terms, count, to);
    }
    std::memset(to + bytes, 0, framedBytes(bytes) - bytes); // no memory of others leaves
  }
}

void cutShare(const Exchange &exchange, Share share, const FramePlaces &whole, const std::byte *from,
              const FramePlaces &part, std::byte *to) {
  for (size_t index = 0; index < exchange.size(); ++index) {
    const ExchangeTerm &term = exchange[index];
    const size_t width = byteWidth(term.element), bytes = share.count(term.elements) * width;
    if (whole.offsets[index] != FramePlaces::kNone) {
      std::byte *own = to + part.offsets[index];
      std::memcpy(own, from + whole.offsets[index] + share.first(term.elements) * width, bytes);
      std::memset(own + bytes, 0, framedBytes(bytes) - bytes);
    }
  }
}

void clearPadding(const Exchange &exchange, const FramePlaces &whole, std::byte *sums) {
  for (size_t index = 0; index < exchange.size(); ++index) {
    const size_t bytes = exchange[index].elements * byteWidth(exchange[index].element);
    std::memset(sums + whole.offsets[index] + bytes, 0, framedBytes(bytes) - bytes);
  }
}

void pasteShare(const Exchange &exchange, Share share, const FramePlaces &part, const std::byte *from,
                const FramePlaces &whole, std::byte *to) {
  for (size_t index = 0; index < exchange.size(); ++index) {
    const ExchangeTerm &term = exchange[index];
    const size_t width = byteWidth(term.element);
    std::memcpy(to + whole.offsets[index] + share.first(term.elements) * width, from + part.offsets[index],
                share.count(term.elements) * width);
  }
}

} // namespace sojourn::runtime
