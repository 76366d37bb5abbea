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

/// A group's tensor as one of a member; later writes to one of both do not show in the other. One that all members have
/// is there already; one of another member is sent to all members, where its tables are shared with them. Throws Error
/// within a step for a value that is not there, Unsupported for rows of several members, Refused where it is not
/// shared.
at::Tensor lent(const at::Tensor &tensor, const std::shared_ptr<Session> &member);

/// A tensor on another device: of a member as one of its group, of a group as one of a member, and of an owner at
/// another one, by the smallest group that both are in. Values do not pass through this process. Undefined where there
/// is no such way. Throws what these two throw.
at::Tensor moved(const at::Tensor &tensor, const std::shared_ptr<Session> &to);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_FLIGHT_BORROW_H
