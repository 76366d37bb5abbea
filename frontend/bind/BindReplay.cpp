// SPDX-License-Identifier: Apache-2.0
// Python's view of calls that are recorded again without their function.
#include "frontend/bind/Bind.h"

#include "frontend/replay/Call.h"
#include "frontend/replay/Rates.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace sojourn::frontend {

void bindReplay(py::module_ &m) {
  py::class_<Watched, std::shared_ptr<Watched>>(m, "Watched")
      .def(py::init<std::vector<at::Tensor>, std::vector<at::Tensor>>(), py::arg("parameters"), py::arg("others"))
      .def("places", [](const Watched &self) { return py::bytes(self.places()); })
      .def("is_at", &Watched::isAt, py::arg("places"));
  py::class_<CallEntry, std::shared_ptr<CallEntry>>(m, "CallEntry")
      .def(py::init([](std::vector<at::Tensor> arguments, std::shared_ptr<Watched> watched) {
             return std::make_shared<CallEntry>(std::move(arguments), std::move(watched));
           }),
           py::arg("arguments"), py::arg("watched"))
      .def("watch_generator", &CallEntry::watchGenerator);
  py::class_<RepeatedCall, std::shared_ptr<RepeatedCall>>(m, "RepeatedCall")
      .def_readonly("outputs", &RepeatedCall::outputs)
      .def_readonly("published", &RepeatedCall::published)
      .def("settle", &RepeatedCall::settle);
  py::class_<CapturedCall, std::shared_ptr<CapturedCall>>(m, "CapturedCall")
      .def(py::init([](const CallEntry &entry, const std::vector<at::Tensor> &outputs,
                       const std::vector<Published> &published) {
             return CapturedCall::capture(entry, outputs, published);
           }),
           py::arg("entry"), py::arg("outputs"), py::arg("published"))
      .def_readonly("obstacle", &CapturedCall::obstacle)
      .def_property_readonly("empty", &CapturedCall::empty)
      .def("differs", &CapturedCall::differs)
      .def(
          "explain",
          [](CapturedCall &self, const std::vector<double> &values, const CapturedCall *before) {
            return self.explain(values, before);
          },
          py::arg("values"), py::arg("before").none(true))
      .def("determines", &CapturedCall::determines)
      .def("fits", &CapturedCall::fits)
      .def("repeat", [](const CapturedCall &self, std::shared_ptr<CallEntry> entry, const std::vector<double> &values) {
        return self.repeat(std::move(entry), values);
      });
  m.def("advance", &advanceCounters, py::arg("counters"), py::arg("by"));
}

} // namespace sojourn::frontend
