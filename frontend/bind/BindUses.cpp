// SPDX-License-Identifier: Apache-2.0
// What modules and optimizers are like, read from their attributes: each replayed call asks, so it has to be quick.
#include "frontend/bind/Bind.h"

#include "frontend/replay/Quiet.h"

#include <pybind11/stl.h>

#include <array>
#include <cstring>

namespace py = pybind11;

namespace sojourn::frontend {

namespace {

/// Names that each call asks for; made once.
struct Names {
  PyObject *training = PyUnicode_InternFromString("training"), *state = PyUnicode_InternFromString("state"),
           *groups = PyUnicode_InternFromString("param_groups");
  std::array<PyObject *, 3> values{PyUnicode_InternFromString("_parameters"), PyUnicode_InternFromString("_buffers"),
                                   PyUnicode_InternFromString("_modules")};
  std::array<PyObject *, 3> hooks{PyUnicode_InternFromString("_forward_hooks"),
                                  PyUnicode_InternFromString("_forward_pre_hooks"),
                                  PyUnicode_InternFromString("_backward_hooks")};
};

const Names &names() {
  static const Names &made = *new Names();
  return made;
}

py::object attribute(const py::handle &object, PyObject *name) {
  PyObject *value = PyObject_GetAttr(object.ptr(), name);
  if (!value) {
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(value);
}

/// Modes, options and the objects in their places; numbers by whether they are 0 only.
class Structure {
public:
  Structure(const py::list &modules, const py::list &optimizers) {
    for (py::handle module : modules) {
      note(attribute(module, names().training).ptr());
      for (PyObject *name : names().values) {
        noteValues(attribute(module, name));
      }
      for (PyObject *name : names().hooks) {
        noteKeys(attribute(module, name));
      }
    }
    for (py::handle optimizer : optimizers) {
      for (py::handle group : attribute(optimizer, names().groups)) {
        PyObject *key, *value;
        Py_ssize_t at = 0;
        while (PyDict_Next(group.ptr(), &at, &key, &value)) {
          PyUnicode_CompareWithASCIIString(key, "params") == 0 ? noteItems(value) : noteOption(value);
        }
      }
      PyObject *parameter, *state;
      Py_ssize_t at = 0;
      py::object states = attribute(optimizer, names().state);
      while (PyDict_Next(states.ptr(), &at, &parameter, &state)) {
        noteTensors(state);
      }
    }
  }

  bool equals(const Structure &other) const {
    if (words_ != other.words_ || options_.size() != other.options_.size()) {
      return false;
    }
    for (size_t i = 0; i < options_.size(); ++i) {
      if (!options_[i].is(other.options_[i]) && !options_[i].equal(other.options_[i])) {
        return false;
      }
    }
    return true;
  }

private:
  void note(const void *pointer) { words_.push_back(reinterpret_cast<uintptr_t>(pointer)); }
  void noteSize(Py_ssize_t size) { words_.push_back(static_cast<uintptr_t>(size)); }

  void noteValues(const py::object &dict) {
    noteSize(PyDict_Size(dict.ptr()));
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict.ptr(), &at, &key, &value)) {
      note(value);
    }
  }

  /// Handles of hooks: small numbers that are never used again.
  void noteKeys(const py::object &dict) {
    noteSize(PyDict_Size(dict.ptr()));
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict.ptr(), &at, &key, &value)) {
      noteSize(PyLong_AsSsize_t(key));
    }
  }

  void noteItems(PyObject *list) {
    noteSize(PySequence_Size(list));
    for (py::handle item : py::reinterpret_borrow<py::object>(list)) {
      note(item.ptr());
    }
  }

  void noteTensors(PyObject *state) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Check(state) && PyDict_Next(state, &at, &key, &value)) {
      if (THPVariable_Check(value)) {
        note(value);
      }
    }
  }

  void noteOption(PyObject *value) {
    if (PyFloat_CheckExact(value)) {
      noteSize(PyFloat_AS_DOUBLE(value) != 0);
    } else if (PyTuple_Check(value)) {
      noteSize(PyTuple_GET_SIZE(value));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
        noteOption(PyTuple_GET_ITEM(value, i));
      }
    } else if (value == Py_None || PyBool_Check(value) || PyList_Check(value) || THPVariable_Check(value)) {
      note(value);
    } else {
      options_.push_back(py::reinterpret_borrow<py::object>(value));
    }
  }

  std::vector<uintptr_t> words_; ///< objects by their address
  std::vector<py::object> options_;
};

