// SPDX-License-Identifier: Apache-2.0
// The error type's text.
#include "runtime/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace sojourn::runtime {

char ProgramError::ID = 0;

void ProgramError::log(llvm::raw_ostream &stream) const {
  stream << message_;
  if (!op_.empty()) {
    stream << " [op " << op_ << "]";
  }
  if (!location_.empty()) {
    stream << " at " << location_;
  }
}

} // namespace sojourn::runtime
