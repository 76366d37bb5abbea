// SPDX-License-Identifier: Apache-2.0
// Names of element types, and the error type's text.
#include "runtime/Error.h"
#include "runtime/Tensor.h"
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

llvm::StringRef elementName(Element element) {
  static constexpr const char *names[kElementCount] = {"i1",  "u8",   "i8",  "i16", "i32", "i64",
                                                       "f16", "bf16", "f32", "f64", "c64", "c128"};
  return names[static_cast<unsigned>(element)];
}

} // namespace sojourn::runtime
