// SPDX-License-Identifier: Apache-2.0
#include "test/owner/Requester.h"

#include "runtime/signing/Introduction.h"
#include "runtime/stream/Inproc.h"

#include <nng/supplemental/tls/tls.h>

namespace sojourn::owner::test {

Requester::Requester(const std::string &url, const std::string &trusted) {
  EXPECT_EQ(nng_aio_alloc(&aio_, nullptr, nullptr), 0);
  nng_aio_set_timeout(aio_, 20'000);
  if (url.starts_with("inproc://")) {
    status_ = stream::dialInproc(url.substr(9), &stream_);
    return;
  }
  nng_stream_dialer *dialer = nullptr;
  status_ = nng_stream_dialer_alloc(&dialer, url.c_str());
  if (status_ == 0 && url.starts_with("tls")) {
    nng_tls_config *trust = nullptr;
    EXPECT_EQ(nng_tls_config_alloc(&trust, NNG_TLS_MODE_CLIENT), 0);
    EXPECT_EQ(nng_tls_config_auth_mode(trust, trusted.empty() ? NNG_TLS_AUTH_MODE_NONE : NNG_TLS_AUTH_MODE_REQUIRED),
              0);
    EXPECT_EQ(nng_tls_config_server_name(trust, signing::kServerName), 0);
    if (!trusted.empty()) {
      EXPECT_EQ(nng_tls_config_ca_chain(trust, trusted.c_str(), nullptr), 0);
    }
    EXPECT_EQ(nng_stream_dialer_set_ptr(dialer, NNG_OPT_TLS_CONFIG, trust), 0);
    nng_tls_config_free(trust);
  }
  if (status_ == 0) {
    nng_stream_dialer_dial(dialer, aio_);
    nng_aio_wait(aio_);
    status_ = nng_aio_result(aio_);
    stream_ = status_ ? nullptr : static_cast<nng_stream *>(nng_aio_get_output(aio_, 0));
  }
  if (dialer) {
    nng_stream_dialer_free(dialer);
  }
}

Requester::~Requester() {
  if (stream_) {
    nng_stream_close(stream_);
    nng_stream_free(stream_);
  }
  nng_aio_free(aio_);
}

bool Requester::transfer(bool isSend, void *bytes, size_t size) {
  for (size_t done = 0; done < size && status_ == 0; done += nng_aio_count(aio_)) {
    nng_iov part{static_cast<char *>(bytes) + done, size - done};
    nng_aio_set_iov(aio_, 1, &part);
    (isSend ? nng_stream_send : nng_stream_recv)(stream_, aio_);
    nng_aio_wait(aio_);
    status_ = nng_aio_result(aio_);
  }
  return status_ == 0;
}

bool Requester::write(stream::FrameHead head, const std::string &message, size_t cut) {
  std::string bytes(reinterpret_cast<const char *>(&head), sizeof head);
  bytes += message;
  bytes.resize(std::min(bytes.size(), cut));
  return transfer(true, bytes.data(), bytes.size());
}

std::optional<std::pair<stream::FrameHead, std::string>> Requester::read() {
  std::array<std::byte, sizeof(stream::FrameHead)> bytes;
  if (!transfer(false, bytes.data(), bytes.size())) {
    return std::nullopt;
  }
  auto head = stream::FrameHead::read(bytes.data());
  EXPECT_TRUE(head.isValid());
  std::string message(head.bytes, '\0');
  if (!transfer(false, message.data(), message.size())) {
    return std::nullopt;
  }
  return std::pair(head, message);
}

Reply Requester::send(const std::string &request, uint64_t session) {
  stream::FrameHead head;
  head.session = session;
  head.bytes = request.size();
  EXPECT_TRUE(write(head, request)) << nng_strerror(status_);
  auto reply = read();
  EXPECT_TRUE(reply.has_value()) << nng_strerror(status_);
  return Reply(reply ? reply->second : "");
}

} // namespace sojourn::owner::test
