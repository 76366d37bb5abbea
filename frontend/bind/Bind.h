// SPDX-License-Identifier: Apache-2.0
// Parts of the Python extension, and what they share.
#ifndef SOJOURN_FRONTEND_BIND_BIND_H
#define SOJOURN_FRONTEND_BIND_BIND_H

#include "frontend/Sojourn.h"

#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

namespace sojourn::frontend {

using Ranges = std::map<std::string, std::pair<double, double>>;

void bindGenerator(pybind11::module_ &m);
void bindNumpy(pybind11::module_ &m);
void bindArtifact(pybind11::module_ &m);
void bindParties(pybind11::module_ &m);
void bindPrivacy(pybind11::module_ &m);
void bindForeign(pybind11::module_ &m);
void bindReads(pybind11::module_ &m);
void bindReplay(pybind11::module_ &m);
void bindTable(pybind11::module_ &m);
void bindTrip(pybind11::module_ &m);
void bindUses(pybind11::module_ &m);
void bindValues(pybind11::module_ &m);

/// Calls `follow(committed)`, if it is not None, and lets signals through: where either raises, steps stop.
std::function<bool(uint64_t)> followerOf(const pybind11::object &follow);
/// As a Python exception, or None.
pybind11::object failureOf(const std::exception_ptr &failure);

/// Throws Error for what is not a torch.dtype.
at::ScalarType dtypeOf(const pybind11::handle &dtype);
/// From a path (str) or a dict of CPU tensors.
Source sourceOf(const pybind11::object &source);
/// Categories (a tuple of str or int, or None), unit (a number of Unit), and whether the categories were found.
using PythonMeaning = std::tuple<pybind11::object, uint8_t, bool>;
/// Of the arguments of a registration, which Python has checked.
std::map<std::string, Meaning> meaningsOf(const std::map<std::string, PythonMeaning> &meanings);
/// A tuple of str or int, or None.
pybind11::object categoriesOf(const MeaningPtr &meaning);
using Words = std::map<std::string, std::string>;
using WordPairs = std::map<std::string, std::pair<std::string, std::string>>;

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_BIND_BIND_H
