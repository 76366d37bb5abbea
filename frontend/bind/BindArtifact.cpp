// SPDX-License-Identifier: Apache-2.0
// Python's view of artifacts.
#include "frontend/bind/Bind.h"

#include "frontend/ahead/Artifact.h"
#include "frontend/session/Session.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

namespace py = pybind11;

namespace sojourn::frontend {

namespace {

using PythonSpec = std::tuple<std::vector<int64_t>, py::object, bool>;

std::vector<Spec> specsOf(const std::vector<PythonSpec> &tuples) {
  std::vector<Spec> specs;
  for (const auto &[sizes, dtype, number] : tuples) {
    specs.push_back({sizes, dtypeOf(dtype), number, ""});
  }
  return specs;
}

py::object dtypeObject(at::ScalarType dtype) {
  return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject *>(torch::getTHPDtype(dtype)));
}

/// Name, dtype, shape, bounds, categories (a tuple or None).
using PythonColumn =
    std::tuple<std::string, py::object, std::vector<int64_t>, std::optional<std::pair<double, double>>, py::object>;

/// Noise multiplier, clip, metric bound.
using PythonDefaults = std::optional<std::array<double, 3>>;

Dataset datasetOf(const std::string &name, std::optional<int64_t> rows, const std::vector<PythonColumn> &columns,
                  const std::string &policy, const PythonDefaults &defaults, const std::string &party) {
  Dataset dataset{name, policy, "", rows, {}, std::nullopt};
  dataset.party = party;
  if (defaults) {
    auto [noise, clip, bound] = *defaults;
    dataset.defaults = {noise, clip, bound};
  }
  for (const auto &[column, dtype, shape, bounds, categories] : columns) {
    auto meaning = std::make_shared<Meaning>(meaningsOf({{column, {categories, 0, false}}}).at(column));
    dataset.columns.push_back({column, dtypeOf(dtype), bounds, shape, meaning->isEmpty() ? nullptr : meaning});
  }
  return dataset;
}

/// The calls, then the variants.
const ArtifactCall &callAt(const Artifact &artifact, size_t call) {
  return call < artifact.calls.size() ? artifact.calls[call] : artifact.variants.at(call - artifact.calls.size()).call;
}

} // namespace

