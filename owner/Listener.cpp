// SPDX-License-Identifier: Apache-2.0
#include "owner/Listener.h"

#include "owner/Error.h"
#include "owner/Owner.h"
#include "runtime/stream/Inproc.h"
#include "runtime/stream/KeepAlive.h"

#include <filesystem>
#include <nng/supplemental/tls/tls.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

namespace sojourn::owner {

/// The folder of a socket, made for this account alone; an error if something else stands where the socket is to be,
/// which nng would remove.
static llvm::Error makeWay(const std::filesystem::path &path) {
  std::error_code code;
  const std::filesystem::file_status found = symlink_status(path, code);
  if (exists(found) && !is_socket(found)) {
    return failure("cannot listen on 'ipc://" + path.string() + "': there is " +
                   (is_directory(found) ? "a folder" : "a file that is not a socket") +
                   ", which stays as it is; listen on another path, or remove it");
  }
  const std::filesystem::path folder = path.parent_path();
  if (create_directories(folder, code)) {
    permissions(folder, std::filesystem::perms::owner_all, code);
  }
  return llvm::Error::success();
}

int Listener::secure() {
  nng_tls_config *config = nullptr;
  int status = nng_tls_config_alloc(&config, NNG_TLS_MODE_SERVER);
  status = status ? status : nng_tls_config_version(config, NNG_TLS_1_2, NNG_TLS_1_3);
  status = status ? status : nng_tls_config_auth_mode(config, NNG_TLS_AUTH_MODE_NONE);
  status = status
               ? status
               : nng_tls_config_own_cert(config, ownCertificate->pem.c_str(), ownCertificate->keyPem.c_str(), nullptr);
  status = status ? status : nng_stream_listener_set_ptr(listener, NNG_OPT_TLS_CONFIG, config);
  if (config) {
    nng_tls_config_free(config); // the listener holds it
  }
  return status;
}

int Listener::open(const std::string &address) {
  llvm::StringRef rest = address;
  if (rest.consume_front("inproc://")) {
    inprocName = rest.str();
    const int status = stream::listenInproc(inprocName, &listener);
    inprocName = status ? "" : inprocName;
    return status;
  }
  int status = nng_stream_listener_alloc(&listener, address.c_str());
  if (status == 0 && rest.starts_with("ipc://")) {
    // nng's default lets every account of the machine in.
    status = nng_stream_listener_set_int(listener, NNG_OPT_IPC_PERMISSIONS, S_IRUSR | S_IWUSR);
  }
  if (status == 0 && rest.starts_with("t")) {
    status = nng_stream_listener_set_bool(listener, NNG_OPT_TCP_NODELAY, true);
    // Machines that vanish: watchListener sets the times.
    status = status ? status : nng_stream_listener_set_bool(listener, NNG_OPT_TCP_KEEPALIVE, true);
  }
  status = status == 0 && ownCertificate ? secure() : status;
  status = status ? status : nng_stream_listener_listen(listener);
  nng_sockaddr own{};
  if (status == 0 && nng_stream_listener_get_addr(listener, NNG_OPT_LOCADDR, &own) == 0) {
    if (own.s_family == NNG_AF_INET || own.s_family == NNG_AF_INET6) {
      stream::watchListener(own.s_family == NNG_AF_INET ? own.s_in.sa_port : own.s_in6.sa_port);
    }
  }
  return status;
}

llvm::Expected<std::unique_ptr<Listener>> Listener::open(Owner &owner, const std::string &address,
                                                         std::function<void(stream::OwnedStream)> add) {
  std::unique_ptr<Listener> made(new Listener(std::move(add)));
  llvm::StringRef path(address);
  if (path.consume_front("ipc://")) {
    if (llvm::Error error = makeWay(path.str())) {
      return error;
    }
  }
  if (llvm::StringRef(address).starts_with("tls+tcp://")) {
    auto opened = owner.certificate();
    if (!opened) {
      return opened.takeError();
    }
    made->ownCertificate = std::move(*opened);
  }
  int status = nng_aio_alloc(&made->acceptance, accepted, made.get());
  status = status ? status : made->open(address);
  if (status) {
    std::string hint = status == NNG_EADDRINUSE   ? "; another server already listens at this address"
                       : status == NNG_EADDRINVAL ? "; expected ipc:///path/to/socket or tls+tcp://host:port"
                                                  : "";
    return failure("cannot listen on '" + address + "': " + nng_strerror(status) + hint);
  }
  return made;
}

std::string_view Listener::digest() const {
  return ownCertificate ? std::string_view(reinterpret_cast<const char *>(ownCertificate->digest.data()),
                                           ownCertificate->digest.size())
                        : std::string_view();
}

void Listener::start() { nng_stream_listener_accept(listener, acceptance); }

void Listener::retry() {
  if (isLate.exchange(false)) {
    start();
  }
}

void Listener::accepted(void *given) {
  auto &self = *static_cast<Listener *>(given);
  const int status = nng_aio_result(self.acceptance);
  if (status == 0) {
    stream::OwnedStream stream(static_cast<nng_stream *>(nng_aio_get_output(self.acceptance, 0)));
    try {
      self.add(std::move(stream));
    } catch (const std::exception &exception) {
      spdlog::error("no memory for a connection: {}", exception.what());
    }
    self.start();
    return;
  }
  if (status != NNG_ECLOSED && status != NNG_ECANCELED) {
    spdlog::warn("a connection was not accepted: {}", nng_strerror(status));
    self.isLate = true; // of descriptors there are none
  }
}

void Listener::stop() {
  if (listener) {
    nng_stream_listener_close(listener);
  }
  if (acceptance) {
    nng_aio_stop(acceptance);
  }
}

Listener::~Listener() {
  stop();
  if (!inprocName.empty()) {
    stream::endInproc(inprocName);
  }
  if (listener) {
    nng_stream_listener_free(listener);
  }
  nng_aio_free(acceptance);
}

} // namespace sojourn::owner
