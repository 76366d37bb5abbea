// SPDX-License-Identifier: Apache-2.0
// BLAKE2b by libsodium (see Hash.h).
#include "runtime/Hash.h"
#include <sodium.h>

namespace sojourn::runtime {

ProgramHash hashProgram(llvm::StringRef bytes) {
  ProgramHash hash;
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char *>(bytes.data()), bytes.size(),
                     nullptr, 0);
  return hash;
}

std::string toHex(const ProgramHash &hash) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : hash) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

} // namespace sojourn::runtime
