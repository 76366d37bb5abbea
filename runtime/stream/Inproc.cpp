// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream/Inproc.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>

namespace sojourn::stream {

namespace {

std::mutex mutex;
std::map<std::string, std::string> folders; ///< by name

std::string address(const std::string &folder) { return "ipc://" + folder + "/s"; }

void removeFolder(const std::string &folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

} // namespace

int listenInproc(const std::string &name, nng_stream_listener **listener) {
  std::lock_guard lock(mutex);
  if (folders.count(name)) {
    return NNG_EADDRINUSE;
  }
  std::error_code problem;
  std::string folder = (std::filesystem::temp_directory_path(problem) / "sojourn-inproc-XXXXXX").string();
  if (problem || mkdtemp(folder.data()) == nullptr) { // of mode 0700
    return NNG_EPERM;
  }
  int status = nng_stream_listener_alloc(listener, address(folder).c_str());
  status = status ? status : nng_stream_listener_listen(*listener);
  if (status) {
    removeFolder(folder);
  } else {
    folders[name] = folder;
  }
  return status;
}

void endInproc(const std::string &name) {
  std::lock_guard lock(mutex);
  if (auto found = folders.find(name); found != folders.end()) {
    removeFolder(found->second);
    folders.erase(found);
  }
}

int dialInproc(const std::string &name, nng_stream **stream) {
  std::string url;
  {
    std::lock_guard lock(mutex);
    auto found = folders.find(name);
    if (found == folders.end()) {
      return NNG_ECONNREFUSED;
    }
    url = address(found->second);
  }
  nng_stream_dialer *dialer = nullptr;
  nng_aio *aio = nullptr;
  int status = nng_stream_dialer_alloc(&dialer, url.c_str());
  status = status ? status : nng_aio_alloc(&aio, nullptr, nullptr);
  if (status == 0) {
    nng_stream_dialer_dial(dialer, aio);
    nng_aio_wait(aio);
    status = nng_aio_result(aio);
  }
  if (status == 0) {
    *stream = static_cast<nng_stream *>(nng_aio_get_output(aio, 0));
  }
  if (dialer) {
    nng_stream_dialer_close(dialer);
    nng_stream_dialer_free(dialer);
  }
  nng_aio_free(aio);
  return status;
}

} // namespace sojourn::stream
