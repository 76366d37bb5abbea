// SPDX-License-Identifier: Apache-2.0
// Errors of all layers brought to the codes of the wire.
#include "owner/RequestError.h"

#include "runtime/Error.h"

#include "llvm/Support/ConvertUTF.h"

namespace sojourn::owner {

char RequestError::ID = 0;

RequestError takeRequestError(llvm::Error error) {
  RequestError result(wire::ErrorCode_Internal, "");
  llvm::handleAllErrors(
      std::move(error), [&](const RequestError &found) { result = found; },
      [&](const runtime::ProgramError &found) {
        result = RequestError(static_cast<wire::ErrorCode>(found.code()), found.text(), found.op(),
                              found.location());
      },
      [&](const llvm::ErrorInfoBase &found) {
        result = RequestError(wire::ErrorCode_Internal, found.message());
      });
  return result;
}

std::string printable(llvm::StringRef text, size_t limit) {
  std::string result;
  auto *at = reinterpret_cast<const llvm::UTF8 *>(text.begin());
  auto *end = reinterpret_cast<const llvm::UTF8 *>(text.end());
  while (at != end) {
    unsigned size = llvm::getNumBytesForUTF8(*at);
    bool legal = size <= static_cast<size_t>(end - at) && llvm::isLegalUTF8Sequence(at, at + size);
    bool control = legal && size == 1 && (*at < 0x20 || *at == 0x7f) && *at != '\n' && *at != '\t';
    if (result.size() + (legal ? size : 1) + 3 > limit) {
      return result + "...";
    }
    if (!legal || control) {
      result += '?';
      ++at;
    } else {
      result.append(reinterpret_cast<const char *>(at), size);
      at += size;
    }
  }
  return result;
}

} // namespace sojourn::owner
