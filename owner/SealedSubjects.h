// SPDX-License-Identifier: Apache-2.0
// Subjects at rest: sealed with a key of the store, beside the rows that they are of.
#ifndef SOJOURN_OWNER_SEALEDSUBJECTS_H
#define SOJOURN_OWNER_SEALEDSUBJECTS_H

#include "owner/Subject.h"
#include "runtime/signing/KeyFile.h"

#include <string>
#include <vector>

namespace sojourn::owner {

/// The key of a store in the file `path`, of mode 0600. `make`: at the first use, else it has to be there.
llvm::Expected<signing::KeyBytes> subjectsKey(const std::string &path, bool make);

/// One box for a whole table: a head, a fresh nonce, and all subjects encrypted and authenticated together with the
/// version of their dataset, so that no row, and no other table's box, can be put in their place.
std::vector<char> sealSubjects(const Subjects &subjects, const std::string &version, const signing::KeyBytes &key);

/// What was sealed; fails where a byte, the key, the version or the number of rows is another. Takes the box apart
/// where it lies. `whose` begins the error: "the subjects of dataset 'a' ('FILE')".
llvm::Expected<Subjects> openSealed(std::vector<char> sealed, const std::string &version, int64_t rows,
                                    const signing::KeyBytes &key, const std::string &whose);

/// A new file of mode 0600, written beside and renamed.
llvm::Error writeSealed(const std::vector<char> &sealed, const std::string &path);
llvm::Expected<std::vector<char>> readSealed(const std::string &path, const std::string &whose);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_SEALEDSUBJECTS_H
