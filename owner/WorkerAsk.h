// SPDX-License-Identifier: Apache-2.0
// Calls to a worker and its answers, whose bytes may be anything. Internal to WorkerStub's files.
#ifndef SOJOURN_OWNER_WORKERASK_H
#define SOJOURN_OWNER_WORKERASK_H

#include "owner/CallControl.h"
#include "owner/RequestError.h"
#include "runtime/wire/Worker_generated.h"

#include <string>
#include <utility>

namespace sojourn::owner {

namespace calls = sojourn_worker;

/// No fault of the client's program.
llvm::Error brokenWorker(const llvm::Twine &what);

/// A failure that the worker answers.
class WorkerError : public llvm::ErrorInfo<WorkerError> {
public:
  static char ID;
  WorkerError(RequestError error, bool isUnknown, bool isLasting)
      : error(std::move(error)), isUnknown(isUnknown), isLasting(isLasting) {}
  void log(llvm::raw_ostream &stream) const override { error.log(stream); }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }
  RequestError error;
  bool isUnknown, isLasting;
};
/// The error as the client gets it.
llvm::Error plain(llvm::Error error);
/// Whether the error says that the worker lacks a code.
bool isUnknown(llvm::Error &error);
RequestError errorOf(uint8_t code, std::string_view message, std::string_view op, std::string_view location);
RequestError errorOf(const calls::Failure &failure);

/// The answer, or a WorkerError.
llvm::Expected<std::pair<const calls::Answer *, WorkerAnswer>>
askAny(WorkerPort &port, flatbuffers::FlatBufferBuilder &builder, calls::CallBody kind, flatbuffers::Offset<void> body,
       Memory memory, const CallControl &control);

/// The body of an answer, where it is of this kind.
template <class Body>
llvm::Expected<const Body *> bodyOf(const calls::Answer &root, calls::AnswerBody expected) {
  if (root.body_type() != expected) {
    return brokenWorker("the worker answered " + llvm::Twine(calls::EnumNameAnswerBody(root.body_type())) +
                        ", expected " + calls::EnumNameAnswerBody(expected));
  }
  return static_cast<const Body *>(root.body());
}

/// The answer of one kind, or a WorkerError.
template <class Body>
llvm::Expected<std::pair<const Body *, WorkerAnswer>>
ask(WorkerPort &port, flatbuffers::FlatBufferBuilder &builder, calls::CallBody kind, flatbuffers::Offset<void> body,
    Memory memory, const CallControl &control, calls::AnswerBody expected) {
  auto answer = askAny(port, builder, kind, body, std::move(memory), control);
  if (!answer) {
    return answer.takeError();
  }
  auto found = bodyOf<Body>(*answer->first, expected);
  if (!found) {
    return found.takeError();
  }
  return std::pair(*found, std::move(answer->second));
}

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_WORKERASK_H
