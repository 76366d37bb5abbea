// SPDX-License-Identifier: Apache-2.0
// What dialers of both kinds, clients and other owners, ask of nng.
#ifndef SOJOURN_RUNTIME_STREAM_DIAL_H
#define SOJOURN_RUNTIME_STREAM_DIAL_H

#include <nng/nng.h>

#include <string>

namespace sojourn::stream {

/// A dialer for an address of nng's. Over TLS, `trusted`: the one certificate, as PEM, that the owner may have; null:
/// any. Returns nng's status; where it is 0 the caller frees the dialer.
int openDialer(const std::string &url, const std::string *trusted, nng_stream_dialer **dialer);
/// Closes and frees it.
void closeDialer(nng_stream_dialer *dialer);
/// Has the kernel watch a stream that was dialed, where its peer may go without a word (KeepAlive.h).
void watchStream(nng_stream *stream);

} // namespace sojourn::stream

#endif // SOJOURN_RUNTIME_STREAM_DIAL_H
