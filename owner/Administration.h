// SPDX-License-Identifier: Apache-2.0
// What the data owner sees in a terminal: tables of datasets and programs, import progress.
#ifndef SOJOURN_OWNER_ADMINISTRATION_H
#define SOJOURN_OWNER_ADMINISTRATION_H

#include "owner/Owner.h"
#include "owner/ServeSettings.h"
#include "owner/Server.h"

#include "llvm/Support/raw_ostream.h"

namespace sojourn::owner {

/// Every dataset with its columns, aligned.
void printDatasets(llvm::ArrayRef<DatasetRecord> records, llvm::raw_ostream &out);

/// Who has access to a dataset beside the data owner's own process.
void printAccess(const DatasetRecord &record, llvm::raw_ostream &out);

/// One line per program, newest last; of those on private tables also where rows meet, sensitivity and noise. Programs
/// of clients without an identity stand apart.
void printPrograms(llvm::ArrayRef<ProgramRecord> records, const LoggedBefore &before, llvm::raw_ostream &out);
/// The same of a file that `Owner::archivePrograms` wrote.
void printArchive(llvm::ArrayRef<ProgramRecord> records, const std::string &path, llvm::raw_ostream &out);

/// The text of the programs whose hash starts with `prefix`. Fails unless all are one program.
llvm::Error printProgramText(llvm::ArrayRef<ProgramRecord> records, llvm::StringRef prefix, llvm::raw_ostream &out);

/// Clients and their public keys.
llvm::Error printClients(Owner &owner, llvm::raw_ostream &out);

/// Caps and grants with what is left of them; of one dataset, or of all if `dataset` is empty.
llvm::Error printBudgets(Owner &owner, const std::string &dataset, llvm::raw_ostream &out);

/// The newest `limit` entries of the ledger, newest last; of one client where named.
llvm::Error printLedger(Owner &owner, size_t limit, const std::string &client, llvm::raw_ostream &out);

/// Checks the whole ledger; fails with the first thing that is wrong.
llvm::Error verifyLedger(Owner &owner, llvm::raw_ostream &out);

/// One line that is rewritten as an import proceeds; silent where nobody watches.
std::function<void(const std::string &, int64_t, int64_t)> progressLine();

/// Serves until SIGINT or SIGTERM and prints `listening on ADDRESS` once it is ready. `store`: its folder.
llvm::Error serveUntilSignal(Owner &owner, const ServeSettings &settings, const std::string &store,
                             llvm::raw_ostream &out);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_ADMINISTRATION_H
