// SPDX-License-Identifier: Apache-2.0
// Recorded messages: what several clients sent, in order. Any bytes are such a recording.
#ifndef SOJOURN_TEST_FUZZ_TRAFFIC_H
#define SOJOURN_TEST_FUZZ_TRAFFIC_H

#include "runtime/wire/Messages_generated.h"
#include "test/fuzz/Frame.h"

#include <vector>

namespace sojourn::fuzz {

struct Sent {
  static constexpr uint8_t kAsItIs = 1;     ///< session, number and hash stay as they are
  static constexpr uint8_t kAfterPause = 2; ///< so late that sessions of closed connections have ended

  uint8_t client = 0; ///< modulo the number of clients
  uint8_t flags = 0;
  std::string bytes;
};

inline std::vector<Sent> readTraffic(std::string_view input, size_t most) {
  std::vector<Sent> traffic;
  while (input.size() > 2 && traffic.size() < most) {
    Sent sent{static_cast<uint8_t>(input[0]), static_cast<uint8_t>(input[1]), ""};
    input.remove_prefix(2);
    sent.bytes = takeFrame(input);
    traffic.push_back(std::move(sent));
  }
  return traffic;
}

inline std::string writeTraffic(const std::vector<Sent> &traffic) {
  std::string bytes;
  for (const Sent &sent : traffic) {
    bytes += static_cast<char>(sent.client);
    bytes += static_cast<char>(sent.flags);
    bytes += lengthBytes(sent.bytes.size()) + sent.bytes;
  }
  return bytes;
}

/// The request in these bytes; null where they are none, and where it has no body: FlatBuffers' verifier lets that
/// pass.
inline const sojourn_wire::Request *requestIn(std::string_view bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size(), 16, 1u << 17);
  if (!verifier.VerifyBuffer<sojourn_wire::Request>(sojourn_wire::RequestIdentifier())) {
    return nullptr;
  }
  const auto *request = flatbuffers::GetRoot<sojourn_wire::Request>(bytes.data());
  return request->body() != nullptr ? request : nullptr;
}

} // namespace sojourn::fuzz

#endif // SOJOURN_TEST_FUZZ_TRAFFIC_H
