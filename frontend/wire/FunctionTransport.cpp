// SPDX-License-Identifier: Apache-2.0
// An owner that is a function from bytes to bytes: one of this process, or whatever a test puts in its place.
#include "frontend/Error.h"
#include "frontend/wire/Client.h"

#include <future>
#include <thread>
#include <utility>

namespace sojourn::frontend {

namespace {

class FunctionTransport final : public Transport {
public:
  FunctionTransport(std::string name, std::function<Answer(std::string_view)> handle, int timeoutMs)
      : name_(std::move(name)), handle_(std::move(handle)), timeoutMs_(timeoutMs) {}
  flatbuffers::Allocator &allocator() override { return allocator_; }
  CallStatus tryCall(std::string_view request, Answer &answer, std::string &failure) override {
    try {
      answer = handle_(request);
      return CallStatus::Answered;
    } catch (const Error &error) {
      if (error.kind() != ErrorKind::ConnectionLost) {
        throw;
      }
      failure = error.text();
      return CallStatus::Broken;
    }
  }
  /// The call has a thread of its own; it cannot be left alone, so `look` does not end it.
  CallStatus tryLongCall(std::string_view request, Answer &answer, std::string &failure,
                         const std::function<bool()> &look) override {
    std::promise<CallStatus> done;
    auto status = done.get_future();
    std::thread caller([&] {
      try {
        done.set_value(tryCall(request, answer, failure));
      } catch (...) {
        done.set_exception(std::current_exception());
      }
    });
    while (status.wait_for(kLookEvery) == std::future_status::timeout) {
      look();
    }
    caller.join();
    return status.get();
  }
  std::string name() const override { return name_; }
  std::unique_ptr<Transport> another() const override { return makeFunctionTransport(name_, handle_, timeoutMs_); }
  int timeoutMs() const override { return timeoutMs_; }

private:
  std::string name_;
  std::function<Answer(std::string_view)> handle_;
  int timeoutMs_;
  RequestAllocator allocator_;
};

} // namespace

std::unique_ptr<Transport> makeFunctionTransport(std::string name, std::function<Answer(std::string_view)> handle,
                                                 int timeoutMs) {
  return std::make_unique<FunctionTransport>(std::move(name), std::move(handle), timeoutMs);
}

uint8_t *RequestAllocator::allocate(size_t size) { return static_cast<uint8_t *>(::operator new(size)); }

void RequestAllocator::deallocate(uint8_t *bytes, size_t) { ::operator delete(bytes); }

uint8_t *RequestAllocator::reallocate_downward(uint8_t *old, size_t oldSize, size_t newSize, size_t usedBack,
                                               size_t usedFront) {
  wire::countCopied(usedBack);
  return Allocator::reallocate_downward(old, oldSize, newSize, usedBack, usedFront);
}

} // namespace sojourn::frontend
