// SPDX-License-Identifier: Apache-2.0
// Part of the Python extension: artifacts.
#pragma once

#include <torch/extension.h>

namespace sojourn::frontend {

void bindArtifact(pybind11::module_ &m);

} // namespace sojourn::frontend
