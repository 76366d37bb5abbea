// SPDX-License-Identifier: Apache-2.0
// Python's view of what calls use, and of calls that follow one another.
#include "frontend/bind/Bind.h"

#include "frontend/bind/ReadyCall.h"
#include "frontend/bind/Structure.h"
#include "frontend/replay/Quiet.h"

#include <pybind11/stl.h>

#include <array>
#include <cstring>

namespace py = pybind11;

namespace sojourn::frontend {

namespace {

PyObject *groupsName() {
  static PyObject *name = PyUnicode_InternFromString("param_groups");
  return name;
}

PyObject *stateName() {
  static PyObject *name = PyUnicode_InternFromString("state");
  return name;
}

/// State and hyper-parameters of an optimizer as they were before its first step in a step. Made in each traced step:
/// what dicts hold is noted in one list, and of CPU tensors of one element, nearly all counts of steps, the bytes.
class OptimizerSnapshot {
public:
  explicit OptimizerSnapshot(py::object optimizer) : optimizer_(std::move(optimizer)) {
    for (py::handle group : attribute(optimizer_, groupsName())) {
      groups_.push_back(note(py::none(), group.ptr(), /*isGroup=*/true));
    }
    PyObject *parameter, *state;
    Py_ssize_t at = 0;
    py::object states = attribute(optimizer_, stateName());
    const auto count = static_cast<size_t>(PyDict_Size(states.ptr()));
    states_.reserve(count);
    entries_.reserve(entries_.size() + 3 * count);
    numbers_.reserve(count);
    while (PyDict_Next(states.ptr(), &at, &parameter, &state)) {
      states_.push_back(note(py::reinterpret_borrow<py::object>(parameter), state, /*isGroup=*/false));
    }
  }

  void restore() const {
    at::NoGradGuard guard;
    for (const Number &number : numbers_) {
      const at::Tensor &tensor = THPVariable_Unpack(entries_[number.entry].second.ptr());
      std::memcpy(tensor.mutable_data_ptr(), number.bytes.data(), tensor.nbytes());
      tensor.unsafeGetTensorImpl()->bump_version();
    }
    for (const auto &[tensor, value] : tensors_) {
      tensor.copy_(value);
    }
    py::list groups = attribute(optimizer_, groupsName());
    for (size_t i = 0; i < groups_.size() && i < groups.size(); ++i) {
      fill(groups[i].ptr(), groups_[i]);
    }
    py::dict states = attribute(optimizer_, stateName()), before;
    for (size_t i = 0; i < states_.size(); ++i) {
      before[states_[i].of] = i;
    }
    py::list known(states.attr("keys")());
    for (py::handle parameter : known) {
      if (!before.contains(parameter)) {
        check(PyDict_DelItem(states.ptr(), parameter.ptr()));
        continue;
      }
      py::object state = states[parameter];
      PyDict_Clear(state.ptr());
      fill(state.ptr(), states_[before[parameter].cast<size_t>()]);
    }
    for (const Dict &saved : states_) {
      if (!states.contains(saved.of)) {
        py::dict state;
        fill(state.ptr(), saved);
        states[saved.of] = state;
      }
    }
  }

private:
  /// A dict: what it is of, and which of the entries are its.
  struct Dict {
    py::object of;
    size_t begin, end;
  };
  struct Number {
    size_t entry;
    std::array<char, sizeof(double) * 2> bytes;
  };

  static void check(int status) {
    if (status != 0) {
      throw py::error_already_set();
    }
  }
  void fill(PyObject *dict, const Dict &from) const {
    for (size_t at = from.begin; at < from.end; ++at) {
      check(PyDict_SetItem(dict, entries_[at].first.ptr(), entries_[at].second.ptr()));
    }
  }
  Dict note(py::object of, PyObject *dict, bool isGroup) {
    const size_t begin = entries_.size();
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
      if (isGroup && PyUnicode_CompareWithASCIIString(key, "params") == 0) {
        continue;
      }
      if (THPVariable_Check(value)) {
        noteContents(THPVariable_Unpack(value));
      }
      entries_.emplace_back(py::reinterpret_borrow<py::object>(key), py::reinterpret_borrow<py::object>(value));
    }
    return {std::move(of), begin, entries_.size()};
  }
  /// Of a CPU tensor, which steps change in place; of the next entry.
  void noteContents(const at::Tensor &tensor) {
    if (!tensor.device().is_cpu()) {
      return;
    }
    if (tensor.numel() == 1 && tensor.nbytes() <= sizeof(Number::bytes)) {
      Number &number = numbers_.emplace_back(Number{entries_.size(), {}});
      std::memcpy(number.bytes.data(), tensor.const_data_ptr(), tensor.nbytes());
    } else {
      tensors_.emplace_back(tensor, tensor.detach().clone());
    }
  }

