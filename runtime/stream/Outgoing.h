// SPDX-License-Identifier: Apache-2.0
// A frame on its way out, in as many pieces as its stream takes.
#ifndef SOJOURN_RUNTIME_STREAM_OUTGOING_H
#define SOJOURN_RUNTIME_STREAM_OUTGOING_H

#include "runtime/stream/Frame.h"

#include <nng/nng.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace sojourn::stream {

/// Of one transfer: nng counts in an int.
inline constexpr size_t kTransferBytes = size_t{16} << 20;

/// Refers to a message that is large, and copies a small one behind its head: one piece for the kernel and for TLS.
/// Fields that come before the message are copied.
class Outgoing {
public:
  /// `head.bytes` becomes that of the message.
  void begin(const FrameHead &head, std::string_view message) { begin(head, {}, message); }
  /// That of both. At most `kFieldsMost` bytes of fields.
  void begin(FrameHead head, std::string_view fields, std::string_view message) {
    head.bytes = fields.size() + message.size();
    std::memcpy(buffer_.data(), &head, sizeof head);
    std::copy(fields.begin(), fields.end(), reinterpret_cast<char *>(buffer_.data()) + sizeof head);
    const size_t fixed = sizeof head + fields.size();
    size_ = fixed + message.size();
    sent_ = 0;
    isCopied_ = size_ <= buffer_.size();
    message_ = isCopied_ ? std::string_view() : message;
    inBuffer_ = isCopied_ ? size_ : fixed;
    if (isCopied_) {
      std::copy(message.begin(), message.end(), reinterpret_cast<char *>(buffer_.data()) + fixed);
    }
  }
  static constexpr size_t kFieldsMost = 256;
  /// Whether the message was copied.
  bool isCopied() const { return isCopied_; }
  bool isOver() const { return sent_ == size_; }
  /// Bytes of the message, for texts.
  size_t messageBytes() const { return size_ - sizeof(FrameHead); }
  void sent(size_t bytes) { sent_ += bytes; }

  /// Has `aio` send what is left, or a part of it.
  void send(nng_stream *stream, nng_aio *aio) {
    std::array<nng_iov, 2> pieces{};
    unsigned count = 0;
    if (sent_ < inBuffer_) {
      pieces[count++] = {buffer_.data() + sent_, inBuffer_ - sent_};
    }
    if (const size_t at = std::max(sent_, inBuffer_); at < size_) {
      // nng does not write to it.
      pieces[count++] = {const_cast<char *>(message_.data()) + (at - inBuffer_), std::min(size_ - at, kTransferBytes)};
    }
    nng_aio_set_iov(aio, count, pieces.data());
    nng_stream_send(stream, aio);
  }

private:
  std::array<std::byte, 4096> buffer_{};
  std::string_view message_;
  size_t size_ = 0, sent_ = 0, inBuffer_ = 0;
  bool isCopied_ = false;
};

} // namespace sojourn::stream

#endif // SOJOURN_RUNTIME_STREAM_OUTGOING_H
