// SPDX-License-Identifier: Apache-2.0
// What types an ATen operator computes in and returns: the one rule set, asked by the recorder (which gives results
// their dtypes) and by promotion (which gives results of unresolved type theirs, checks the others, and inserts casts).
// The rows are in TypeTable.cpp. Knows neither MLIR nor torch.
#ifndef SOJOURN_DIALECT_ELEMENTS_TYPERULE_H
#define SOJOURN_DIALECT_ELEMENTS_TYPERULE_H

#include "dialect/elements/Promotion.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sojourn {

/// One row of the table. Expressions say types by the names of schema arguments:
///
///   expression := alternative ("|" alternative)*       the first alternative that has a value
///   alternative := "="                                 what the call computes in
///                | ELEMENT                             "i64", "i1", ... (Elements.def)
///                | "default"                           the default float
///                | "first"                             the first tensor among the arguments
///                | NAME                                an argument: the element of a tensor (of a list its first), or
///                a
///                                                      dtype that was given
///                | "real(=)"                           what the call computes in, without its imaginary part
///                | FUNCTION "(" NAME ("," NAME)* ")"   or "@" for all that are cast
///   FUNCTION := "common"   the promotion of arguments; all of a list take part
///             | "float"    the same, integers become floats
///             | "quotient" the same, as a true division
///             | "rounded"  the promotion of the others where the first argument, a rounding mode, is given, else none
///             | "sum"      common, integers become i64
///             | "count"    the same, for NumPy too: i64 of any integers
///             | "real"     common, without its imaginary part
///             | "complex"  common, with one
///             | "flag"     i1; torch: a byte of bytes
///             | "float32"  f32 where the argument is true, else none
///             | "index"    i32 where the argument is true, else i64
///             | "stats"    statistics of the first argument: f32 of halves if one of the others is f32
///             | "norms"    the argument, f32 of bf16
///             | "weights"  of the weights of a count (empty argument, weights): f32, else f64; i64 without
struct TypeRow {
  std::string_view base;
  /// Arguments, separated by commas, that are cast to the type that the call computes in. Empty: operands keep their
  /// types, and numbers stay f64.
  std::string_view operands;
  /// The type that the call computes in; "" only if `operands` is.
  std::string_view computes;
  /// Types of the results, separated by ";". The last one stands for all later ones.
  std::string_view results;
};

/// A call, as its type rule sees it. Arguments are numbers: positions in TypeRule::arguments().
class TypedCall {
public:
  virtual ~TypedCall() = default;
  /// Adds the tensors and numbers of an argument, of a list all; nothing if it was not given.
  virtual void collect(unsigned argument, CommonType &common) const = 0;
  /// The element of a tensor (of a list its first), or the dtype that was given; nullopt if none was.
  virtual std::optional<Element> typeOf(unsigned argument) const = 0;
  /// Whether an argument was given and is not false.
  virtual bool isTrue(unsigned argument) const = 0;
  /// Whether an argument is a tensor without elements.
  virtual bool isEmpty(unsigned argument) const = 0;
  /// The first tensor among all arguments of the call.
  virtual std::optional<Element> first() const = 0;
};

/// By which rules.
struct TypeContext {
  PromotionRules rules = PromotionRules::Torch;
  Element defaultFloat = Element::f32;
};

inline constexpr TypeContext kNumpyTypes{PromotionRules::Numpy, Element::f64};

class TypeRule {
public:
  explicit TypeRule(const TypeRow &row);

  /// The rule of an operator by its functional base name ("add"); where the table has no row: operands keep their
  /// types, every result has that of the first tensor.
  static const TypeRule &of(std::string_view base);

  /// Whether operands are cast to one type.
  bool promotes() const { return !promoted_.empty(); }
  /// Whether operands are cast to i1, whatever they are.
  bool takesTruth() const;
  /// Whether a sum or a product accumulates in a type of its own.
  bool accumulates() const;
  /// Names of the arguments that are cast.
  std::span<const std::string> promoted() const { return promoted_; }
  /// Names of all arguments that the rule asks for.
  std::span<const std::string> arguments() const { return arguments_; }

  /// The promotion of the arguments that are cast, whatever the call computes in; nullopt where none was given.
  std::optional<Element> common(const TypedCall &call, const TypeContext &context) const;
  /// The type that the call computes in; nullopt where that is no element type, or nothing was given to tell.
  std::optional<Element> computed(const TypedCall &call, const TypeContext &context) const;
  /// The type of result `index`, given the type that the call computes in.
  std::optional<Element> result(size_t index, std::optional<Element> computed, const TypedCall &call,
                                const TypeContext &context) const;

private:
  enum class Form : uint8_t {
    Computed,
    Fixed,
    Default,
    First,
    Argument,
    Common,
    Float,
    Quotient,
    Rounded,
    Sum,
    Count,
    Real,
    Complex,
    Flag,
    Float32,
    Index,
    Stats,
    Norms,
    Weights,
    RealComputed
  };
  struct Term {
    Form form;
    Element fixed = Element::f32;
    std::vector<unsigned> arguments;
  };
  using Expression = std::vector<Term>; ///< alternatives

  unsigned argument(std::string_view name);
  Expression parse(std::string_view text);
  Term parseTerm(std::string_view text);
  static std::optional<Element> evaluate(const Expression &expression, std::optional<Element> computed,
                                         const TypedCall &call, const TypeContext &context);
  static std::optional<Element> evaluate(const Term &term, std::optional<Element> computed, const TypedCall &call,
                                         const TypeContext &context);

  std::vector<std::string> arguments_, promoted_;
  Expression computes_;
  std::vector<Expression> results_;
};

/// All rows, for tests and tables.
std::span<const TypeRow> typeTable();

} // namespace sojourn

#endif // SOJOURN_DIALECT_ELEMENTS_TYPERULE_H