  py::object optimizer_;
  std::vector<Dict> groups_, states_;
  std::vector<std::pair<py::object, py::object>> entries_;
  std::vector<Number> numbers_;
  std::vector<std::pair<at::Tensor, at::Tensor>> tensors_;
};

} // namespace

void bindUses(py::module_ &m) {
  py::class_<Structure>(m, "Structure")
      .def(py::init<const py::list &, const py::list &>(), py::arg("modules"), py::arg("optimizers"))
      .def("__eq__", &Structure::equals);
  py::class_<OptimizerSnapshot>(m, "OptimizerSnapshot")
      .def(py::init<py::object>(), py::arg("optimizer"))
      .def("restore", &OptimizerSnapshot::restore);
  py::class_<HostNumbers>(m, "HostNumbers")
      .def(py::init([](std::vector<at::Tensor> counters, std::vector<std::pair<at::Tensor, size_t>> products) {
             return HostNumbers{std::move(counters), std::move(products)};
           }),
           py::arg("counters"), py::arg("products"));
  py::class_<NumberSources>(m, "NumberSources")
      .def(py::init<std::vector<NumberSources::Group>>(), py::arg("groups"))
      .def("read", &NumberSources::numbers, py::arg("floats"), py::arg("after_call") = false);
  m.def(
      "rates_of",
      [](const py::dict &options) {
        RateGroup group;
        addRates(options, group);
        return group.rates;
      },
      py::arg("group"), "Names and values of the float hyper-parameters of an optimizer's group.");
  py::class_<QuietCall>(m, "QuietCall")
      .def(py::init([](std::shared_ptr<CapturedCall> call, std::shared_ptr<Watched> watched,
                       const NumberSources &sources, const std::vector<at::Tensor> &arguments, HostNumbers host) {
             return std::make_unique<QuietCall>(std::move(call), std::move(watched), sources.read(), arguments,
                                                std::move(host));
           }),
           py::arg("call"), py::arg("watched"), py::arg("sources"), py::arg("arguments"), py::arg("host"))
      .def("repeat", &QuietCall::repeat, py::arg("arguments"), py::arg("floats"), py::arg("calls"),
           py::call_guard<py::gil_scoped_release>(),
           "Whether the call joined the loop's calls; None if the call must be examined.");
  py::class_<ReadyCall>(m, "ReadyCall")
      .def(py::init([](std::shared_ptr<CapturedCall> call, std::shared_ptr<Watched> watched, std::string places,
                       const Structure &structure, std::vector<py::object> modules, std::vector<py::object> optimizers,
                       const NumberSources &sources, std::vector<double> base, std::vector<bool> mayVary,
                       HostNumbers host, std::vector<bool> isFree, py::object computed, const py::tuple &arguments) {
             return std::make_unique<ReadyCall>(
                 ReadyCall::Plan{std::move(call), std::move(watched), std::move(places), structure, std::move(modules),
                                 std::move(optimizers), sources, std::move(base), std::move(mayVary), std::move(host),
                                 std::move(isFree), std::move(computed)},
                 arguments);
           }),
           py::arg("call"), py::arg("watched"), py::arg("places"), py::arg("structure"), py::arg("modules"),
           py::arg("optimizers"), py::arg("sources"), py::arg("base"), py::arg("may_vary"), py::arg("host"),
           py::arg("is_free"), py::arg("computed"), py::arg("arguments"))
      .def_static("can_take", &ReadyCall::canTake, py::arg("arguments"))
      .def("repeat", &ReadyCall::repeat, py::arg("arguments"), "The replayed call; None if the call must be examined.");
  m.def("replay_step", &replayStep, py::arg("call"), py::arg("entry"), py::arg("values"), py::arg("host"),
        "Replays a call in a step of its own, sent at once; `host`: the numbers on the host that a call changes.");
  py::class_<LoopedCalls>(m, "LoopedCalls")
      .def(py::init<std::shared_ptr<Trip>>(), py::arg("trip"))
      .def(
          "add",
          [](LoopedCalls &self, const CapturedCall &call, const std::shared_ptr<CallEntry> &entry,
             const std::vector<double> &values,
             const HostNumbers &host) { return self.add(call, entry, values, host); },
          py::arg("call"), py::arg("entry"), py::arg("values"), py::arg("host"),
          py::call_guard<py::gil_scoped_release>())
      .def("__len__", &LoopedCalls::size)
      .def("made", &LoopedCalls::made, py::arg("at"))
      .def("take_back", &LoopedCalls::takeBack, py::arg("first"))
      .def("clear", &LoopedCalls::clear);
}

} // namespace sojourn::frontend
