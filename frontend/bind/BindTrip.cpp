// SPDX-License-Identifier: Apache-2.0
// Python's view of several steps in one message.
#include "frontend/bind/Bind.h"

#include "frontend/session/Session.h"
#include "frontend/Interrupt.h"

#include <torch/csrc/Exceptions.h>

#include <pybind11/stl.h>

namespace py = pybind11;

namespace sojourn::frontend {

std::function<bool(uint64_t)> followerOf(const py::object &follow) {
  auto kept = std::shared_ptr<py::object>(new py::object(follow), [](py::object *object) {
    py::gil_scoped_acquire lock;
    delete object;
  });
  return [kept](uint64_t committed) {
    py::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) {
      noteInterrupt();
      throw py::error_already_set();
    }
    if (!kept->is_none()) {
      (*kept)(committed);
    }
    return true;
  };
}

py::object failureOf(const std::exception_ptr &failure) {
  if (!failure) {
    return py::none();
  }
  try {
    std::rethrow_exception(failure);
  } catch (const py::error_already_set &error) {
    return error.value();
  } catch (python_error &error) {
    error.restore();
    return py::error_already_set().value();
  } catch (const std::exception &error) {
    return py::module_::import("builtins").attr("RuntimeError")(error.what());
  }
}

void bindTrip(py::module_ &m) {
  py::class_<Trip, std::shared_ptr<Trip>>(m, "Trip")
      .def(py::init([](size_t most, const std::optional<double> &seconds, const py::object &follow) {
             auto trip = std::make_shared<Trip>();
             trip->most = most;
             if (seconds) {
               trip->deadline =
                   std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                          std::chrono::duration<double>(*seconds));
             }
             trip->follow = followerOf(follow);
             return trip;
           }),
           py::arg("most"), py::arg("seconds"), py::arg("follow"))
      .def_readonly("committed", &Trip::committed)
      .def_readonly("is_stopped", &Trip::isStopped)
      .def_readonly("is_late", &Trip::isLate)
      .def_property_readonly("is_over", &Trip::isOver)
      .def("send", &Trip::send, py::call_guard<py::gil_scoped_release>(), "Raises the failure, once.")
      .def("raise_failure", &Trip::raiseFailure);
}

} // namespace sojourn::frontend
