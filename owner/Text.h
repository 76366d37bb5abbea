// SPDX-License-Identifier: Apache-2.0
// Texts that are safe to show, and numbers as people write them.
#ifndef SOJOURN_OWNER_TEXT_H
#define SOJOURN_OWNER_TEXT_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace sojourn::owner {

/// Text from outside made safe to show and to store: valid UTF-8 without control characters, cut
/// at `limit` bytes. A name is one line.
std::string printable(llvm::StringRef text, size_t limit);
std::string printableName(llvm::StringRef text);

/// A number in at most ten digits.
std::string numberText(double value);

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_TEXT_H
