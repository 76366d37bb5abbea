// SPDX-License-Identifier: Apache-2.0
// Reads the rows of the table once, and evaluates them for a call.
#include "dialect/elements/TypeRule.h"

#include <algorithm>
#include <cassert>
#include <unordered_map>

namespace sojourn {

namespace {

std::string_view trim(std::string_view text) {
  size_t begin = text.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view()
                                         : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

/// Calls `visit` for each part between separators; not at all for an empty text.
template <class Visit>
void eachPart(std::string_view text, char separator, Visit visit) {
  while (!text.empty()) {
    size_t end = std::min(text.find(separator), text.size());
    visit(trim(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::optional<Element> elementOfName(std::string_view name) {
  for (Element element : kElements) {
    if (elementName(element) == name) {
      return element;
    }
  }
  return std::nullopt;
}

std::optional<Element> commonOf(std::span<const unsigned> arguments, const TypedCall &call,
                                const TypeContext &context) {
  CommonType common(context.rules);
  for (unsigned argument : arguments) {
    call.collect(argument, common);
  }
  return common.get(context.defaultFloat);
}

bool isHalf(Element element) { return element == Element::f16 || element == Element::bf16; }

} // namespace

TypeRule::TypeRule(const TypeRow &row) {
  eachPart(row.operands, ',', [&](std::string_view name) { promoted_.emplace_back(name); });
  for (const std::string &name : promoted_) { // the first arguments, in their order
    argument(name);
  }
  computes_ = parse(row.computes);
  eachPart(row.results, ';', [&](std::string_view text) { results_.push_back(parse(text)); });
  assert(!results_.empty() && (promoted_.empty() || !computes_.empty()) && "a row says what it computes and returns");
}

unsigned TypeRule::argument(std::string_view name) {
  auto found = std::find(arguments_.begin(), arguments_.end(), name);
  if (found == arguments_.end()) {
    arguments_.emplace_back(name);
    return static_cast<unsigned>(arguments_.size() - 1);
  }
  return static_cast<unsigned>(found - arguments_.begin());
}

TypeRule::Expression TypeRule::parse(std::string_view text) {
  Expression expression;
  eachPart(text, '|', [&](std::string_view part) { expression.push_back(parseTerm(part)); });
  return expression;
}

TypeRule::Term TypeRule::parseTerm(std::string_view text) {
  static const std::unordered_map<std::string_view, Form> functions = {
      {"common", Form::Common},   {"float", Form::Float},    {"quotient", Form::Quotient}, {"sum", Form::Sum},
      {"rounded", Form::Rounded}, {"count", Form::Count},    {"real", Form::Real},         {"flag", Form::Flag},
      {"float32", Form::Float32}, {"index", Form::Index},    {"stats", Form::Stats},       {"norms", Form::Norms},
      {"weights", Form::Weights}, {"complex", Form::Complex}};
  Term term{};
  if (text == "real(=)") {
    term.form = Form::RealComputed;
  } else if (size_t open = text.find('('); open != std::string_view::npos) {
    assert(functions.contains(text.substr(0, open)) && text.back() == ')' && "a function of the grammar");
    term.form = functions.at(text.substr(0, open));
    eachPart(text.substr(open + 1, text.size() - open - 2), ',', [&](std::string_view name) {
      if (name != "@") {
        term.arguments.push_back(argument(name));
        return;
      }
      for (const std::string &operand : promoted_) {
        term.arguments.push_back(argument(operand));
      }
    });
  } else if (text == "=") {
    term.form = Form::Computed;
  } else if (text == "default") {
    term.form = Form::Default;
  } else if (text == "first") {
    term.form = Form::First;
  } else if (std::optional<Element> element = elementOfName(text)) {
    term.form = Form::Fixed;
    term.fixed = *element;
  } else {
    term.form = Form::Argument;
    term.arguments.push_back(argument(text));
  }
  return term;
}

std::optional<Element> TypeRule::evaluate(const Expression &expression, std::optional<Element> computed,
                                          const TypedCall &call, const TypeContext &context) {
  for (const Term &term : expression) {
    if (std::optional<Element> element = evaluate(term, computed, call, context)) {
      return element;
    }
  }
  return std::nullopt;
}

std::optional<Element> TypeRule::evaluate(const Term &term, std::optional<Element> computed, const TypedCall &call,
                                          const TypeContext &context) {
  std::span<const unsigned> arguments = term.arguments;
  switch (term.form) {
  case Form::Computed: return computed;
  case Form::RealComputed: return computed ? std::optional(realPart(*computed)) : std::nullopt;
  case Form::Fixed: return term.fixed;
  case Form::Default: return context.defaultFloat;
  case Form::First: return call.first();
  case Form::Argument: return call.typeOf(arguments[0]);
  case Form::Common: return commonOf(arguments, call, context);
  case Form::Float: {
    std::optional<Element> common = commonOf(arguments, call, context);
    return common ? std::optional(floatResult(context.rules, *common, /*division=*/false, context.defaultFloat))
                  : std::nullopt;
  }
  case Form::Quotient: {
    std::optional<Element> common = commonOf(arguments, call, context);
    return common ? std::optional(floatResult(context.rules, *common, /*division=*/true, context.defaultFloat))
                  : std::nullopt;
  }
  case Form::Rounded: return call.isTrue(arguments[0]) ? commonOf(arguments.subspan(1), call, context) : std::nullopt;
  case Form::Sum: {
    std::optional<Element> common = commonOf(arguments, call, context);
    return common ? sumResult(context.rules, *common) : std::nullopt;
  }
  case Form::Count: {
    std::optional<Element> common = commonOf(arguments, call, context);
    return common ? sumResult(PromotionRules::Torch, *common) : std::nullopt;
  }
  case Form::Real: {
    std::optional<Element> common = commonOf(arguments, call, context);
    return common ? std::optional(realPart(*common)) : std::nullopt;
  }
  case Form::Complex: {
    std::optional<Element> common = commonOf(arguments, call, context);
    return common ? std::optional(complexOf(realPart(*common))) : std::nullopt;
  }
  case Form::Flag: {
    bool isByte = context.rules == PromotionRules::Torch && call.typeOf(arguments[0]) == Element::u8;
    return isByte ? Element::u8 : Element::i1;
  }
  case Form::Float32: return call.isTrue(arguments[0]) ? std::optional(Element::f32) : std::nullopt;
  case Form::Index: return call.isTrue(arguments[0]) ? Element::i32 : Element::i64;
  case Form::Stats: {
    std::optional<Element> input = call.typeOf(arguments[0]);
    bool isWide = input && isHalf(*input) && std::any_of(arguments.begin() + 1, arguments.end(), [&](unsigned other) {
                    return call.typeOf(other) == Element::f32;
                  });
    return isWide ? std::optional(Element::f32) : input;
  }
  case Form::Norms: {
    std::optional<Element> input = call.typeOf(arguments[0]);
    return input == Element::bf16 ? std::optional(Element::f32) : input;
  }
  case Form::Weights: {
    std::optional<Element> weights = call.typeOf(arguments[1]);
    return !weights || call.isEmpty(arguments[0]) ? Element::i64
           : *weights == Element::f32             ? Element::f32
                                                  : Element::f64;
  }
  }
  return std::nullopt;
}

bool TypeRule::takesTruth() const {
  return promotes() && computes_.front().form == Form::Fixed && computes_.front().fixed == Element::i1;
}

bool TypeRule::accumulates() const {
  return std::any_of(computes_.begin(), computes_.end(), [](const Term &term) { return term.form == Form::Sum; });
}

std::optional<Element> TypeRule::common(const TypedCall &call, const TypeContext &context) const {
  CommonType common(context.rules);
  for (unsigned i = 0; i < promoted_.size(); ++i) {
    call.collect(i, common);
  }
  return common.get(context.defaultFloat);
}

std::optional<Element> TypeRule::computed(const TypedCall &call, const TypeContext &context) const {
  return evaluate(computes_, std::nullopt, call, context);
}

std::optional<Element> TypeRule::result(size_t index, std::optional<Element> computed, const TypedCall &call,
                                        const TypeContext &context) const {
  return evaluate(results_[std::min(index, results_.size() - 1)], computed, call, context);
}

const TypeRule &TypeRule::of(std::string_view base) {
  static const std::unordered_map<std::string_view, TypeRule> rules = [] {
    std::unordered_map<std::string_view, TypeRule> map;
    for (const TypeRow &row : typeTable()) {
      [[maybe_unused]] bool isNew = map.emplace(row.base, TypeRule(row)).second;
      assert(isNew && "one row per operator");
    }
    return map;
  }();
  static const TypeRule other({"", "", "", "first"});
  auto found = rules.find(base);
  return found == rules.end() ? other : found->second;
}

} // namespace sojourn
