// SPDX-License-Identifier: Apache-2.0
// See ReadyCall.h. The comparisons are those of sojourn/replay.py: `key_of`, `_Plan.matches`,
// `Replay._cannot`.
#include "frontend/bind/ReadyCall.h"

#include "frontend/flight/Flights.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cmath>

namespace py = pybind11;

namespace sojourn::frontend {

namespace {

bool isSame(const py::handle &a, const py::handle &b) { return a.is(b) || a.equal(b); }

bool areSame(const std::vector<py::object> &a, const std::vector<py::object> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), isSame);
}

/// Names of a table's columns that a tensor carries, or None.
py::object columnsOf(const py::handle &tensor) {
  static PyObject *name = PyUnicode_InternFromString("_sojourn_columns");
  PyObject **dict = _PyObject_GetDictPtr(tensor.ptr());
  PyObject *columns = dict && *dict ? PyDict_GetItemWithError(*dict, name) : nullptr;
  return columns ? py::reinterpret_borrow<py::object>(columns) : py::none();
}

/// Modes of torch's functions that are open: of `with torch.device(...)` the device, others themselves.
std::vector<py::object> functionModes() {
  static PyObject *ofDevice =
      py::object(py::module_::import("torch.utils._device").attr("DeviceContext")).release().ptr();
  std::vector<py::object> modes;
  for (int64_t at = 0; at < at::impl::PythonTorchFunctionTLS::stack_len(); ++at) {
    const py::handle mode = at::impl::PythonTorchFunctionTLS::get_stack_at(at)->ptr(getPyInterpreter());
    const bool isDevice = py::isinstance(mode, py::handle(ofDevice));
    modes.push_back(isDevice ? py::object(mode.attr("device")) : py::reinterpret_borrow<py::object>(mode));
  }
  return modes;
}

bool isConstant(const py::handle &value) {
  return PyLong_CheckExact(value.ptr()) || PyBool_Check(value.ptr()) || PyUnicode_CheckExact(value.ptr()) ||
         PyBytes_CheckExact(value.ptr()) || value.is_none();
}

bool isPlainTensor(const py::handle &value) {
  return THPVariable_CheckExact(value.ptr()) &&
         Py_TYPE(value.ptr()) == reinterpret_cast<PyTypeObject *>(THPVariableClass) &&
         !THPVariable_Unpack(value.ptr()).requires_grad();
}

} // namespace

Surroundings Surroundings::now() {
  const bool isAutocast = at::autocast::is_autocast_enabled(at::kPrivateUse1);
  return {c10::get_default_dtype_as_scalartype(),
          isAutocast ? at::autocast::get_autocast_dtype(at::kPrivateUse1) : at::ScalarType::Undefined,
          c10::GradMode::is_enabled(), c10::InferenceMode::is_enabled(), isAutocast};
}

bool ReadyCall::canTake(const py::tuple &arguments) {
  return std::all_of(arguments.begin(), arguments.end(), [](const py::handle &argument) {
    return isPlainTensor(argument) || PyFloat_CheckExact(argument.ptr()) || isConstant(argument);
  });
}

ReadyCall::ReadyCall(Plan plan, const py::tuple &arguments)
    : plan_(std::move(plan)), surroundings_(Surroundings::now()), modes_(functionModes()),
      rateForms_(plan_.sources.forms()), groups_(plan_.sources.read()) {
  for (const py::handle &argument : arguments) {
    Form &form = forms_.emplace_back(formOf(argument));
    form.isFree = plan_.isFree[forms_.size() - 1];
  }
}

ReadyCall::Form ReadyCall::formOf(const py::handle &argument) {
  Form form;
  if (THPVariable_Check(argument.ptr())) {
    form.tensor.emplace(THPVariable_Unpack(argument.ptr()));
    form.columns = columnsOf(argument);
  } else if (PyFloat_CheckExact(argument.ptr())) {
    const double value = PyFloat_AS_DOUBLE(argument.ptr());
    form.isFloat = true;
    form.isZero = value == 0;
    form.isOne = value == 1;
    form.isNegative = value < 0;
    form.isFinite = std::isfinite(value);
  } else {
    form.value = py::reinterpret_borrow<py::object>(argument);
  }
  return form;
}

