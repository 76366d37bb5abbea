// SPDX-License-Identifier: Apache-2.0
// Operators of other libraries, asked of the package (sojourn/foreign.py).
#include "frontend/bind/Bind.h"
#include "frontend/recording/Foreign.h"

#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

namespace py = pybind11;

namespace sojourn::frontend {

namespace {

bool isA(const c10::TypePtr &type, c10::TypeKind kind) {
  auto optional = type->cast<c10::OptionalType>();
  return type->kind() == kind || (optional && optional->getElementType()->kind() == kind);
}

py::object borrowed(void *object) { return py::reinterpret_borrow<py::object>(static_cast<PyObject *>(object)); }

/// As Python writes it: a schema's dtypes, layouts and memory formats are numbers on the stack.
py::object argumentOf(const c10::Argument &argument, const c10::IValue &value) {
  const c10::TypePtr &type = argument.real_type();
  if (value.isInt() && isA(type, c10::TypeKind::ScalarTypeType)) {
    return borrowed(torch::getTHPDtype(static_cast<at::ScalarType>(value.toInt())));
  }
  if (value.isInt() && isA(type, c10::TypeKind::LayoutType)) {
    return borrowed(torch::getTHPLayout(static_cast<at::Layout>(value.toInt())));
  }
  if (value.isInt() && isA(type, c10::TypeKind::MemoryFormatType)) {
    return borrowed(torch::utils::getTHPMemoryFormat(static_cast<at::MemoryFormat>(value.toInt())));
  }
  return torch::jit::toPyObject(value);
}

/// Calls function(name, overload, args, kwargs), which answers NotImplemented or the results.
bool ask(const py::function &function, const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  const c10::FunctionSchema &schema = op.schema();
  const std::vector<c10::Argument> &arguments = schema.arguments();
  py::list positional;
  py::dict named;
  for (size_t i = 0; i < arguments.size(); ++i) {
    py::object value = argumentOf(arguments[i], (*stack)[stack->size() - arguments.size() + i]);
    if (arguments[i].kwarg_only()) {
      named[py::str(arguments[i].name())] = value;
    } else {
      positional.append(value);
    }
  }
  py::object found = function(schema.name(), schema.overload_name(), py::tuple(positional), named);
  if (found.is(py::reinterpret_borrow<py::object>(Py_NotImplemented))) {
    return false;
  }
  stack->resize(stack->size() - arguments.size());
  const std::vector<c10::Argument> &returns = schema.returns();
  if (returns.size() == 1) {
    stack->push_back(torch::jit::toIValue(found, returns[0].type()));
  } else if (returns.size() > 1) {
    const py::tuple results(found);
    TORCH_CHECK(results.size() == returns.size(), schema.name(), "'s decomposition gives ", results.size(),
                " results, expected ", returns.size());
    for (size_t i = 0; i < returns.size(); ++i) {
      stack->push_back(torch::jit::toIValue(results[i], returns[i].type()));
    }
  }
  return true;
}

} // namespace

void bindForeign(py::module_ &m) {
  m.def(
      "set_foreign_listener",
      [](py::function function) {
        auto *kept = new py::function(std::move(function)); // outlives the interpreter, as torch's registry does
        setForeignListener([kept](const c10::OperatorHandle &op, torch::jit::Stack *stack) {
          py::gil_scoped_acquire lock;
          try {
            return ask(*kept, op, stack);
          } catch (py::error_already_set &raised) {
            raised.restore();
            python_error error;
            error.persist();
            throw error;
          }
        });
      },
      py::arg("function"), "function(name, overload, args, kwargs) -> results or NotImplemented");
}

} // namespace sojourn::frontend
