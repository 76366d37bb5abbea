// SPDX-License-Identifier: Apache-2.0
// Comparisons, classification of floats, logic.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

Results comparison(Call &c) {
  Term self = c.in("self");
  Type element = self ? self.element() : c.in("other").element();
  self = c.number("self", element);
  Term rhs = c.number(c.anyOf({"other", "scalar"}), element);
  if (!rhs) {
    return c.fail("needs two operands");
  }
  StringRef predicate = llvm::StringSwitch<StringRef>(c.base)
                            .Cases({"ne", "not_equal"}, "ne")
                            .Cases({"lt", "less"}, "lt")
                            .Cases({"le", "less_equal"}, "le")
                            .Cases({"gt", "greater"}, "gt")
                            .Cases({"ge", "greater_equal"}, "ge")
                            .Default("eq");
  return compare(self, rhs, predicate);
}

template <Term (*Function)(Term, Term)>
Results logic(Call &c) {
  return Function(toBool(c.in("self")), toBool(c.in("other")));
}

/// eq(x, value), false for integers.
Results equals(Call &c, double value) {
  Term x = c.in("self");
  if (!x.isFloat()) {
    return full(c.emitter, x.shape(), 0, c.emitter.builder.getI1Type());
  }
  return eq(x, value);
}

Term isInfinite(Term x) { return eq(abs(x), kInfinity); }
Term isFinite(Term x) { return abs(x) < kInfinity; }

/// A question about floats; of complex numbers about their parts, because a magnitude may overflow. Of integers it
/// holds where it has to hold for both parts.
template <Term (*Function)(Term), bool isOfBoth>
Results ofParts(Call &c) {
  Term x = c.in("self");
  if (x.isComplex()) {
    Term re = Function(real(x)), im = Function(imag(x));
    return isOfBoth ? re & im : re | im;
  }
  return x.isFloat() ? Function(x) : full(c.emitter, x.shape(), isOfBoth ? 1 : 0, c.emitter.builder.getI1Type());
}

} // namespace

void addComparisons(Table &t) {
  t.add({"eq", "ne", "lt", "le", "gt", "ge", "not_equal", "less", "less_equal", "greater", "greater_equal"},
        comparison);
  t.add({"logical_and"}, logic < operator&>);
  t.add({"logical_or"}, logic < operator|>);
  t.add({"logical_xor"}, logic < operator^>);
  t.add({"logical_not"}, [](Call &c) -> Results { return ~toBool(c.in("self")); });
  t.add({"bitwise_not"}, [](Call &c) -> Results { return ~c.in("self"); });
  t.add({"isnan"}, [](Call &c) -> Results { return isNan(c.in("self")); });
  t.add({"isinf"}, ofParts<isInfinite, false>);
  t.add({"isposinf"}, [](Call &c) { return equals(c, kInfinity); });
  t.add({"isneginf"}, [](Call &c) { return equals(c, -kInfinity); });
  t.add({"isfinite"}, ofParts<isFinite, true>);
  t.add({"signbit"}, [](Call &c) -> Results { return signBit(c.in("self")); });
  t.add({"heaviside"}, [](Call &c) -> Results {
    Term x = c.in("self");
    Term step = convert(x > 0.0, x.element());
    return select(eq(x, 0.0), c.in("values"), step);
  });
}

} // namespace sojourn::decompose
