// SPDX-License-Identifier: Apache-2.0
// The checker sits at dispatch key Fake, which nothing else uses: below autograd and above the
// backends, exactly the place of the recorder's kernels, so it sees the ops that the recorder would.
#include "test/frontend/ShapesCheck.h"

#include "frontend/shapes/Shapes.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <sstream>

namespace sojourn::test {

using namespace sojourn::frontend;

namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::Fake;

ShapesReport &theReport() {
  static ShapesReport report;
  return report;
}

std::string describe(c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType dtype) {
  std::ostringstream text;
  text << sizes << " strides " << strides << " " << dtype;
  return text.str();
}

std::string describe(const c10::IValue &value) {
  std::ostringstream text;
  if (value.isTensor()) {
    if (value.toTensor().defined()) {
      text << "(" << describe(value.toTensor().sizes(), value.toTensor().strides(), value.toTensor().scalar_type())
           << (value.toTensor().unsafeGetTensorImpl()->is_wrapped_number() ? " wrapped" : "") << ")";
    } else {
      text << "undefined";
    }
  } else if (value.isList()) {
    text << "{";
    for (const c10::IValue &element : value.toListRef()) {
      text << describe(element) << " ";
    }
    text << "}";
  } else {
    text << value;
  }
  return text.str();
}

std::string describeAll(c10::ArrayRef<c10::IValue> args) {
  std::string text;
  for (const c10::IValue &value : args) {
    text += " " + describe(value);
  }
  return text;
}

void fail(const std::string &name, const std::string &text) {
  theReport().failures.emplace(name, text);
  ++theReport().failureCounts[name];
}

/// What a rule said: outputs, or the error it threw.
struct Answer {
  c10::SmallVector<OutputMeta, 4> outputs;
  c10::SmallVector<ViewMeta, 4> views;
  bool isView = false, threw = false;
  std::string error;
};

Answer ask(const c10::FunctionSchema &schema, const std::string &name, c10::ArrayRef<c10::IValue> args,
           const ShapeRule *rule, ViewRule view) {
  Answer answer;
  answer.isView = view != nullptr;
  try {
    if (view) {
      view(schema, args, answer.views);
    } else {
      (*rule)(args, answer.outputs);
    }
  } catch (const c10::Error &error) {
    answer.threw = true;
    answer.error = error.what_without_backtrace();
  }
  return answer;
}

void compare(const c10::FunctionSchema &schema, const std::string &name, c10::ArrayRef<c10::IValue> args,
             const std::string &before, const Answer &answer, c10::ArrayRef<c10::IValue> returned) {
  if (answer.threw) {
    fail(name, "rule threw where eager did not: " + answer.error + " args" + before);
    return;
  }
  std::vector<at::Tensor> actual;
  for (const c10::IValue &value : returned) {
    if (value.isTensor()) {
      actual.push_back(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor &tensor : value.toTensorVector()) {
        actual.push_back(tensor);
      }
    }
  }
  if (schema.returns().empty()) {
    if (!answer.outputs.empty() && schema.is_mutable() &&
        schema.arguments()[0].type()->kind() != c10::TypeKind::ListType) {
      fail(name, "rule appended outputs to an op that returns nothing");
    }
    return;
  }
  const bool mutates =
      schema.is_mutable() && schema.returns()[0].alias_info() && schema.returns()[0].alias_info()->isWrite();
  size_t count = answer.isView ? answer.views.size() : answer.outputs.size();
  if (count != actual.size()) {
    fail(name, c10::str("rule gave ", count, " outputs, eager ", actual.size(), " args", before));
    return;
  }
  for (size_t i = 0; i < actual.size(); ++i) {
    const at::Tensor &tensor = actual[i];
    if (answer.isView) {
      const ViewMeta &meta = answer.views[i];
      if (tensor.sizes() != c10::IntArrayRef(meta.sizes) || tensor.strides() != c10::IntArrayRef(meta.strides) ||
          tensor.storage_offset() != meta.offset) {
        fail(name, c10::str("view ", i, ": rule ", c10::IntArrayRef(meta.sizes), " strides ",
                            c10::IntArrayRef(meta.strides), " offset ", meta.offset, ", eager ", tensor.sizes(),
                            " strides ", tensor.strides(), " offset ", tensor.storage_offset(), " args", before));
      }
      continue;
    }
    const OutputMeta &meta = answer.outputs[i];
    if (meta.defined != tensor.defined()) {
      fail(name,
           c10::str("output ", i, ": rule defined=", meta.defined, ", eager ", tensor.defined(), " args", before));
      continue;
    }
    if (!tensor.defined()) {
      continue;
    }
    bool same = tensor.sizes() == c10::IntArrayRef(meta.sizes);
    if (!mutates) {
      same = same && tensor.strides() == c10::IntArrayRef(meta.strides) && tensor.scalar_type() == meta.dtype;
    }
    if (!same) {
      fail(name, c10::str("output ", i, ": rule ", describe(meta.sizes, meta.strides, meta.dtype), ", eager ",
                          describe(tensor.sizes(), tensor.strides(), tensor.scalar_type()), " args", before));
    }
  }
}

void checkedCall(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  const c10::FunctionSchema &schema = op.schema();
  const size_t count = schema.arguments().size();
  std::vector<c10::IValue> args(stack->end() - count, stack->end());
  const std::string name =
      schema.overload_name().empty() ? schema.name() : schema.name() + "." + schema.overload_name();
  const ShapeRule *rule = findShapeRule(name);
  ViewRule view = findViewRule(name);
  Answer answer;
  std::string before;
  bool ruled = rule || view;
  for (const c10::IValue &value : args) {
    ruled = ruled && !(value.isTensor() && value.toTensor().defined() && value.toTensor().layout() != at::kStrided);
  }
  if (ruled) {
    before = describeAll(args);
    answer = ask(schema, name, args, rule, view);
    theReport().seen.insert(name);
  } else {
    ++theReport().unruled[name];
  }
  try {
    c10::impl::ExcludeDispatchKeyGuard off(kKey);
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
  } catch (const c10::Error &error) {
    if (ruled) {
      ++theReport().errorsChecked;
      std::string expected = error.what_without_backtrace();
      if (!answer.threw) {
        fail(name, "eager threw, rule did not: " + expected + " args" + before);
      } else if (answer.error != expected) {
        fail(name, "rule said: " + answer.error + "\n      eager said: " + expected);
      }
    }
    throw;
  }
  if (ruled) {
    ++theReport().checked;
    const size_t returns = schema.returns().size();
    compare(schema, name, args, before, answer,
            c10::ArrayRef<c10::IValue>(stack->data() + stack->size() - returns, returns));
  }
}

} // namespace

