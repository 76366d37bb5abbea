// SPDX-License-Identifier: Apache-2.0
#include "frontend/flight/ReadListener.h"

#include <utility>

namespace sojourn::frontend {

static ReadListener &listener() {
  static ReadListener set{[](bool) {}, [](bool) {}, [](const std::function<void()> &trip) { trip(); }};
  return set;
}

void setReadListener(ReadListener with) { listener() = std::move(with); }
const ReadListener &readListener() { return listener(); }

} // namespace sojourn::frontend
