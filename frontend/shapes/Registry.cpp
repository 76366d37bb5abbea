// SPDX-License-Identifier: Apache-2.0
// Resolves operator names to rules once, over every schema the dispatcher knows: an in-place or out
// overload answers with its functional op's rule.
#include "frontend/shapes/Rules.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <unordered_map>

namespace sojourn::frontend {

using namespace shapes;

namespace {

/// "add_.Tensor" -> {"add", "Tensor"}; dunder in-place names keep their underscores.
struct Parts {
  std::string base, overload;
};
Parts parts(const c10::OperatorName &name) {
  Parts result{name.name.substr(std::string_view("aten::").size()), name.overload_name};
  if (result.base.size() > 1 && result.base.back() == '_' && result.base[result.base.size() - 2] != '_') {
    result.base.pop_back();
  }
  return result;
}

size_t inputCount(const FunctionSchema &schema) {
  size_t count = 0;
  for (const c10::Argument &argument : schema.arguments()) {
    count += !argument.is_out();
  }
  return count;
}

/// Same names and types for the arguments both have; `other` may have more (dtype, layout, ...).
bool sameInputs(const FunctionSchema &schema, const FunctionSchema &other) {
  size_t count = inputCount(schema);
  if (other.arguments().size() < count) {
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    const c10::Argument &left = schema.arguments()[i], &right = other.arguments()[i];
    if (left.name() != right.name() || *left.type() != *right.type()) {
      return false;
    }
  }
  return true;
}

template <class Rule>
class Resolver {
public:
  void add(std::string_view name, Rule rule) { entries_.emplace(std::string(name), rule); }

  Rule exact(const std::string &base, const std::string &overload) const {
    auto found = entries_.find(base + "." + overload);
    if (found == entries_.end() && !overload.empty()) {
      return nullptr;
    }
    return found == entries_.end() ? any(base) : found->second;
  }
  Rule any(const std::string &base) const {
    auto found = entries_.find(base);
    return found == entries_.end() ? nullptr : found->second;
  }

private:
  std::unordered_map<std::string, Rule> entries_;
};

class Registry {
public:
  static const Registry &get() {
    static const Registry registry;
    return registry;
  }

  const ShapeRule *shape(std::string_view name) const {
    auto found = shapes_.find(std::string(name));
    return found == shapes_.end() ? nullptr : &found->second;
  }
  ViewRule view(std::string_view name) const {
    auto found = views_.find(std::string(name));
    return found == views_.end() ? nullptr : found->second;
  }

private:
  Registry() {
    Resolver<ShapeRule::Function> shapes;
    for (c10::ArrayRef<RuleEntry> table :
         {activationRules(), arrangementRules(), complexRules(), convolutionRules(), elementwiseRules(), factoryRules(),
          foreachRules(), histogramRules(), factorRules(), indexingRules(), linearRules(), lossRules(),
          normalizationRules(), poolingRules(), recurrentRules(), reductionRules(), segmentRules(), viewCopyRules()}) {
      for (const RuleEntry &entry : table) {
        shapes.add(entry.name, entry.rule);
      }
    }
    Resolver<ViewRule> views;
    for (const ViewEntry &entry : viewRules()) {
      views.add(entry.name, entry.rule);
    }
    // Functional overloads per base, to find the twin of an out or in-place overload by its arguments.
    std::unordered_map<std::string, std::vector<const FunctionSchema *>> functional;
    std::vector<const FunctionSchema *> schemas;
    for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames()) {
      if (name.name.rfind("aten::", 0) != 0) {
        continue;
      }
      auto handle = c10::Dispatcher::singleton().findSchema(name);
      if (handle) {
        schemas.push_back(&handle->schema());
        if (!handle->schema().is_mutable()) {
          functional[parts(name).base].push_back(&handle->schema());
        }
      }
    }
    for (const FunctionSchema *schema : schemas) {
      Parts name = parts(schema->operator_name());
      std::string key = qualified(schema->operator_name());
      if (ShapeRule::Function function = resolve(shapes, *schema, name, functional)) {
        shapes_.emplace(key, ShapeRule(*schema, function));
      }
      if (ViewRule rule = resolve(views, *schema, name, functional)) {
        views_.emplace(key, rule);
      }
    }
    for (auto &[name, rule] : shapes_) {
      if (std::string element = elementRuleOf(baseName(rule)); !element.empty()) {
        rule.setOfElements(shape(element));
      }
    }
  }

  template <class Rule>
  static Rule resolve(const Resolver<Rule> &resolver, const FunctionSchema &schema, const Parts &name,
                      const std::unordered_map<std::string, std::vector<const FunctionSchema *>> &functional) {
    if (Rule rule = resolver.exact(name.base, name.overload)) {
      return rule;
    }
    if (schema.is_mutable()) {
      auto twins = functional.find(name.base);
      if (twins != functional.end()) {
        // Of several that begin alike the one without more.
        Rule best = nullptr;
        size_t fewest = SIZE_MAX;
        for (const FunctionSchema *twin : twins->second) {
          if (twin->arguments().size() < fewest && sameInputs(schema, *twin)) {
            if (Rule rule = resolver.exact(name.base, twin->overload_name())) {
              best = rule;
              fewest = twin->arguments().size();
            }
          }
        }
        if (best) {
          return best;
        }
      }
    }
    return resolver.any(name.base);
  }

  static std::string qualified(const c10::OperatorName &name) {
    return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
  }

  std::unordered_map<std::string, ShapeRule> shapes_;
  std::unordered_map<std::string, ViewRule> views_;
};

} // namespace

const ShapeRule *findShapeRule(std::string_view qualifiedName) { return Registry::get().shape(qualifiedName); }
ViewRule findViewRule(std::string_view qualifiedName) { return Registry::get().view(qualifiedName); }

} // namespace sojourn::frontend
