// SPDX-License-Identifier: Apache-2.0
// Tables at an owner.
#ifndef SOJOURN_FRONTEND_TABLES_ROWS_H
#define SOJOURN_FRONTEND_TABLES_ROWS_H

#include "frontend/wire/Client.h"
#include "frontend/session/Session.h"
#include "frontend/tables/Table.h"

namespace sojourn::frontend {

/// For messages that a served owner shows no dataset of this name: it may be one without access. Empty of an embedded
/// owner.
std::string accessHint(const Session &session, const std::string &name);

/// Records what is asked of the dataset's rows in the session's open trace. `role`: whose dataset it is in a step of
/// several owners; -1: of a single owner.
std::shared_ptr<RowReader> remoteRows(const std::shared_ptr<Session> &session, const DatasetInfo &info,
                                      int64_t role = -1);

Dataset describe(const DatasetInfo &info);
Table remoteTable(const std::shared_ptr<Session> &session, const DatasetInfo &info);
/// Asks the owner for its datasets. Throws Error with the names there are.
Table remoteTable(const std::shared_ptr<Session> &session, const std::string &name);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_TABLES_ROWS_H
