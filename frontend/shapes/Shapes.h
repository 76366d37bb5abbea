// SPDX-License-Identifier: Apache-2.0
// Shape rules: what an ATen op returns, computed from metadata alone, with CPU's sizes, strides,
// dtypes and error texts. No rule looks at a value; none calls Python.
#ifndef SOJOURN_FRONTEND_SHAPES_SHAPES_H
#define SOJOURN_FRONTEND_SHAPES_SHAPES_H

#include "dialect/elements/TypeRule.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string_view>

namespace sojourn::frontend {

using Dims = c10::SmallVector<int64_t, 5>;

/// Metadata of one fresh output tensor. `defined == false`: an undefined output (output_mask).
struct OutputMeta {
  Dims sizes;
  Dims strides;
  at::ScalarType dtype = at::ScalarType::Undefined;
  bool defined = true;
};

/// Metadata of one view output: same storage as argument 0, absolute storage offset.
struct ViewMeta {
  Dims sizes;
  Dims strides;
  int64_t offset = 0;
  at::ScalarType dtype = at::ScalarType::Undefined; ///< where it is not argument 0's; offset and strides count in it
};

/// Whether the calling thread's ops are recorded by NumPy's type rules.
bool recordsByNumpy();
/// From here on, or no longer; as it was before.
bool recordByNumpy(bool on);

using Arguments = c10::ArrayRef<c10::IValue>; // in schema order, defaults filled in

/// What one overload returns. Sizes, strides and errors are a function of this folder's; dtypes come from the one table
/// of type rules (dialect/elements).
class ShapeRule {
public:
  /// Appends one OutputMeta per returned tensor (tensor lists: one per element), without its dtype.
  using Function = void (*)(const ShapeRule &, Arguments, c10::SmallVectorImpl<OutputMeta> &);

  ShapeRule(const c10::FunctionSchema &schema, Function function);

  /// Appends one OutputMeta per returned tensor. Throws c10::Error, c10::IndexError, ... with eager's text for bad
  /// arguments.
  void operator()(Arguments args, c10::SmallVectorImpl<OutputMeta> &outputs) const;

  const c10::FunctionSchema &schema() const { return *schema_; }
  Function function() const { return function_; }
  /// Of an op over lists: the rule of one element; else null.
  const ShapeRule *ofElements() const { return ofElements_; }
  void setOfElements(const ShapeRule *rule) { ofElements_ = rule; }
  /// The promotion of the operands that are cast.
  at::ScalarType common(Arguments args) const;
  /// The dtype that a call on these arguments computes in; where operands are not cast, that of its first result.
  at::ScalarType computed(Arguments args) const;
  /// The dtype of the first result.
  at::ScalarType result(Arguments args) const;

private:
  void fillTypes(Arguments args, c10::SmallVectorImpl<OutputMeta> &outputs, size_t begin) const;

  const c10::FunctionSchema *schema_;
  Function function_;
  const TypeRule *types_;
  const ShapeRule *ofElements_ = nullptr;
  c10::SmallVector<int16_t, 4> positions_; ///< of the arguments that the type rule asks for; -1: not of this overload
};

/// Appends one ViewMeta per returned view.
using ViewRule = void (*)(const c10::FunctionSchema &, Arguments, c10::SmallVectorImpl<ViewMeta> &);

/// Rule for a qualified name such as "aten::add.Tensor" ("aten::relu"), or nullptr. It lives as long as the process.
/// In-place ops ("aten::add_.Tensor") answer the functional op's rule: the recorder compares the
/// result with self. `.out` ops answer the functional rule too (trailing out arguments are ignored).
const ShapeRule *findShapeRule(std::string_view qualifiedName);

/// Of bincount: what to give so that the size of the result depends on no value; nullptr where it is given.
const char *histogramNeeds(const c10::FunctionSchema &, Arguments);

/// Rule for a view op ("aten::transpose.int", "aten::split.Tensor", "aten::_reshape_alias", ...).
/// `inplace_view` ops (transpose_, squeeze_, unsqueeze_, t_, ...) answer the view op's rule.
ViewRule findViewRule(std::string_view qualifiedName);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_SHAPES_SHAPES_H
