// SPDX-License-Identifier: Apache-2.0
// Python's view of artifacts.
#include "frontend/Bind.h"

#include "frontend/Artifact.h"
#include "frontend/Session.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

namespace py = pybind11;

namespace sojourn::frontend {

namespace {

using PythonSpec = std::tuple<std::vector<int64_t>, py::object, bool>;

std::vector<Spec> specsOf(const std::vector<PythonSpec> &tuples) {
  std::vector<Spec> specs;
  for (const auto &[sizes, dtype, number] : tuples) {
    specs.push_back({sizes, dtypeOf(dtype), number});
  }
  return specs;
}

} // namespace

void bindArtifact(py::module_ &m) {
  py::class_<Offline, std::shared_ptr<Offline>>(m, "Offline")
      .def(py::init<>())
      .def_property_readonly("index", [](Offline &self) { return static_cast<int>(self.device().index()); });

  py::class_<Artifact>(m, "Artifact")
      .def("save", &Artifact::save)
      .def_static("load", &Artifact::load)
      .def_readwrite("output_tree", &Artifact::outputTree)
      .def_property_readonly(
          "inputs",
          [](Artifact &self) {
            py::list inputs;
            for (const Spec &spec : self.inputs) {
              inputs.append(py::make_tuple(
                  py::tuple(py::cast(spec.sizes)),
                  py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject *>(torch::getTHPDtype(spec.dtype))),
                  spec.number));
            }
            return inputs;
          })
      .def("program",
           [](Artifact &self, size_t call) { return py::bytes(std::string(self.calls.at(call).step.program)); })
      .def("hash",
           [](Artifact &self, size_t call) {
             const auto &hash = self.calls.at(call).step.hash;
             return py::bytes(reinterpret_cast<const char *>(hash.data()), hash.size());
           })
      .def("text", [](Artifact &self, size_t call) {
        const wire::Step &step = self.calls.at(call).step;
        std::string program(step.program), debug(step.debug);
        py::gil_scoped_release unlock; // another thread may be compiling
        return decodeToText(program, debug);
      });

  m.def("compile_artifact", [](const Offline &offline, const std::function<void()> &init, const py::function &step,
                               const std::vector<PythonSpec> &inputs) {
    return compile(
        offline, init, [&](const std::vector<at::Tensor> &tensors) { step(py::cast(tensors)); }, specsOf(inputs));
  });

  py::class_<ArtifactRun>(m, "ArtifactRun")
      .def(py::init([](const Artifact &artifact, const std::shared_ptr<Session> &session) {
             return std::make_unique<ArtifactRun>(artifact, Owner(session));
           }),
           py::call_guard<py::gil_scoped_release>())
      .def("step", &ArtifactRun::step, py::call_guard<py::gil_scoped_release>());
}

} // namespace sojourn::frontend