std::string ShapesReport::text() const {
  std::ostringstream text;
  text << checked << " calls of " << seen.size() << " ops checked, " << errorsChecked << " errors compared, "
       << failures.size() << " ops differ, " << unruled.size() << " ops without a rule\n";
  for (const auto &[name, difference] : failures) {
    text << "  " << name << " (" << failureCounts.at(name) << "): " << difference.substr(0, 900) << "\n";
  }
  return text.str();
}

CheckShapes::CheckShapes() {
  theReport() = ShapesReport();
  c10::impl::tls_set_dispatch_key_included(kKey, true);
}
CheckShapes::~CheckShapes() { c10::impl::tls_set_dispatch_key_included(kKey, false); }
const ShapesReport &CheckShapes::report() const { return theReport(); }

} // namespace sojourn::test

TORCH_LIBRARY_IMPL(_, Fake, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&sojourn::test::checkedCall>());
}

// For ctypes.
extern "C" void shapesCheckStart() {
  sojourn::test::theReport() = sojourn::test::ShapesReport();
  c10::impl::tls_set_dispatch_key_included(sojourn::test::kKey, true);
}
extern "C" void shapesCheckStop() { c10::impl::tls_set_dispatch_key_included(sojourn::test::kKey, false); }
extern "C" void shapesCheckResume() { c10::impl::tls_set_dispatch_key_included(sojourn::test::kKey, true); }
extern "C" const char *shapesCheckReport() {
  static std::string text;
  const sojourn::test::ShapesReport &report = sojourn::test::theReport();
  text = report.text();
  for (const auto &[name, count] : report.unruled) {
    text += "U " + name + " " + std::to_string(count) + "\n";
  }
  return text.c_str();
}
extern "C" int64_t shapesCheckFailures() { return sojourn::test::theReport().failures.size(); }
