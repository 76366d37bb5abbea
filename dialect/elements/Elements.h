// SPDX-License-Identifier: Apache-2.0
// Element types and what is known of each, made from elements/Elements.def. Knows neither MLIR nor torch, so that every
// side may include it.
#ifndef SOJOURN_DIALECT_ELEMENTS_ELEMENTS_H
#define SOJOURN_DIALECT_ELEMENTS_ELEMENTS_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sojourn {

/// Element types; the numbers are those of ElementType in runtime/Program.fbs.
enum class Element : uint8_t {
#define SOJOURN_ELEMENT(name, number, bytes, kind, sign) name = number,
#include "dialect/elements/Elements.def"
};

enum class ElementClass : uint8_t { Boolean, Integer, Float, Complex };

/// All of them, in the order of their numbers.
inline constexpr std::array kElements = {
#define SOJOURN_ELEMENT(name, number, bytes, kind, sign) Element::name,
#include "dialect/elements/Elements.def"
};
inline constexpr unsigned kElementCount = kElements.size();

namespace detail {

enum class ElementSign : uint8_t { Signed, Unsigned };

struct ElementFacts {
  std::string_view name;
  uint8_t bytes;
  ElementClass kind;
  ElementSign sign;
};

inline constexpr std::array<ElementFacts, kElementCount> kElementFacts = {{
#define SOJOURN_ELEMENT(name, number, bytes, kind, sign) {#name, bytes, ElementClass::kind, ElementSign::sign},
#include "dialect/elements/Elements.def"
}};

constexpr bool countsFromZero() {
  for (size_t i = 0; i < kElements.size(); ++i) {
    if (static_cast<size_t>(kElements[i]) != i) {
      return false;
    }
  }
  return true;
}
static_assert(countsFromZero(), "the numbers of Elements.def index tables: from 0, in order, without a gap");

constexpr const ElementFacts &factsOf(Element element) { return kElementFacts[static_cast<size_t>(element)]; }

} // namespace detail

/// The element type of that number; nullopt where there is none. For numbers from outside.
constexpr std::optional<Element> elementOfNumber(uint64_t number) {
  return number < kElementCount ? std::optional(static_cast<Element>(number)) : std::nullopt;
}

/// Bytes of one element in memory and on the wire (i1 takes one byte, 0 or 1).
constexpr size_t byteWidth(Element element) { return detail::factsOf(element).bytes; }

constexpr ElementClass classOf(Element element) { return detail::factsOf(element).kind; }
constexpr bool isInteger(Element element) { return classOf(element) == ElementClass::Integer; }
constexpr bool isFloat(Element element) { return classOf(element) == ElementClass::Float; }
constexpr bool isComplex(Element element) { return classOf(element) == ElementClass::Complex; }
/// Whether it has negative numbers; i1 and u8 have none.
constexpr bool isSigned(Element element) { return detail::factsOf(element).sign == detail::ElementSign::Signed; }

/// "f32", "i1", "u8", "c64" ...
constexpr std::string_view elementName(Element element) { return detail::factsOf(element).name; }

} // namespace sojourn

#endif // SOJOURN_DIALECT_ELEMENTS_ELEMENTS_H
