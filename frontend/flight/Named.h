// SPDX-License-Identifier: Apache-2.0
// Values with names: they stay at their owner when the session ends, and another session of the client takes them up.
#ifndef SOJOURN_FRONTEND_FLIGHT_NAMED_H
#define SOJOURN_FRONTEND_FLIGHT_NAMED_H

#include "frontend/session/Session.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sojourn::frontend {

/// Names remote tensors of one owner in one request, once their values are computed. Throws Error within a step, for a
/// view, for tensors of several owners or of a group; what the owner refuses is thrown, too.
void nameValues(const std::vector<std::pair<std::string, at::Tensor>> &values, const std::vector<std::string> &tags);
std::vector<NamedValueInfo> namedValues(const std::shared_ptr<Session> &session, const std::string &tag);
/// The values as tensors of the session, in one request. Throws Error within a step and for unknown names.
std::vector<at::Tensor> takeValues(const std::shared_ptr<Session> &session, const std::vector<std::string> &names);
void releaseNames(const std::shared_ptr<Session> &session, const std::vector<std::string> &names);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_FLIGHT_NAMED_H
