// SPDX-License-Identifier: Apache-2.0
// What modules and optimizers are like, and the numbers in their options, read from their attributes: each replayed
// call asks, so it has to be quick.
#ifndef SOJOURN_FRONTEND_BIND_STRUCTURE_H
#define SOJOURN_FRONTEND_BIND_STRUCTURE_H

#include "frontend/replay/Rates.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sojourn::frontend {

/// An attribute; throws what Python raises.
pybind11::object attribute(const pybind11::handle &object, PyObject *name);

/// Modes, options, hooks and the objects in their places; numbers by whether they are 0 only.
class [[gnu::visibility("hidden")]] Structure {
public:
  Structure(const pybind11::list &modules, const pybind11::list &optimizers);
  bool equals(const Structure &other) const;
  /// Whether these modules and optimizers are like that now; weak references, none of which may have died.
  bool holds(const std::vector<pybind11::object> &modules, const std::vector<pybind11::object> &optimizers) const;

private:
  class Noting;
  class Comparing;

  std::vector<uintptr_t> words_; ///< objects by their address
  std::vector<pybind11::object> options_;
};

/// Names and values of the float hyper-parameters of an optimizer's group (its dict); those of tuples as "betas[0]".
void addRates(const pybind11::handle &options, RateGroup &group);

/// Where the numbers of a call may come from: float arguments, and groups of optimizers as they are when it is asked.
class [[gnu::visibility("hidden")]] NumberSources {
public:
  /// A group (its dict), and what RateGroup says of it: counters, whether a call advances them, whether it rectifies,
  /// products.
  using Group = std::tuple<pybind11::dict, std::vector<at::Tensor>, bool, bool, std::vector<at::Tensor>>;
  explicit NumberSources(std::vector<Group> groups) : groups_(std::move(groups)) {}

  std::vector<RateGroup> read() const;
  /// Which options of a group give rates, and what they were.
  using Form = std::vector<std::pair<pybind11::object, pybind11::object>>;
  std::vector<Form> forms() const;
  /// Sets the rates of what `read` gave when `forms` were the options to those of now. False where others give rates.
  bool refresh(const std::vector<Form> &forms, std::vector<RateGroup> &groups) const;
  /// Base numbers (float arguments, rates), and all that follows from them.
  std::pair<std::vector<double>, std::vector<double>> numbers(const std::vector<double> &floats, bool afterCall) const;

private:
  static Form formOf(const pybind11::dict &options);
  std::vector<Group> groups_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_BIND_STRUCTURE_H
