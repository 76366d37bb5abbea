// SPDX-License-Identifier: Apache-2.0
#include "owner/WorkerAsk.h"

#include "owner/Text.h"
#include "runtime/Limits.h"

namespace sojourn::owner {

using flatbuffers::FlatBufferBuilder;
using llvm::Twine;

char WorkerError::ID = 0;

llvm::Error brokenWorker(const Twine &what) {
  return requestError(wire::ErrorCode_Internal, what + ". This is a defect of the owner, please report it");
}

RequestError errorOf(uint8_t code, std::string_view message, std::string_view op, std::string_view location) {
  if (code > wire::ErrorCode_MAX) {
    return {wire::ErrorCode_Internal, "the worker failed with unknown code " + std::to_string(code)};
  }
  return {static_cast<wire::ErrorCode>(code), printable(message, runtime::limits::kStringBytes),
          printable(op, runtime::limits::kOpNameBytes), printable(location, runtime::limits::kLocationTextBytes)};
}

RequestError errorOf(const calls::Failure &failure) {
  auto text = [](const flatbuffers::String *from) { return from ? from->string_view() : std::string_view(); };
  return errorOf(failure.code(), text(failure.message()), text(failure.op()), text(failure.location()));
}

llvm::Error plain(llvm::Error error) {
  return llvm::handleErrors(std::move(error), [](const WorkerError &found) -> llvm::Error {
    return llvm::make_error<RequestError>(found.error);
  });
}

bool isUnknown(llvm::Error &error) {
  bool unknown = false;
  error = llvm::handleErrors(std::move(error), [&](std::unique_ptr<WorkerError> found) -> llvm::Error {
    unknown = found->isUnknown;
    return llvm::Error(std::move(found));
  });
  return unknown;
}

llvm::Expected<std::pair<const calls::Answer *, WorkerAnswer>> askAny(WorkerPort &port, FlatBufferBuilder &builder,
                                                                      calls::CallBody kind,
                                                                      flatbuffers::Offset<void> body, Memory memory,
                                                                      const CallControl &control) {
  builder.Finish(calls::CreateCall(builder, kind, body));
  WorkerCall call;
  call.bytes = {reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize()};
  call.memory = std::move(memory);
  call.stop = control.stop;
  call.finish = control.finish;
  call.progress = control.progress;
  call.answerBuffers = control.answerBuffers;
  call.patience = control.patience;
  if (control.isSent) {
    *control.isSent = true;
  }
  WorkerAnswer answer = port.call(call);
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(answer.bytes.data()), answer.bytes.size(), 8,
                                 2 * kPartsMost + 16);
  const bool isAnswer = answer.bytes.size() >= 8 && verifier.VerifyBuffer<calls::Answer>(nullptr);
  const auto *root = isAnswer ? flatbuffers::GetRoot<calls::Answer>(answer.bytes.data()) : nullptr;
  if (!root || !root->body()) { // the verifier allows an empty one
    return brokenWorker("the worker answered " + Twine(answer.bytes.size()) + " bytes that are no answer");
  }
  if (const auto *failure = root->body_as_Failure()) {
    return llvm::make_error<WorkerError>(errorOf(*failure), failure->is_unknown(), failure->is_lasting());
  }
  return std::pair(root, std::move(answer));
}

} // namespace sojourn::owner
