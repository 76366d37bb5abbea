// SPDX-License-Identifier: Apache-2.0
// The bytes of a finished message, read where they were built or received.
#ifndef SOJOURN_RUNTIME_WIRE_MESSAGE_H
#define SOJOURN_RUNTIME_WIRE_MESSAGE_H

#include <memory>
#include <string>
#include <string_view>

namespace sojourn::wire {

/// Shared by reference: who hands one on copies nothing.
struct Message {
  std::string_view bytes;
  std::shared_ptr<const void> keep; ///< holds `bytes`

  static Message of(std::string text) {
    auto kept = std::make_shared<const std::string>(std::move(text));
    return {*kept, kept};
  }
};

} // namespace sojourn::wire

#endif // SOJOURN_RUNTIME_WIRE_MESSAGE_H