/// State and hyper-parameters of an optimizer as they were before its first step in a step. Made in each traced step.
class OptimizerSnapshot {
public:
  explicit OptimizerSnapshot(py::object optimizer) : optimizer_(std::move(optimizer)) {
    for (py::handle group : attribute(optimizer_, names().groups)) {
      groups_.push_back(copyOf(group.ptr()));
      PyDict_DelItemString(groups_.back().ptr(), "params");
    }
    PyObject *parameter, *state;
    Py_ssize_t at = 0;
    py::object states = attribute(optimizer_, names().state);
    while (PyDict_Next(states.ptr(), &at, &parameter, &state)) {
      states_.emplace_back(py::reinterpret_borrow<py::object>(parameter), copyOf(state));
    }
  }

  void restore() const {
    at::NoGradGuard guard;
    for (const auto &[tensor, value] : numbers_) {
      std::memcpy(tensor.mutable_data_ptr(), value.data(), tensor.nbytes());
      tensor.unsafeGetTensorImpl()->bump_version();
    }
    for (const auto &[tensor, value] : tensors_) {
      tensor.copy_(value);
    }
    py::list groups = attribute(optimizer_, names().groups);
    for (size_t i = 0; i < groups_.size() && i < groups.size(); ++i) {
      check(PyDict_Update(groups[i].ptr(), groups_[i].ptr()));
    }
    py::dict states = attribute(optimizer_, names().state), before;
    for (const auto &[parameter, saved] : states_) {
      before[parameter] = saved;
    }
    py::list known(states.attr("keys")());
    for (py::handle parameter : known) {
      if (!before.contains(parameter)) {
        check(PyDict_DelItem(states.ptr(), parameter.ptr()));
        continue;
      }
      py::object state = states[parameter];
      PyDict_Clear(state.ptr());
      check(PyDict_Update(state.ptr(), py::object(before[parameter]).ptr()));
    }
    for (const auto &[parameter, saved] : states_) {
      if (!states.contains(parameter)) {
        states[parameter] = copyDict(saved.ptr());
      }
    }
  }

private:
  static void check(int status) {
    if (status != 0) {
      throw py::error_already_set();
    }
  }
  static py::object copyDict(PyObject *dict) {
    PyObject *copy = PyDict_Copy(dict);
    if (!copy) {
      throw py::error_already_set();
    }
    return py::reinterpret_steal<py::object>(copy);
  }
  /// A shallow copy; the contents of CPU tensors, which steps change in place, are noted.
  py::object copyOf(PyObject *dict) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
      if (!THPVariable_Check(value)) {
        continue;
      }
      const at::Tensor &tensor = THPVariable_Unpack(value);
      if (tensor.device().is_cpu() && tensor.numel() == 1) {
        const auto *bytes = static_cast<const char *>(tensor.const_data_ptr());
        numbers_.emplace_back(tensor, std::vector<char>(bytes, bytes + tensor.nbytes()));
      } else if (tensor.device().is_cpu()) {
        tensors_.emplace_back(tensor, tensor.detach().clone());
      }
    }
    return copyDict(dict);
  }

  py::object optimizer_;
  std::vector<py::object> groups_;
  std::vector<std::pair<py::object, py::object>> states_;
  std::vector<std::pair<at::Tensor, std::vector<char>>> numbers_; ///< nearly all: counts of steps
  std::vector<std::pair<at::Tensor, at::Tensor>> tensors_;
};

