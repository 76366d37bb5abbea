// SPDX-License-Identifier: Apache-2.0
// See Structure.h.
#include "frontend/bind/Structure.h"

#include <algorithm>
#include <array>

namespace py = pybind11;

namespace sojourn::frontend {

namespace {

/// Names that each call asks for; made once.
struct Names {
  PyObject *training = PyUnicode_InternFromString("training"), *state = PyUnicode_InternFromString("state"),
           *groups = PyUnicode_InternFromString("param_groups"), *parameters = PyUnicode_InternFromString("params");
  std::array<PyObject *, 3> values{PyUnicode_InternFromString("_parameters"), PyUnicode_InternFromString("_buffers"),
                                   PyUnicode_InternFromString("_modules")};
  std::array<PyObject *, 4> hooks{
      PyUnicode_InternFromString("_forward_hooks"), PyUnicode_InternFromString("_forward_pre_hooks"),
      PyUnicode_InternFromString("_backward_hooks"), PyUnicode_InternFromString("_backward_pre_hooks")};
  std::array<PyObject *, 2> optimizerHooks{PyUnicode_InternFromString("_optimizer_step_pre_hooks"),
                                           PyUnicode_InternFromString("_optimizer_step_post_hooks")};
};

const Names &names() {
  static const Names &made = *new Names();
  return made;
}

/// Hooks of all modules and all optimizers, and the one that a traced call adds for its time (sojourn/uses.py).
struct SharedHooks {
  std::vector<py::object> dicts;
  py::object ours;
  SharedHooks() : ours(py::module_::import("sojourn.uses").attr("before_module")) {
    py::module_ modules = py::module_::import("torch.nn.modules.module");
    for (const char *name : {"_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks",
                             "_global_backward_pre_hooks"}) {
      dicts.emplace_back(modules.attr(name));
    }
    py::module_ optimizers = py::module_::import("torch.optim.optimizer");
    for (const char *name : {"_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"}) {
      dicts.emplace_back(optimizers.attr(name));
    }
  }
};

const SharedHooks &sharedHooks() {
  static const SharedHooks &made = *new SharedHooks();
  return made;
}

template <class Visit>
void eachEntry(PyObject *dict, Visit visit) {
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
    visit(key, value);
  }
}

/// Goes through modules and optimizers in one order, and tells `sink` words and options.
template <class Sink>
class Walk {
public:
  explicit Walk(Sink &sink) : sink_(sink) {}

  void shared() {
    const SharedHooks &known = sharedHooks();
    for (const py::object &dict : known.dicts) {
      eachEntry(dict.ptr(), [&](PyObject *key, PyObject *value) {
        if (value != known.ours.ptr()) {
          noteSize(PyLong_AsSsize_t(key));
        }
      });
      noteSize(-1);
    }
  }

  void module(const py::handle &module) {
    note(attribute(module, names().training).ptr());
    for (PyObject *name : names().values) {
      py::object dict = attribute(module, name);
      noteSize(PyDict_Size(dict.ptr()));
      eachEntry(dict.ptr(), [&](PyObject *, PyObject *value) { noteTensor(value); });
    }
    for (PyObject *name : names().hooks) {
      noteHooks(attribute(module, name).ptr());
    }
  }

