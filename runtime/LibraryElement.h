// SPDX-License-Identifier: Apache-2.0
// Element types as torch spells them. The switch has no default: an element that Elements.def gains does not build
// until it is named here.
#ifndef SOJOURN_RUNTIME_LIBRARYELEMENT_H
#define SOJOURN_RUNTIME_LIBRARYELEMENT_H
#include "dialect/elements/Elements.h"
#include <c10/core/ScalarType.h>
#include <array>
#include <optional>

namespace sojourn::runtime {

constexpr at::ScalarType scalarTypeOf(Element element) {
  switch (element) {
  case Element::i1: return at::ScalarType::Bool;
  case Element::u8: return at::ScalarType::Byte;
  case Element::i8: return at::ScalarType::Char;
  case Element::i16: return at::ScalarType::Short;
  case Element::i32: return at::ScalarType::Int;
  case Element::i64: return at::ScalarType::Long;
  case Element::f16: return at::ScalarType::Half;
  case Element::bf16: return at::ScalarType::BFloat16;
  case Element::f32: return at::ScalarType::Float;
  case Element::f64: return at::ScalarType::Double;
  case Element::c64: return at::ScalarType::ComplexFloat;
  case Element::c128: return at::ScalarType::ComplexDouble;
  }
  return at::ScalarType::Undefined; // no such element
}

/// nullopt for a dtype that no program can hold.
constexpr std::optional<Element> elementOf(at::ScalarType type) {
  constexpr auto numbers = [] {
    std::array<uint8_t, static_cast<size_t>(at::ScalarType::NumOptions) + 1> table{};
    table.fill(kElementCount);
    for (Element element : kElements) {
      table[static_cast<size_t>(scalarTypeOf(element))] = static_cast<uint8_t>(element);
    }
    return table;
  }();
  return elementOfNumber(numbers[static_cast<size_t>(type)]);
}

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_LIBRARYELEMENT_H
