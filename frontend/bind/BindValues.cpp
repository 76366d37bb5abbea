// SPDX-License-Identifier: Apache-2.0
// Values with names.
#include "frontend/bind/Bind.h"
#include "frontend/flight/Named.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace sojourn::frontend {

void bindValues(py::module_ &m) {
  m.def(
      "name_values",
      [](const std::vector<std::pair<std::string, at::Tensor>> &values, const std::vector<std::string> &tags) {
        nameValues(values, tags);
      },
      py::arg("values"), py::arg("tags"), py::call_guard<py::gil_scoped_release>());
  m.def(
      "named_values",
      [](const std::shared_ptr<Session> &session, const std::string &tag) {
        std::vector<NamedValueInfo> values;
        {
          py::gil_scoped_release unlock;
          values = namedValues(session, tag);
        }
        py::list all;
        for (const NamedValueInfo &each : values) {
          auto dtype = py::reinterpret_borrow<py::object>(
              reinterpret_cast<PyObject *>(torch::getTHPDtype(scalarTypeOf(each.element))));
          all.append(py::make_tuple(each.name, py::tuple(py::cast(each.tags)), dtype,
                                    py::tuple(py::cast(each.shape.empty() ? each.dims : each.shape)), each.bytes,
                                    each.namedMs, each.usedMs, each.leaseMs));
        }
        return all;
      },
      py::arg("session"), py::arg("tag"),
      "Of each its name, tags, dtype, shape, bytes, and in milliseconds when it got the name, when it was used last, "
      "and "
      "how long it keeps the name after that.");
  m.def(
      "take_values",
      [](const std::shared_ptr<Session> &session, const std::vector<std::string> &names) {
        return takeValues(session, names);
      },
      py::arg("session"), py::arg("names"), py::call_guard<py::gil_scoped_release>());
  m.def("release_names", &releaseNames, py::arg("session"), py::arg("names"), py::call_guard<py::gil_scoped_release>());
}

} // namespace sojourn::frontend
