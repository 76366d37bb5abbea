// SPDX-License-Identifier: Apache-2.0
// Making llvm::Error values with a message.
#ifndef SOJOURN_OWNER_ERROR_H
#define SOJOURN_OWNER_ERROR_H

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

namespace sojourn::owner {

inline llvm::Error failure(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_ERROR_H
