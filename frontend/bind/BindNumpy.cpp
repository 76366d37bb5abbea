// SPDX-License-Identifier: Apache-2.0
// Python's way to ops by NumPy's type rules, and torch's operators where they meet NumPy's arrays.
#include "frontend/bind/Bind.h"
#include "frontend/recording/Tensor.h"
#include "frontend/shapes/Shapes.h"

#include <array>
#include <string>
#include <utility>

namespace py = pybind11;

namespace sojourn::frontend {

namespace {

class ByNumpy {
public:
  ByNumpy() : before_(recordByNumpy(true)) {}
  ~ByNumpy() { recordByNumpy(before_); }
  ByNumpy(const ByNumpy &) = delete;
  ByNumpy &operator=(const ByNumpy &) = delete;

private:
  const bool before_;
};

/// `by_numpy(function, *args, **kwargs)`. Behind each call of sojourn.numpy: not pybind11's, whose calls take longer.
PyObject *byNumpy(PyObject *, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  if (count < 1) {
    PyErr_SetString(PyExc_TypeError, "by_numpy: no function was given; expected by_numpy(function, *args, **kwargs)");
    return nullptr;
  }
  ByNumpy rules;
  return PyObject_Vectorcall(args[0], args + 1, static_cast<size_t>(count - 1), names);
}

PyMethodDef method{"by_numpy", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(byNumpy)),
                   METH_FASTCALL | METH_KEYWORDS,
                   "Calls the function; ops that it records in this thread have NumPy's result types."};

/// Torch's methods behind operators, where a remote tensor meets an instance of `array`: those calls go to `handler`.
struct Operator {
  std::string name;
  PyCFunctionWithKeywords original;
  PyMethodDef guarded;
  PyObject *handler;
};

constexpr size_t kOperators = 32;
std::array<Operator, kOperators> operators;
size_t operatorCount = 0;
PyTypeObject *arrayType = nullptr;

template <size_t index>
PyObject *guarded(PyObject *self, PyObject *args, PyObject *names) {
  const Operator &here = operators[index];
  if (PyTuple_GET_SIZE(args) == 1) {
    PyObject *other = PyTuple_GET_ITEM(args, 0);
    if (PyObject_TypeCheck(other, arrayType) && THPVariable_Check(self) && isRemote(THPVariable_Unpack(self))) {
      PyObject *given[]{self, other};
      return PyObject_Vectorcall(here.handler, given, 2, nullptr);
    }
  }
  return here.original(self, args, names);
}

template <size_t... index>
constexpr std::array<PyCFunctionWithKeywords, sizeof...(index)> guards(std::index_sequence<index...>) {
  return {guarded<index>...};
}

/// In the place of the method `name` of `type`, which is one of C: its own, or one that it inherits.
void guardOperator(const py::type &type, const std::string &name, const py::object &array, const py::object &handler) {
  static constexpr auto kGuards = guards(std::make_index_sequence<kOperators>());
  py::object found = type.attr(name.c_str());
  if (!Py_IS_TYPE(found.ptr(), &PyMethodDescr_Type) || operatorCount == kOperators) {
    throw py::type_error("guard_operator: " + name + " is no method of C, or there are too many");
  }
  const PyMethodDef *method = reinterpret_cast<PyMethodDescrObject *>(found.ptr())->d_method;
  if (method->ml_flags != (METH_VARARGS | METH_KEYWORDS)) {
    throw py::type_error("guard_operator: " + name + " is called in another way than torch's methods");
  }
  Operator &here = operators[operatorCount];
  here.name = name;
  here.original = reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void (*)()>(method->ml_meth));
  here.handler = py::object(handler).release().ptr();
  arrayType = reinterpret_cast<PyTypeObject *>(array.ptr());
  here.guarded = {here.name.c_str(),
                  reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(kGuards[operatorCount])),
                  METH_VARARGS | METH_KEYWORDS, method->ml_doc};
  ++operatorCount;
  auto *owner = reinterpret_cast<PyTypeObject *>(type.ptr());
  type.attr(name.c_str()) = py::reinterpret_steal<py::object>(PyDescr_NewMethod(owner, &here.guarded));
}

} // namespace

void bindNumpy(py::module_ &m) {
  m.def("guard_operator", guardOperator, py::arg("type"), py::arg("name"), py::arg("array"), py::arg("handler"));
  m.attr("by_numpy") = py::reinterpret_steal<py::object>(PyCFunction_New(&method, nullptr));
}

} // namespace sojourn::frontend
