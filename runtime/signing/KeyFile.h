// SPDX-License-Identifier: Apache-2.0
// Files that hold 32 bytes of a key behind one line that says whose it is: written whole or not at all, never over
// another, and secret ones for the user alone.
#ifndef SOJOURN_RUNTIME_SIGNING_KEYFILE_H
#define SOJOURN_RUNTIME_SIGNING_KEYFILE_H

#include "runtime/signing/Problem.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <sys/stat.h>

namespace sojourn::signing {

/// 32 bytes of a key. Whoever holds secret ones wipes them.
using KeyBytes = std::array<uint8_t, 32>;
KeyBytes newKeyBytes();
bool isFileThere(const std::string &path);

/// Writes a new file. Where one is there already it stays, whoever made it meanwhile; that is a problem unless it may
/// be.
Status makeKeyFile(const std::string &path, std::string_view firstLine, const KeyBytes &key, mode_t mode,
                   bool mayBeThere);
/// Fails where the file cannot be read; `isGood`: it holds the line and a key, and nothing else.
Status readKeyFile(const std::string &path, std::string_view firstLine, KeyBytes &key, struct stat &facts,
                   bool &isGood);
/// A secret key's, which nobody else may read. `name` and `wayOut` are for errors: "an owner's key".
Result<KeyBytes> readSecretKey(const std::string &path, std::string_view firstLine, const std::string &name,
                               const std::string &wayOut);

} // namespace sojourn::signing

#endif // SOJOURN_RUNTIME_SIGNING_KEYFILE_H
