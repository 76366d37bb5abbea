// SPDX-License-Identifier: Apache-2.0
// Python's view of calls that are recorded again without their function.
#include "frontend/bind/Bind.h"

#include "frontend/replay/Call.h"
#include "frontend/replay/Quiet.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace sojourn::frontend {

namespace {

/// Rates by name, counters, and whether a call advances them.
using PythonGroup = std::tuple<std::vector<std::pair<std::string, double>>, std::vector<at::Tensor>, bool>;

std::vector<RateGroup> groupsOf(const std::vector<PythonGroup> &tuples) {
  std::vector<RateGroup> groups;
  for (const auto &[rates, counters, advances] : tuples) {
    groups.push_back({rates, counters, advances});
  }
  return groups;
}

} // namespace

void bindReplay(py::module_ &m) {
  py::class_<Watched, std::shared_ptr<Watched>>(m, "Watched")
      .def(py::init<std::vector<at::Tensor>, std::vector<at::Tensor>>(), py::arg("parameters"), py::arg("others"))
      .def("places", [](const Watched &self) { return py::bytes(self.places()); });
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
  py::class_<QuietCall>(m, "QuietCall")
      .def(py::init([](std::shared_ptr<CapturedCall> call, std::shared_ptr<Watched> watched,
                       const std::vector<PythonGroup> &groups, const std::vector<at::Tensor> &arguments,
                       std::vector<at::Tensor> advanced) {
             return std::make_unique<QuietCall>(std::move(call), std::move(watched), groupsOf(groups), arguments,
                                                std::move(advanced));
           }),
           py::arg("call"), py::arg("watched"), py::arg("groups"), py::arg("arguments"), py::arg("advanced"))
      .def(
          "repeat",
          [](const QuietCall &self, const std::vector<at::Tensor> &arguments, const std::shared_ptr<Trip> &trip) {
            return self.repeat(arguments, [&] {
              py::gil_scoped_release unlock; // an owner may be Python
              Steps::end(trip);
            });
          },
          py::arg("arguments"), py::arg("trip"), "The call again, held for the trip; None where it has to be looked at.");
  m.def(
      "computed_numbers",
      [](const std::vector<double> &floats, const std::vector<PythonGroup> &groups, bool afterCall) {
        return computedNumbers(floats, groupsOf(groups), afterCall);
      },
      py::arg("floats"), py::arg("groups"), py::arg("after_call"));
  m.def("advance", &advanceCounters, py::arg("counters"), py::arg("by"));
}

} // namespace sojourn::frontend
