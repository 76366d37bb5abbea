// SPDX-License-Identifier: Apache-2.0
// The folder of a store: its owner's alone, and without what interrupted imports left.
#ifndef SOJOURN_OWNER_STOREFOLDER_H
#define SOJOURN_OWNER_STOREFOLDER_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace sojourn::owner {

/// Makes the folder of a store, with mode 0700 and folders within. One that is there must have that mode: others may
/// rely on theirs, so it is refused and not changed. Files in it that older releases made get mode 0600.
llvm::Error openStoreFolder(const std::string &directory);

/// Of an import under way, by the version of its dataset: a file `datasets/VERSION.importing`, locked by this process
/// until the mark is dropped, which removes it. The kernel gives up the lock when the process ends, however it does.
llvm::Expected<std::shared_ptr<void>> markImport(const std::string &directory, const std::string &version);

/// The files of a dataset, finished or not.
void removeImported(const std::string &directory, const std::string &version);

/// Removes the files of imports whose process has ended, unless the catalogue has the dataset. Imports under way, here
/// or in other processes, go on.
llvm::Error sweepImports(const std::string &directory,
                         llvm::function_ref<llvm::Expected<bool>(const std::string &version)> isEntered);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_STOREFOLDER_H
