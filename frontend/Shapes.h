// SPDX-License-Identifier: Apache-2.0
// Shape rules: what an ATen op returns, computed from metadata alone, with CPU's sizes, strides,
// dtypes and error texts. No rule looks at a value; none calls Python.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <string_view>

namespace sojourn::frontend {

using Dims = c10::SmallVector<int64_t, 5>;

/// Metadata of one fresh output tensor. `defined == false`: an undefined output (output_mask).
struct OutputMeta {
  Dims sizes;
  Dims strides;
  at::ScalarType dtype = at::kFloat;
  bool defined = true;
};

/// Metadata of one view output: same storage as argument 0, absolute storage offset.
struct ViewMeta {
  Dims sizes;
  Dims strides;
  int64_t offset = 0;
};

using Arguments = c10::ArrayRef<c10::IValue>; // in schema order, defaults filled in

/// Appends one OutputMeta per returned tensor (tensor lists: one per element). Throws c10::Error,
/// c10::IndexError, ... with eager's text for bad arguments.
using ShapeRule = void (*)(const c10::FunctionSchema &, Arguments, c10::SmallVectorImpl<OutputMeta> &);

/// Appends one ViewMeta per returned view.
using ViewRule = void (*)(const c10::FunctionSchema &, Arguments, c10::SmallVectorImpl<ViewMeta> &);

/// Rule for a qualified name such as "aten::add.Tensor" ("aten::relu"), or nullptr.
/// In-place ops ("aten::add_.Tensor") answer the functional op's rule: the recorder compares the
/// result with self. `.out` ops answer the functional rule too (trailing out arguments are ignored).
ShapeRule findShapeRule(std::string_view qualifiedName);

/// Of bincount, histc and histogram: what to give so that the size or range of the result depends on no value; nullptr
/// where it is given.
const char *histogramNeeds(const c10::FunctionSchema &, Arguments);

/// Rule for a view op ("aten::transpose.int", "aten::split.Tensor", "aten::_reshape_alias", ...).
/// `inplace_view` ops (transpose_, squeeze_, unsqueeze_, t_, ...) answer the view op's rule.
ViewRule findViewRule(std::string_view qualifiedName);

} // namespace sojourn::frontend
