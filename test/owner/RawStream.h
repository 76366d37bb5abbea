// SPDX-License-Identifier: Apache-2.0
// Bytes on a stream of nng's, sent and received by tests.
#ifndef SOJOURN_TEST_OWNER_RAWSTREAM_H
#define SOJOURN_TEST_OWNER_RAWSTREAM_H

#include "runtime/stream/Owned.h"

#include <gtest/gtest.h>
#include <nng/nng.h>
#include <string>
#include <string_view>

namespace sojourn::owner::test {

/// Sends bytes, and closes.
inline void sendRaw(stream::OwnedStream stream, std::string_view bytes) {
  nng_aio *aio = nullptr;
  ASSERT_EQ(nng_aio_alloc(&aio, nullptr, nullptr), 0);
  for (size_t at = 0; at < bytes.size();) {
    nng_iov part{const_cast<char *>(bytes.data()) + at, bytes.size() - at};
    nng_aio_set_iov(aio, 1, &part);
    nng_stream_send(stream.get(), aio);
    nng_aio_wait(aio);
    if (nng_aio_result(aio) != 0) { // the other side has closed
      break;
    }
    at += nng_aio_count(aio);
  }
  nng_aio_free(aio);
}

/// Of the stream, exactly so many.
inline std::string receiveBytes(nng_stream *stream, size_t count) {
  nng_aio *aio = nullptr;
  EXPECT_EQ(nng_aio_alloc(&aio, nullptr, nullptr), 0);
  std::string bytes(count, '\0');
  for (size_t at = 0; at < count;) {
    nng_iov part{bytes.data() + at, count - at};
    nng_aio_set_iov(aio, 1, &part);
    nng_stream_recv(stream, aio);
    nng_aio_wait(aio);
    if (nng_aio_result(aio) != 0) {
      ADD_FAILURE() << "the link ended";
      break;
    }
    at += nng_aio_count(aio);
  }
  nng_aio_free(aio);
  return bytes;
}

} // namespace sojourn::owner::test

#endif // SOJOURN_TEST_OWNER_RAWSTREAM_H
