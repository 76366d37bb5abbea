// SPDX-License-Identifier: Apache-2.0
// What the data owner sees in a terminal: tables of datasets and programs, import progress.
#ifndef SOJOURN_OWNER_ADMINISTRATION_H
#define SOJOURN_OWNER_ADMINISTRATION_H

#include "owner/Owner.h"
#include "owner/Server.h"

#include "llvm/Support/raw_ostream.h"

namespace sojourn::owner {

/// Every dataset with its columns, aligned.
void printDatasets(llvm::ArrayRef<DatasetRecord> records, llvm::raw_ostream &out);

/// One line per program, newest last.
void printPrograms(llvm::ArrayRef<ProgramRecord> records, llvm::raw_ostream &out);

/// The text of the programs whose hash starts with `prefix`. Fails unless all are one program.
llvm::Error printProgramText(llvm::ArrayRef<ProgramRecord> records, llvm::StringRef prefix, llvm::raw_ostream &out);

/// One line that is rewritten as an import proceeds; silent where nobody watches.
std::function<void(const std::string &, int64_t, int64_t)> progressLine();

/// Serves until SIGINT or SIGTERM and prints `listening on ADDRESS` once it is ready.
llvm::Error serveUntilSignal(Owner &owner, const ServerOptions &options, llvm::raw_ostream &out);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_ADMINISTRATION_H
