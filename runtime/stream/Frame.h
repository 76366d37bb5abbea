// SPDX-License-Identifier: Apache-2.0
// How messages follow one another on a stream of bytes: a head of 32 bytes, then the message.
#ifndef SOJOURN_RUNTIME_STREAM_FRAME_H
#define SOJOURN_RUNTIME_STREAM_FRAME_H

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sojourn::stream {

static_assert(std::endian::native == std::endian::little, "heads are sent as they lie in memory");

enum class FrameKind : uint32_t {
  message = 0,
  /// Over TLS, the first frame of a connection: asks for the owner's certificate and the signature that vouches for it
  /// (runtime/signing/Introduction.h), which are the reply; then the connection closes.
  introduction = 1,
  /// Between two owners: a frame of a group (owner/peers/FrameBytes.h), or nothing as a sign of life.
  peer = 2
};

/// Little-endian. A message begins at a multiple of 16 bytes where its head does, so that its uploads can be read where
/// they lie (wire::kUploadAlignment).
struct FrameHead {
  static constexpr std::array<char, 4> kMagic = {'S', 'J', 'N', '1'};

  std::array<char, 4> magic = kMagic;
  FrameKind kind = FrameKind::message;
  /// Of a request: the session that it is of, whose share its bytes count for; 0: none yet.
  uint64_t session = 0;
  uint64_t bytes = 0; ///< of the message that follows
  uint64_t reserved = 0;

  static FrameHead read(const std::byte *bytes) {
    FrameHead head;
    std::memcpy(&head, bytes, sizeof head);
    return head;
  }
  /// Whether a client or server of this version can have sent it, or another owner on a link.
  bool isValid() const { return isOurs() && (kind == FrameKind::message || kind == FrameKind::introduction); }
  bool isPeer() const { return isOurs() && kind == FrameKind::peer; }

private:
  bool isOurs() const { return magic == kMagic && reserved == 0; }
};
static_assert(sizeof(FrameHead) == 32);

/// Of a message without a session, and of a reply to a request for the certificate.
inline constexpr size_t kSmallBytes = size_t{64} << 10;

} // namespace sojourn::stream

#endif // SOJOURN_RUNTIME_STREAM_FRAME_H
