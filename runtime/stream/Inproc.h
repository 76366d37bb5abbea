// SPDX-License-Identifier: Apache-2.0
// Addresses within a process, inproc://name, because nng's streams know none: sockets in a folder of this account.
#ifndef SOJOURN_RUNTIME_STREAM_INPROC_H
#define SOJOURN_RUNTIME_STREAM_INPROC_H

#include <nng/nng.h>

#include <string>

namespace sojourn::stream {

/// A listener whose streams are those of `dialInproc` with the same name. Returns nng's status: NNG_EADDRINUSE where
/// another one has the name.
int listenInproc(const std::string &name, nng_stream_listener **listener);
/// Gives the name back; after the listener is closed.
void endInproc(const std::string &name);
/// nng's status: NNG_ECONNREFUSED where nobody listens.
int dialInproc(const std::string &name, nng_stream **stream);

} // namespace sojourn::stream

#endif // SOJOURN_RUNTIME_STREAM_INPROC_H
