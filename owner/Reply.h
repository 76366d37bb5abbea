// SPDX-License-Identifier: Apache-2.0
// Replies as bytes.
#ifndef SOJOURN_OWNER_REPLY_H
#define SOJOURN_OWNER_REPLY_H

#include "owner/Catalogue.h"
#include "owner/RequestError.h"
#include "runtime/Execute.h"

#include <string>
#include <vector>

namespace sojourn::owner {

std::string errorReply(const RequestError &error);
std::string welcomeReply(uint64_t session, const std::string &limitsText);
std::string datasetsReply(const std::vector<DatasetRecord> &records);
std::string programsReply(const std::vector<ProgramRecord> &records, bool withText);
std::string needProgramReply();
std::string receivedReply(size_t bytes);
std::string committedReply();
std::string doneReply(llvm::ArrayRef<const runtime::HostTensor *> published);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_REPLY_H
