// SPDX-License-Identifier: Apache-2.0
#ifndef SOJOURN_FRONTEND_FLIGHT_BORROW_H
#define SOJOURN_FRONTEND_FLIGHT_BORROW_H

#include "frontend/session/Session.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace sojourn::frontend {

/// Tensors of members as ones of their group, each at its member; later writes to one of both do not show in the other.
/// Undefined where the owner is no member. Of each member's tensors one request goes to each member; outside of steps
/// pending values are sent first. Throws Error for a value that is still to be computed within a step, Refused for one
/// of private tables.
std::vector<at::Tensor> borrowed(const std::vector<at::Tensor> &tensors, const std::shared_ptr<Session> &group);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_FLIGHT_BORROW_H
