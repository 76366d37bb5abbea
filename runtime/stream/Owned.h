// SPDX-License-Identifier: Apache-2.0
// A stream of nng's that is closed unless it is released.
#ifndef SOJOURN_RUNTIME_STREAM_OWNED_H
#define SOJOURN_RUNTIME_STREAM_OWNED_H

#include <nng/nng.h>

#include <memory>

namespace sojourn::stream {

struct Closing {
  void operator()(nng_stream *stream) const {
    nng_stream_close(stream);
    nng_stream_free(stream);
  }
};
using OwnedStream = std::unique_ptr<nng_stream, Closing>;

} // namespace sojourn::stream

#endif // SOJOURN_RUNTIME_STREAM_OWNED_H