bool ReadyCall::fits(const Form &form, const py::handle &argument) {
  if (form.tensor) {
    return isPlainTensor(argument) && form.tensor->fits(THPVariable_Unpack(argument.ptr())) &&
           isSame(columnsOf(argument), form.columns);
  }
  if (form.isFloat) {
    if (!PyFloat_CheckExact(argument.ptr())) {
      return false;
    }
    const double value = PyFloat_AS_DOUBLE(argument.ptr());
    return form.isZero == (value == 0) && form.isOne == (value == 1) && form.isNegative == (value < 0) &&
           form.isFinite == std::isfinite(value);
  }
  return Py_TYPE(argument.ptr()) == Py_TYPE(form.value.ptr()) && (form.isFree || isSame(argument, form.value));
}

bool ReadyCall::addComputed(const py::tuple &arguments, std::vector<double> &floats) const {
  if (plan_.computed.is_none()) {
    return true;
  }
  py::list integers, given;
  for (size_t i = 0; i < forms_.size(); ++i) {
    if (forms_[i].isFree) {
      integers.append(arguments[i]);
    } else if (forms_[i].isFloat) {
      given.append(arguments[i]);
    }
  }
  const py::object computed = plan_.computed(integers, given);
  if (computed.is_none()) {
    return false;
  }
  for (const py::handle &number : computed) {
    floats.push_back(number.cast<double>());
  }
  return true;
}

std::shared_ptr<RepeatedCall> ReadyCall::repeat(const py::tuple &arguments) {
  if (Steps::active() || arguments.size() != forms_.size() || Surroundings::now() != surroundings_ ||
      !areSame(functionModes(), modes_)) {
    return nullptr;
  }
  std::vector<double> floats;
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < forms_.size(); ++i) {
    const py::handle argument = PyTuple_GET_ITEM(arguments.ptr(), static_cast<Py_ssize_t>(i));
    if (!fits(forms_[i], argument)) {
      return nullptr;
    }
    if (forms_[i].tensor) {
      tensors.push_back(THPVariable_Unpack(argument.ptr()));
    } else if (forms_[i].isFloat) {
      floats.push_back(PyFloat_AS_DOUBLE(argument.ptr()));
    }
  }
  if (!addComputed(arguments, floats) || !plan_.structure.holds(plan_.modules, plan_.optimizers) ||
      !plan_.watched->isAt(plan_.places) || !plan_.sources.refresh(rateForms_, groups_)) {
    return nullptr;
  }
  size_t at = 0;
  auto mayBe = [&](double now) {
    const bool may = at < plan_.base.size() && (now == plan_.base[at] || plan_.mayVary[at]);
    ++at;
    return may;
  };
  if (!std::all_of(floats.begin(), floats.end(), mayBe)) {
    return nullptr;
  }
  for (const RateGroup &group : groups_) {
    for (const auto &[name, rate] : group.rates) {
      if (!mayBe(rate)) {
        return nullptr;
      }
    }
  }
  const std::vector<double> values = computedNumbers(floats, groups_, /*afterCall=*/false);
  auto entry = std::make_shared<CallEntry>(std::move(tensors), plan_.watched);
  if (at != plan_.base.size() || std::any_of(values.begin(), values.end(), [](double v) { return std::isnan(v); }) ||
      !plan_.call->fits(*entry) || !plan_.call->determines(values)) {
    return nullptr;
  }
  return replayStep(*plan_.call, entry, values, plan_.host);
}

std::shared_ptr<RepeatedCall> replayStep(const CapturedCall &call, const std::shared_ptr<const CallEntry> &entry,
                                         const std::vector<double> &values, const HostNumbers &host) {
  std::shared_ptr<RepeatedCall> made = call.repeatInStep(entry, values, [] {
    py::gil_scoped_release unlock; // other threads run while the owner answers
    endStep();
  });
  made->settle();
  host.advance(values);
  return made;
}

} // namespace sojourn::frontend
