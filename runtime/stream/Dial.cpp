// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream/Dial.h"

#include "runtime/signing/Introduction.h"
#include "runtime/stream/KeepAlive.h"

#include <nng/supplemental/tls/tls.h>

namespace sojourn::stream {

static int setTrust(nng_stream_dialer *dialer, const std::string *trusted) {
  nng_tls_config *config = nullptr;
  int status = nng_tls_config_alloc(&config, NNG_TLS_MODE_CLIENT);
  status = status ? status : nng_tls_config_version(config, NNG_TLS_1_2, NNG_TLS_1_3);
  status =
      status ? status : nng_tls_config_auth_mode(config, trusted ? NNG_TLS_AUTH_MODE_REQUIRED : NNG_TLS_AUTH_MODE_NONE);
  status = status ? status : nng_tls_config_server_name(config, signing::kServerName);
  status = status == 0 && trusted ? nng_tls_config_ca_chain(config, trusted->c_str(), nullptr) : status;
  status = status ? status : nng_stream_dialer_set_ptr(dialer, NNG_OPT_TLS_CONFIG, config);
  if (config) {
    nng_tls_config_free(config); // the dialer holds it
  }
  return status;
}

int openDialer(const std::string &url, const std::string *trusted, nng_stream_dialer **dialer) {
  int status = nng_stream_dialer_alloc(dialer, url.c_str());
  if (status == 0 && url.starts_with("tls+tcp://")) {
    status = setTrust(*dialer, trusted);
  }
  if (status && *dialer) {
    closeDialer(*dialer);
    *dialer = nullptr;
  }
  return status;
}

void closeDialer(nng_stream_dialer *dialer) {
  nng_stream_dialer_close(dialer);
  nng_stream_dialer_free(dialer);
}

void watchStream(nng_stream *stream) {
  nng_sockaddr here{}, there{};
  if (nng_stream_get_addr(stream, NNG_OPT_LOCADDR, &here) != 0 ||
      nng_stream_get_addr(stream, NNG_OPT_REMADDR, &there) != 0) {
    return;
  }
  auto portOf = [](const nng_sockaddr &address) {
    return address.s_family == NNG_AF_INET    ? address.s_in.sa_port
           : address.s_family == NNG_AF_INET6 ? address.s_in6.sa_port
                                              : uint16_t{0};
  };
  if (portOf(here) && portOf(there)) {
    watchConnection(portOf(here), portOf(there));
  }
}

} // namespace sojourn::stream
