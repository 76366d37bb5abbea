// SPDX-License-Identifier: Apache-2.0
// Python's way to ops by NumPy's type rules.
#include "frontend/bind/Bind.h"
#include "frontend/shapes/Shapes.h"

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

} // namespace

void bindNumpy(py::module_ &m) {
  m.attr("by_numpy") = py::reinterpret_steal<py::object>(PyCFunction_New(&method, nullptr));
}

} // namespace sojourn::frontend