  void optimizer(const py::handle &optimizer) {
    for (PyObject *name : names().optimizerHooks) {
      noteHooks(attribute(optimizer, name).ptr());
    }
    for (py::handle group : attribute(optimizer, names().groups)) {
      note(group.ptr()); // its rates are read from there
      eachEntry(group.ptr(),
                [&](PyObject *key, PyObject *value) { isParameters(key) ? noteItems(value) : noteOption(value); });
    }
    py::object states = attribute(optimizer, names().state);
    eachEntry(states.ptr(), [&](PyObject *, PyObject *state) {
      if (PyDict_Check(state)) {
        eachEntry(state, [&](PyObject *, PyObject *value) {
          if (THPVariable_Check(value)) {
            note(value);
          }
        });
      }
    });
  }

private:
  void note(const void *pointer) { sink_.word(reinterpret_cast<uintptr_t>(pointer)); }
  void noteSize(Py_ssize_t size) { sink_.word(static_cast<uintptr_t>(size)); }
  /// Handles of hooks: small numbers that are never used again.
  void noteHooks(PyObject *dict) {
    const bool isDict = dict && PyDict_Check(dict);
    noteSize(isDict ? PyDict_Size(dict) : 0);
    if (isDict) {
      eachEntry(dict, [&](PyObject *key, PyObject *) { noteSize(PyLong_AsSsize_t(key)); });
    }
  }
  /// A tensor with its own hooks, or another object.
  void noteTensor(PyObject *value) {
    note(value);
    if (THPVariable_Check(value)) {
      noteHooks(reinterpret_cast<THPVariable *>(value)->backward_hooks);
      noteHooks(reinterpret_cast<THPVariable *>(value)->post_accumulate_grad_hooks);
    }
  }

  static bool isParameters(PyObject *key) {
    return key == names().parameters || PyUnicode_CompareWithASCIIString(key, "params") == 0;
  }

  void noteItems(PyObject *list) {
    noteSize(PySequence_Size(list));
    for (py::handle item : py::reinterpret_borrow<py::object>(list)) {
      noteTensor(item.ptr());
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
      sink_.option(value);
    }
  }

  Sink &sink_;
};

void addRate(const std::string &name, PyObject *value, RateGroup &group) {
  if (PyFloat_CheckExact(value)) {
    group.rates.emplace_back(name, PyFloat_AS_DOUBLE(value));
  }
}

} // namespace

py::object attribute(const py::handle &object, PyObject *name) {
  PyObject *value = PyObject_GetAttr(object.ptr(), name);
  if (!value) {
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(value);
}

class Structure::Noting {
public:
  explicit Noting(Structure &structure) : structure_(structure) {}
  void word(uintptr_t word) { structure_.words_.push_back(word); }
  void option(PyObject *value) { structure_.options_.push_back(py::reinterpret_borrow<py::object>(value)); }

private:
  Structure &structure_;
};

class Structure::Comparing {
public:
  explicit Comparing(const Structure &structure) : structure_(structure) {}
  void word(uintptr_t word) {
    isSame_ = isSame_ && words_ < structure_.words_.size() && structure_.words_[words_] == word;
    ++words_;
  }
  void option(PyObject *value) {
    isSame_ =
        isSame_ && options_ < structure_.options_.size() &&
        (structure_.options_[options_].is(py::handle(value)) || structure_.options_[options_].equal(py::handle(value)));
    ++options_;
  }
  bool isSame() const {
    return isSame_ && words_ == structure_.words_.size() && options_ == structure_.options_.size();
  }

private:
  const Structure &structure_;
  size_t words_ = 0, options_ = 0;
  bool isSame_ = true;
};

Structure::Structure(const py::list &modules, const py::list &optimizers) {
  Noting sink(*this);
  Walk walk(sink);
  walk.shared();
  for (py::handle module : modules) {
    walk.module(module);
  }
  for (py::handle optimizer : optimizers) {
    walk.optimizer(optimizer);
  }
}

bool Structure::equals(const Structure &other) const {
  auto isSame = [](const py::object &a, const py::object &b) { return a.is(b) || a.equal(b); };
  return words_ == other.words_ &&
         std::equal(options_.begin(), options_.end(), other.options_.begin(), other.options_.end(), isSame);
}

bool Structure::holds(const std::vector<py::object> &modules, const std::vector<py::object> &optimizers) const {
  Comparing sink(*this);
  Walk walk(sink);
  walk.shared();
  for (const py::object &reference : modules) {
    auto module = py::reinterpret_borrow<py::object>(PyWeakref_GetObject(reference.ptr()));
    if (module.is_none()) {
      return false;
    }
    walk.module(module);
  }
  for (const py::object &reference : optimizers) {
    auto optimizer = py::reinterpret_borrow<py::object>(PyWeakref_GetObject(reference.ptr()));
    if (optimizer.is_none()) {
      return false;
    }
    walk.optimizer(optimizer);
  }
  return sink.isSame();
}

void addRates(const py::handle &options, RateGroup &group) {
  eachEntry(options.ptr(), [&](PyObject *key, PyObject *value) {
    if (PyFloat_CheckExact(value)) {
      addRate(py::cast<std::string>(py::handle(key)), value, group);
    } else if (PyTuple_Check(value)) {
      const std::string name = py::cast<std::string>(py::handle(key));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
        addRate(name + "[" + std::to_string(i) + "]", PyTuple_GET_ITEM(value, i), group);
      }
    }
  });
}

