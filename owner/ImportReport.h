// SPDX-License-Identifier: Apache-2.0
// What the process of an import tells of the table that it wrote, as text.
#ifndef SOJOURN_OWNER_IMPORTREPORT_H
#define SOJOURN_OWNER_IMPORTREPORT_H

#include "owner/Catalogue.h"

namespace sojourn::owner {

/// Rows, hash, columns, and whether subjects were sealed.
std::string importReport(const DatasetRecord &record);

/// Enters these into the record of the parent. The process has read an untrusted file, so all of it is checked.
llvm::Error readReport(llvm::StringRef report, DatasetRecord &record);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_IMPORTREPORT_H
