// SPDX-License-Identifier: Apache-2.0
// What the shape rule files share: access to schema arguments, and ways to append an output.
#ifndef SOJOURN_FRONTEND_SHAPES_RULES_H
#define SOJOURN_FRONTEND_SHAPES_RULES_H

#include "frontend/shapes/Shapes.h"

#include <ATen/WrapDimUtils.h>
#include <c10/util/strides.h>

namespace sojourn::frontend::shapes {

using at::IntArrayRef;
using at::ScalarType;
using at::Tensor;
using c10::FunctionSchema;
using Outputs = c10::SmallVectorImpl<OutputMeta>;
using ViewOutputs = c10::SmallVectorImpl<ViewMeta>;

/// "add" answers for every overload of add, "add.Tensor" for one; the exact one wins.
struct RuleEntry {
  const char *name;
  ShapeRule::Function rule;
};
struct ViewEntry {
  const char *name;
  ViewRule rule;
};

c10::ArrayRef<RuleEntry> activationRules();
c10::ArrayRef<RuleEntry> arrangementRules();
c10::ArrayRef<RuleEntry> complexRules();
c10::ArrayRef<RuleEntry> convolutionRules();
c10::ArrayRef<RuleEntry> elementwiseRules();
c10::ArrayRef<RuleEntry> factoryRules();
c10::ArrayRef<RuleEntry> foreachRules();
c10::ArrayRef<RuleEntry> histogramRules();
c10::ArrayRef<RuleEntry> indexingRules();
c10::ArrayRef<RuleEntry> factorRules();
c10::ArrayRef<RuleEntry> linearRules();
c10::ArrayRef<RuleEntry> lossRules();
c10::ArrayRef<RuleEntry> normalizationRules();
c10::ArrayRef<RuleEntry> poolingRules();
c10::ArrayRef<RuleEntry> recurrentRules();
c10::ArrayRef<RuleEntry> reductionRules();
c10::ArrayRef<RuleEntry> segmentRules();
c10::ArrayRef<ViewEntry> viewRules();
c10::ArrayRef<RuleEntry> viewCopyRules();

//===-- Arguments ---------------------------------------------------------------------------------===//
// `.out` overloads lack some trailing arguments of the functional op (dtype, say), so positions past
// the end and arguments of another kind read as "not given".

inline const Tensor &undefinedTensor() {
  static const Tensor undefined;
  return undefined;
}

/// The tensor argument, or an undefined tensor.
inline const Tensor &tensorAt(Arguments args, size_t position) {
  return position < args.size() && args[position].isTensor() ? args[position].toTensor() : undefinedTensor();
}

inline bool isNumber(const c10::IValue &value) { return value.isScalar() || value.isSymInt() || value.isSymFloat(); }

inline std::optional<int64_t> intAt(Arguments args, size_t position) {
  if (position < args.size() && (args[position].isInt() || args[position].isSymInt())) {
    return args[position].isInt() ? args[position].toInt() : args[position].toSymInt().expect_int();
  }
  return std::nullopt;
}

inline std::optional<ScalarType> dtypeAt(Arguments args, size_t position) {
  if (position < args.size() && args[position].isInt()) {
    return static_cast<ScalarType>(args[position].toInt());
  }
  return std::nullopt;
}

inline bool boolAt(Arguments args, size_t position, bool fallback = false) {
  return position < args.size() && args[position].isBool() ? args[position].toBool() : fallback;
}

inline at::MemoryFormat memoryFormatAt(Arguments args, size_t position, at::MemoryFormat fallback) {
  return position < args.size() && args[position].isInt() ? static_cast<at::MemoryFormat>(args[position].toInt())
                                                          : fallback;
}

/// An int list; a single int counts as a list of one. None reads as empty.
inline Dims dimsOf(const c10::IValue &value) {
  Dims dims;
  if (value.isInt()) {
    dims.push_back(value.toInt());
  } else if (value.isSymIntList()) {
    for (const c10::SymInt &dim : value.toSymIntVector()) {
      dims.push_back(dim.expect_int());
    }
  } else if (value.isList()) {
    for (const c10::IValue &dim : value.toListRef()) {
      dims.push_back(dim.isInt() ? dim.toInt() : dim.toSymInt().expect_int());
    }
  }
  return dims;
}
inline Dims dimsAt(Arguments args, size_t position) { return position < args.size() ? dimsOf(args[position]) : Dims(); }

inline bool maskAt(Arguments args, size_t position, size_t bit) { return args[position].toListRef()[bit].toBool(); }

inline c10::ArrayRef<c10::IValue> listAt(Arguments args, size_t position) { return args[position].toListRef(); }

//===-- Outputs -----------------------------------------------------------------------------------===//

inline Dims contiguousStrides(IntArrayRef sizes) {
  Dims strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

/// Strides of a new tensor of this memory format (Contiguous, ChannelsLast, ChannelsLast3d).
Dims formatStrides(IntArrayRef sizes, at::MemoryFormat format);

/// Strides of empty_like(memory_format=preserve).
Dims preservedStrides(const Tensor &self);
Dims preservedStrides(IntArrayRef sizes, IntArrayRef strides);

inline OutputMeta &appendStrided(Outputs &out, IntArrayRef sizes, IntArrayRef strides) {
  OutputMeta &meta = out.emplace_back();
  meta.sizes.assign(sizes.begin(), sizes.end());
  meta.strides.assign(strides.begin(), strides.end());
  return meta;
}
inline OutputMeta &append(Outputs &out, IntArrayRef sizes, at::MemoryFormat format = at::MemoryFormat::Contiguous) {
  return appendStrided(out, sizes, formatStrides(sizes, format));
}
/// empty_like(self, memory_format=preserve)
inline OutputMeta &appendLike(Outputs &out, const Tensor &self) {
  return appendStrided(out, self.sizes(), preservedStrides(self));
}
inline void appendUndefined(Outputs &out) { out.emplace_back().defined = false; }

//===-- Dtypes ------------------------------------------------------------------------------------===//

/// Eager's dispatch error for a dtype that a kernel does not have.
[[noreturn]] inline void failDtype(const char *kernel, ScalarType type) {
  C10_THROW_ERROR(NotImplementedError, c10::str("\"", kernel, "\" not implemented for '", c10::toString(type), "'"));
}
inline void requireFloating(const char *kernel, ScalarType type) {
  if (!c10::isFloatingType(type) && !c10::isComplexType(type)) {
    failDtype(kernel, type);
  }
}

inline std::string_view baseName(const FunctionSchema &schema) {
  return std::string_view(schema.name()).substr(std::string_view("aten::").size());
}
inline std::string_view baseName(const ShapeRule &op) { return baseName(op.schema()); }

/// The qualified name of the op whose rule an op over lists asks for each element ("_foreach_add_":
/// "aten::add.Tensor"), or empty.
std::string elementRuleOf(std::string_view base);

/// A whole-argument rule: the output is empty_like(argument 0).
void likeSelf(const ShapeRule &, Arguments args, Outputs &out);
/// Sizes of argument 0, contiguous.
void contiguousLikeSelf(const ShapeRule &, Arguments args, Outputs &out);
/// An op that returns nothing (fused optimizers, void list ops).
void returnsNothing(const ShapeRule &, Arguments args, Outputs &out);

} // namespace sojourn::frontend::shapes

#endif // SOJOURN_FRONTEND_SHAPES_RULES_H
