// SPDX-License-Identifier: Apache-2.0
// Tables at an owner.
#pragma once

#include "frontend/Client.h"
#include "frontend/Session.h"
#include "frontend/Table.h"

namespace sojourn::frontend {

Table remoteTable(const std::shared_ptr<Session> &session, const DatasetInfo &info);
/// Asks the owner for its datasets. Throws Error with the names there are.
Table remoteTable(const std::shared_ptr<Session> &session, const std::string &name);

} // namespace sojourn::frontend
