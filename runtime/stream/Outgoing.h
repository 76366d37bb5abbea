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
class Outgoing {
public:
  /// `head.bytes` is the message's.
  void begin(FrameHead head, std::string_view message) {
    head.bytes = message.size();
    std::memcpy(buffer_.data(), &head, sizeof head);
    size_ = sizeof head + message.size();
    sent_ = 0;
    isCopied_ = size_ <= buffer_.size();
    message_ = isCopied_ ? std::string_view() : message;
    if (isCopied_) {
      std::memcpy(buffer_.data() + sizeof head, message.data(), message.size());
    }
  }
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
    const size_t inBuffer = isCopied_ ? size_ : sizeof(FrameHead);
    if (sent_ < inBuffer) {
      pieces[count++] = {buffer_.data() + sent_, inBuffer - sent_};
    }
    if (const size_t at = std::max(sent_, inBuffer); at < size_) {
      // nng does not write to it.
      pieces[count++] = {const_cast<char *>(message_.data()) + (at - inBuffer), std::min(size_ - at, kTransferBytes)};
    }
    nng_aio_set_iov(aio, count, pieces.data());
    nng_stream_send(stream, aio);
  }

private:
  std::array<std::byte, 4096> buffer_{};
  std::string_view message_;
  size_t size_ = 0, sent_ = 0;
  bool isCopied_ = false;
};

} // namespace sojourn::stream

#endif // SOJOURN_RUNTIME_STREAM_OUTGOING_H
