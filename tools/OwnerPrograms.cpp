// SPDX-License-Identifier: Apache-2.0
// The data owner's command `programs`: what ran, from the log or from an archive.
#include "owner/ProgramArchive.h"
#include "tools/OwnerArguments.h"

namespace sojourn::owner {

static llvm::Error archivePrograms(Owner &owner, const std::string &path) {
  auto moved = owner.archivePrograms(path);
  if (!moved) {
    return moved.takeError();
  }
  standardOutput() << *moved << (*moved == 1 ? " program" : " programs") << " moved to '" << path
                   << "'; 'sojourn-owner programs --from FILE' lists them\n";
  return llvm::Error::success();
}

llvm::Error archivedPrograms(const Arguments &arguments) {
  auto file = ProgramArchive::open(arguments.from, /*create=*/false);
  if (!file) {
    return file.takeError();
  }
  const bool withText = !arguments.text.empty();
  auto records = (*file)->programs(withText, arguments.text);
  if (!records) {
    return records.takeError();
  }
  if (withText) {
    return printProgramText(*records, arguments.text, standardOutput());
  }
  printArchive(*records, arguments.from, standardOutput());
  return llvm::Error::success();
}

llvm::Error programs(Owner &owner, const Arguments &arguments) {
  if (!arguments.archive.empty()) {
    return archivePrograms(owner, arguments.archive);
  }
  const bool withText = !arguments.text.empty();
  auto records = owner.programs(withText, arguments.text);
  if (!records) {
    return records.takeError();
  }
  if (withText) {
    return printProgramText(*records, arguments.text, standardOutput());
  }
  auto before = owner.loggedBefore();
  if (!before) {
    return before.takeError();
  }
  printPrograms(*records, *before, standardOutput());
  return llvm::Error::success();
}

} // namespace sojourn::owner