void addRate(const std::string &name, PyObject *value, RateGroup &group) {
  if (PyFloat_CheckExact(value)) {
    group.rates.emplace_back(name, PyFloat_AS_DOUBLE(value));
  }
}

/// Float hyper-parameters of a group by name; those of tuples as "betas[0]".
void addRates(const py::handle &options, RateGroup &group) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(options.ptr(), &at, &key, &value)) {
    if (PyFloat_CheckExact(value)) {
      addRate(py::cast<std::string>(py::handle(key)), value, group);
    } else if (PyTuple_Check(value)) {
      const std::string name = py::cast<std::string>(py::handle(key));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
        addRate(name + "[" + std::to_string(i) + "]", PyTuple_GET_ITEM(value, i), group);
      }
    }
  }
}

/// Where the numbers of a call may come from: float arguments, and groups of optimizers as they are when it is asked.
class NumberSources {
public:
  /// A group (its dict), counters, and whether a call advances them.
  using Group = std::tuple<py::dict, std::vector<at::Tensor>, bool>;
  explicit NumberSources(std::vector<Group> groups) : groups_(std::move(groups)) {}

  std::vector<RateGroup> read() const {
    std::vector<RateGroup> groups;
    for (const auto &[options, counters, advances] : groups_) {
      addRates(options, groups.emplace_back(RateGroup{{}, counters, advances}));
    }
    return groups;
  }

private:
  std::vector<Group> groups_;
};

/// Base numbers, and all that follows from them.
std::pair<std::vector<double>, std::vector<double>> numbersOf(const NumberSources &sources,
                                                              const std::vector<double> &floats, bool afterCall) {
  const std::vector<RateGroup> groups = sources.read();
  std::vector<double> base = floats;
  for (const RateGroup &group : groups) {
    for (const auto &[name, value] : group.rates) {
      base.push_back(value);
    }
  }
  return {std::move(base), computedNumbers(floats, groups, afterCall)};
}

} // namespace

void bindUses(py::module_ &m) {
  py::class_<Structure>(m, "Structure")
      .def(py::init<const py::list &, const py::list &>(), py::arg("modules"), py::arg("optimizers"))
      .def("__eq__", &Structure::equals);
  py::class_<OptimizerSnapshot>(m, "OptimizerSnapshot")
      .def(py::init<py::object>(), py::arg("optimizer"))
      .def("restore", &OptimizerSnapshot::restore);
  py::class_<NumberSources>(m, "NumberSources")
      .def(py::init<std::vector<NumberSources::Group>>(), py::arg("groups"))
      .def("read", &numbersOf, py::arg("floats"), py::arg("after_call") = false);
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
                       const NumberSources &sources, const std::vector<at::Tensor> &arguments,
                       std::vector<at::Tensor> advanced) {
             return std::make_unique<QuietCall>(std::move(call), std::move(watched), sources.read(), arguments,
                                                std::move(advanced));
           }),
           py::arg("call"), py::arg("watched"), py::arg("sources"), py::arg("arguments"), py::arg("advanced"))
      .def("repeat", &QuietCall::repeat, py::arg("arguments"), py::arg("calls"),
           py::call_guard<py::gil_scoped_release>(),
           "Whether the call joined the loop's; None where it has to be looked at.");
  py::class_<LoopedCalls>(m, "LoopedCalls")
      .def(py::init<std::shared_ptr<Trip>>(), py::arg("trip"))
      .def(
          "add",
          [](LoopedCalls &self, const CapturedCall &call, const std::shared_ptr<CallEntry> &entry,
             const std::vector<double> &values,
             const std::vector<at::Tensor> &counters) { return self.add(call, entry, values, counters); },
          py::arg("call"), py::arg("entry"), py::arg("values"), py::arg("counters"),
          py::call_guard<py::gil_scoped_release>())
      .def("__len__", &LoopedCalls::size)
      .def("made", &LoopedCalls::made, py::arg("at"))
      .def("take_back", &LoopedCalls::takeBack, py::arg("first"))
      .def("clear", &LoopedCalls::clear);
}

} // namespace sojourn::frontend
