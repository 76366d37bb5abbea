// SPDX-License-Identifier: Apache-2.0
// Python's view of calls that are recorded again without their function.
#include "frontend/bind/Bind.h"

#include "frontend/replay/Call.h"
#include "frontend/replay/Rates.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>

namespace py = pybind11;

namespace sojourn::frontend {

namespace {

/// Objects in the memory of an int or a float that are neither to C code: it reaches their value by their methods
/// alone. They hold nothing that the garbage collector could find, as ints and floats do, so they can become those.
class StandIns {
public:
  /// `members`: methods and attributes of their type.
  explicit StandIns(const py::dict &members) {
    PyType_Slot slots[] = {{0, nullptr}};
    PyType_Spec spec{"sojourn.StandIn", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, slots};
    type_ = py::reinterpret_steal<py::object>(checked(PyType_FromSpec(&spec)));
    for (auto [name, member] : members) {
      if (name.equal(py::str("__class__"))) { // setting it would change the type of the type
        check(PyDict_SetItem(type()->tp_dict, name.ptr(), member.ptr()));
        PyType_Modified(type());
      } else {
        check(PyObject_SetAttr(type_.ptr(), name.ptr(), member.ptr()));
      }
    }
  }
  py::object make(const py::object &number) const {
    const auto bytes = number.attr("__sizeof__")().cast<size_t>();
    void *memory = PyObject_Malloc(std::max(bytes, sizeof(PyLongObject)));
    if (!memory) {
      throw std::bad_alloc();
    }
    std::memcpy(static_cast<char *>(memory) + sizeof(PyObject),
                reinterpret_cast<char *>(number.ptr()) + sizeof(PyObject), bytes - sizeof(PyObject));
    return py::reinterpret_steal<py::object>(PyObject_Init(static_cast<PyObject *>(memory), type()));
  }
  /// It is the number that it stood for, wherever it is kept.
  void end(const py::object &standIn, const py::object &number) const {
    if (Py_TYPE(standIn.ptr()) == type()) {
      Py_SET_TYPE(standIn.ptr(), Py_TYPE(number.ptr()));
      Py_DECREF(type());
    }
  }
  py::object typeObject() const { return type_; }

private:
  static PyObject *checked(PyObject *made) {
    if (!made) {
      throw py::error_already_set();
    }
    return made;
  }
  static void check(int status) {
    if (status != 0) {
      throw py::error_already_set();
    }
  }
  PyTypeObject *type() const { return reinterpret_cast<PyTypeObject *>(type_.ptr()); }
  py::object type_;
};

} // namespace

void bindReplay(py::module_ &m) {
  py::class_<StandIns>(m, "StandIns")
      .def(py::init<const py::dict &>(), py::arg("members"))
      .def_property_readonly("type", &StandIns::typeObject)
      .def("make", &StandIns::make, py::arg("number"), "A stand-in for an int or a float.")
      .def("end", &StandIns::end, py::arg("stand_in"), py::arg("number"), "Makes the number of it.");
  py::class_<Watched, std::shared_ptr<Watched>>(m, "Watched")
      .def(py::init<std::vector<at::Tensor>, std::vector<at::Tensor>>(), py::arg("parameters"), py::arg("others"))
      .def("places", [](const Watched &self) { return py::bytes(self.places()); })
      .def("is_at", &Watched::isAt, py::arg("places"));
  py::class_<CallEntry, std::shared_ptr<CallEntry>>(m, "CallEntry")
      .def(py::init([](std::vector<at::Tensor> arguments, std::shared_ptr<Watched> watched) {
             return std::make_shared<CallEntry>(std::move(arguments), std::move(watched));
           }),
           py::arg("arguments"), py::arg("watched"))
      .def("watch", &CallEntry::watch, py::arg("generators"));
  py::class_<RepeatedCall, std::shared_ptr<RepeatedCall>>(m, "RepeatedCall")
      .def_readonly("outputs", &RepeatedCall::outputs)
      .def_readonly("published", &RepeatedCall::published);
  py::class_<CapturedCall, std::shared_ptr<CapturedCall>>(m, "CapturedCall")
      .def(py::init([](const CallEntry &entry, const std::vector<at::Tensor> &outputs,
                       const std::vector<Published> &published, const std::vector<at::Tensor> &reached) {
             return CapturedCall::capture(entry, outputs, published, reached);
           }),
           py::arg("entry"), py::arg("outputs"), py::arg("published"), py::arg("reached"))
      .def_readonly("obstacle", &CapturedCall::obstacle)
      .def_property_readonly("generators", &CapturedCall::generators)
      .def_property_readonly("empty", &CapturedCall::empty)
      .def_property_readonly("is_stale", &CapturedCall::isStale)
      .def("differs", &CapturedCall::differs)
      .def("note", &CapturedCall::note, py::arg("values"))
      .def("explain", &CapturedCall::explain, py::arg("before"))
      .def("determines", &CapturedCall::determines)
      .def("fits", &CapturedCall::fits);
}

} // namespace sojourn::frontend