void bindArtifact(py::module_ &m) {
  py::class_<Offline, std::shared_ptr<Offline>>(m, "Offline")
      .def(py::init<>())
      .def_property_readonly("index", [](Offline &self) { return static_cast<int>(self.device().index()); })
      .def("set_parties", &Offline::setParties, py::arg("parties"), py::call_guard<py::gil_scoped_release>());

  py::class_<Artifact>(m, "Artifact")
      .def("save", &Artifact::save)
      .def_static("load", &Artifact::load)
      .def_readwrite("output_tree", &Artifact::outputTree)
      .def_readwrite("state_tree", &Artifact::stateTree)
      .def_property_readonly("inputs",
                             [](Artifact &self) {
                               py::list inputs;
                               for (const Spec &spec : self.inputs) {
                                 inputs.append(py::make_tuple(py::tuple(py::cast(spec.sizes)), dtypeObject(spec.dtype),
                                                              spec.number, spec.name));
                               }
                               return inputs;
                             })
      .def(
          "name_inputs",
          [](Artifact &self, const std::vector<std::string> &names) {
            for (size_t i = 0; i < std::min(names.size(), self.inputs.size()); ++i) {
              self.inputs[i].name = names[i];
            }
          },
          py::arg("names"))
      .def_property_readonly("steps", &Artifact::steps)
      .def_property_readonly(
          "parties", [](const Artifact &self) { return self.parties; }, "Names of the roles, in their order.")
      .def_property_readonly("variants", [](const Artifact &self) { return self.variants.size(); })
      .def_property_readonly("short_rows", [](const Artifact &self) { return self.shortRows; })
      .def_property_readonly("takes_batches", [](const Artifact &self) { return !self.batches.empty(); })
      .def_property_readonly(
          "draws",
          [](Artifact &self) {
            std::vector<std::tuple<std::string, int64_t, int64_t>> draws;
            const ArtifactCall &steady = self.calls[2];
            for (const Judgement::Draw &draw : judge(self, steady).draws) {
              for (unsigned table : draw.tables) {
                if (draw.isSampled) {
                  draws.emplace_back(steady.step.tables[table].name, draw.rows, draw.expected);
                }
              }
            }
            return draws;
          },
          "The owner's draws of private tables in each step: table, rows that it draws from, expected size.")
      .def_property_readonly("epochs",
                             [](Artifact &self) {
                               int64_t most = 0;
                               for (const ArtifactBatches &each : self.batches) {
                                 most = std::max(most, each.epochs);
                               }
                               return most;
                             })
      .def(
          "quote",
          [](Artifact &self, const std::string &table, double delta, double epsilon, double noiseMultiplier,
             std::optional<int64_t> steps, std::optional<int64_t> rows) {
            RunQuote quote = quoteRun(self, table, delta, epsilon, noiseMultiplier, steps, rows);
            return std::make_tuple(quote.epsilon, quote.delta, quote.steps, quote.noiseMultiplier, quote.samplingRate,
                                   quote.epsilonOfBestOrder);
          },
          py::arg("table"), py::arg("delta"), py::arg("epsilon"), py::arg("noise_multiplier"), py::arg("steps"),
          py::arg("rows"))
      .def_property_readonly(
          "tables", [](Artifact &self) { return self.tables; },
          "The owner's tables that it reads, each with the columns read.")
      .def("program",
           [](Artifact &self, size_t call) { return py::bytes(std::string(callAt(self, call).step.program)); })
      .def("hash",
           [](Artifact &self, size_t call) {
             const auto &hash = callAt(self, call).step.hash;
             return py::bytes(reinterpret_cast<const char *>(hash.data()), hash.size());
           })
      .def("text", [](Artifact &self, size_t call) {
        const wire::Step &step = callAt(self, call).step;
        std::string program(step.program), debug(step.debug);
        py::gil_scoped_release unlock; // another thread may be compiling
        return decodeToText(program, debug);
      });

  py::class_<Dataset>(m, "Dataset")
      .def_readonly("name", &Dataset::name)
      .def_readonly("rows", &Dataset::rows)
      .def_readonly("columns", &Dataset::columns)
      .def_readonly("policy", &Dataset::policy)
      .def_readonly("party", &Dataset::party)
      .def_property_readonly("defaults", [](const Dataset &self) {
        const std::optional<terms::Defaults> &own = self.defaults;
        return own ? PythonDefaults({own->noiseMultiplier, own->clip, own->metricBound}) : std::nullopt;
      });

  m.def(
      "check_table_spec",
      [](std::optional<int64_t> rows, const std::vector<PythonColumn> &columns, const std::string &policy,
         const PythonDefaults &defaults,
         const std::string &party) { return checkTableSpec(datasetOf("", rows, columns, policy, defaults, party)); },
      py::arg("rows"), py::arg("columns"), py::arg("policy"), py::arg("defaults"), py::arg("party"),
      "The problem with the description of a table, or an empty text.");
  m.def(
      "spec_table",
      [](const Offline &offline, const std::string &name, std::optional<int64_t> rows,
         const std::vector<PythonColumn> &columns, const std::string &policy, const PythonDefaults &defaults,
         const std::string &party) {
        return specTable(offline, datasetOf(name, rows, columns, policy, defaults, party));
      },
      py::arg("offline"), py::arg("name"), py::arg("rows"), py::arg("columns"), py::arg("policy"), py::arg("defaults"),
      py::arg("party"));
  m.def(
      "players",
      [](const Artifact &artifact, const std::map<std::string, std::shared_ptr<Session>> &parties) {
        std::map<std::string, Owner> owners;
        for (const auto &[name, session] : parties) {
          owners.emplace(name, Owner(session));
        }
        return playersOf(artifact, owners).size();
      },
      py::arg("artifact"), py::arg("parties"), "How many owners play the parties: one, or each another one.");

  m.def("compile_artifact",
        [](const Offline &offline, const std::function<void()> &init, const py::function &step,
           const std::vector<PythonSpec> &inputs, const std::vector<Batches> &batches, std::optional<int64_t> shortRows,
           const std::function<std::vector<at::Tensor>()> &state) {
          return compile(
              offline, init, [&](const std::vector<at::Tensor> &tensors) { step(py::cast(tensors)); }, specsOf(inputs),
              batches, shortRows, state);
        });

  py::class_<ArtifactRun>(m, "ArtifactRun")
      .def(py::init([](const Artifact &artifact, const std::shared_ptr<Session> &session,
                       const std::map<std::string, std::string> &tables) {
             return std::make_unique<ArtifactRun>(artifact, Owner(session), tables);
           }),
           py::arg("artifact"), py::arg("session"), py::arg("tables") = std::map<std::string, std::string>(),
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly(
          "artifact", [](const ArtifactRun &self) { return self.artifact(); },
          "The artifact over the run's tables: draws and steps follow from their rows.")
      .def("step", &ArtifactRun::step, py::call_guard<py::gil_scoped_release>())
      .def("state", &ArtifactRun::state, py::call_guard<py::gil_scoped_release>())
      .def(
          "steps",
          [](ArtifactRun &self, const std::vector<std::vector<at::Tensor>> &inputs, const py::object &follow) {
            ArtifactSteps done;
            auto follower = followerOf(follow);
            {
              py::gil_scoped_release unlock;
              done = self.steps(inputs, follower);
            }
            return std::make_tuple(done.published, done.committed, failureOf(done.failure));
          },
          py::arg("inputs"), py::arg("follow"),
          "The published values of each step, the number of committed steps, and the exception of the step after "
          "these.");
}

} // namespace sojourn::frontend