std::vector<RateGroup> NumberSources::read() const {
  std::vector<RateGroup> groups;
  for (const auto &[options, counters, advances, rectifies, products] : groups_) {
    addRates(options, groups.emplace_back(RateGroup{{}, counters, advances, rectifies, products}));
  }
  return groups;
}

NumberSources::Form NumberSources::formOf(const py::dict &options) {
  Form form;
  eachEntry(options.ptr(), [&](PyObject *key, PyObject *value) {
    if (PyFloat_CheckExact(value) || PyTuple_Check(value)) {
      form.emplace_back(py::reinterpret_borrow<py::object>(key), py::reinterpret_borrow<py::object>(value));
    }
  });
  return form;
}

bool NumberSources::refresh(const std::vector<Form> &forms, std::vector<RateGroup> &groups) const {
  bool isSame = true;
  for (size_t i = 0; i < groups_.size() && isSame; ++i) {
    size_t entry = 0, rate = 0;
    auto set = [&](PyObject *value, PyObject *then) {
      isSame = isSame && PyFloat_CheckExact(value) == PyFloat_CheckExact(then);
      if (isSame && PyFloat_CheckExact(value)) {
        groups[i].rates[rate++].second = PyFloat_AS_DOUBLE(value);
      }
    };
    eachEntry(std::get<0>(groups_[i]).ptr(), [&](PyObject *key, PyObject *value) {
      if (!isSame || (!PyFloat_CheckExact(value) && !PyTuple_Check(value))) {
        return;
      }
      isSame = entry < forms[i].size() && forms[i][entry].first.is(py::handle(key));
      PyObject *then = isSame ? forms[i][entry++].second.ptr() : nullptr;
      if (isSame && PyTuple_Check(value)) {
        isSame = PyTuple_Check(then) && PyTuple_GET_SIZE(value) == PyTuple_GET_SIZE(then);
        for (Py_ssize_t at = 0; isSame && at < PyTuple_GET_SIZE(value); ++at) {
          set(PyTuple_GET_ITEM(value, at), PyTuple_GET_ITEM(then, at));
        }
      } else if (isSame) {
        set(value, then);
      }
    });
    isSame = isSame && entry == forms[i].size();
  }
  return isSame;
}

std::vector<NumberSources::Form> NumberSources::forms() const {
  std::vector<Form> forms;
  for (const Group &group : groups_) {
    forms.push_back(formOf(std::get<0>(group)));
  }
  return forms;
}

std::pair<std::vector<double>, std::vector<double>> NumberSources::numbers(const std::vector<double> &floats,
                                                                           bool afterCall) const {
  const std::vector<RateGroup> groups = read();
  std::vector<double> base = floats;
  for (const RateGroup &group : groups) {
    for (const auto &[name, value] : group.rates) {
      base.push_back(value);
    }
  }
  return {std::move(base), computedNumbers(floats, groups, afterCall)};
}

} // namespace sojourn::frontend
