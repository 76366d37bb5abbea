// SPDX-License-Identifier: Apache-2.0
// A run of the parts of one message: bindings by number, coins, results under numbers. Internal to owner/worker.
#ifndef SOJOURN_OWNER_WORKER_PARTSRUN_H
#define SOJOURN_OWNER_WORKER_PARTSRUN_H

#include "owner/RequestError.h"
#include "owner/worker/Held.h"
#include "owner/worker/Port.h"
#include "runtime/CopiesDigest.h"
#include "runtime/wire/Worker_generated.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sojourn::owner {

/// The worker lacks a code that a call names.
class UnknownCode : public llvm::ErrorInfo<UnknownCode> {
public:
  static char ID;
  void log(llvm::raw_ostream &stream) const override { stream << "unknown program"; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }
};

/// A refusal that may pass with the state of the process.
class PassingRefusal : public llvm::ErrorInfo<PassingRefusal> {
public:
  static char ID;
  explicit PassingRefusal(std::string text) : text(std::move(text)) {}
  void log(llvm::raw_ostream &stream) const override { stream << text; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }
  const std::string text;
};

/// An error of a call, for its answer.
struct WorkerFailure {
  RequestError error;
  bool isUnknown = false, isLasting = false;
};
WorkerFailure takeWorkerFailure(llvm::Error error);
flatbuffers::Offset<sojourn_worker::Failure> failed(flatbuffers::FlatBufferBuilder &builder,
                                                    const WorkerFailure &failure);

std::optional<runtime::Extent> extentOf(const runtime::HostTensor &tensor);

/// Whether slots and ranges are those that the proof rests on.
llvm::Error checkTerms(const HeldCode::Private &proved, llvm::ArrayRef<runtime::Binding> bindings);

/// Arguments by number, as a run binds them.
class PartBindings {
public:
  using Numbers = flatbuffers::Vector<uint64_t>;
  /// Values of this call alone.
  llvm::Error uploads(const Numbers *ids, const Memory &memory);
  /// One word for each of the arguments. An Internal error names a number that nothing has, or another type: the front
  /// has checked them.
  llvm::Error bind(llvm::ArrayRef<runtime::ArgSpec> args, const Numbers *words, const HeldThings &held);
  /// Made-up numbers, of the same shapes, in the place of these arguments (MadeUp.h).
  llvm::Error makeUp(const flatbuffers::Vector<uint32_t> *arguments, runtime::BufferPool &buffers);
  /// Copies of all memory that belongs to the call.
  void keep();

  std::vector<runtime::Binding> bindings;

private:
  std::unordered_map<uint64_t, std::shared_ptr<runtime::Buffer>> sent;
  std::vector<std::shared_ptr<const runtime::RowSource>> tables; ///< keeps them mapped
};

class PartsRun {
public:
  PartsRun(const Worker &worker, HeldThings &held, runtime::BufferPool &buffers)
      : worker(&worker), held(&held), buffers(&buffers) {}
  PartsRun(PartsRun &&) = default;
  PartsRun &operator=(PartsRun &&) = default;

  /// `call` lies in the bytes of `given`; both stay until `goOn` returns.
  llvm::Error begin(const sojourn_worker::Run &call, const WorkerCall &given);
  /// Runs until all parts have run, one fails or waits, or none is to begin.
  void goOn(const runtime::RunOptions &options, const WorkerCall &given);
  unsigned threads() const { return threadCount; }

  bool waits() const { return suspended != nullptr; }
  Memory takeFrames();
  void came(Memory frames) { framesThatCame = std::move(frames); }
  /// Copies of what lies in the bytes and memory of the call, for a run that waits.
  void keepArguments(std::string_view bytes);

  struct Done {
    std::vector<double> errors;                  ///< standard ones, where an argument changes one
    std::optional<runtime::CopiesDigest> copies; ///< of a joint step
  };
  /// Of the parts that ran since it was taken last.
  std::vector<Done> takeDone() { return std::exchange(parts, {}); }
  const std::optional<WorkerFailure> &failure() const { return failed_; }
  /// Likewise: of each of their results, in order; null where its value is dropped.
  Memory takeMemory();

private:
  runtime::RunOptions optionsOf(const sojourn_worker::Part &part, const runtime::RunOptions &options) const;
  llvm::Error runPart(const sojourn_worker::Part &part, const runtime::RunOptions &options);
  llvm::Error goOnWithPart(const sojourn_worker::Part &part, const runtime::RunOptions &options);
  llvm::Error finishPart(const sojourn_worker::Part &part, std::vector<runtime::HostTensor> values);

  const Worker *worker;
  HeldThings *held;
  runtime::BufferPool *buffers;
  const sojourn_worker::Run *call = nullptr;
  std::vector<uint64_t> ownBytes; ///< of the call, once it has waited
  size_t next = 0;                ///< part
  unsigned threadCount = 1;
  std::optional<std::chrono::steady_clock::time_point> until; ///< no part begins later
  HeldCode code;                                              ///< of the part that runs
  PartBindings bound;
  std::unique_ptr<runtime::Suspended> suspended;
  Memory framesThatCame;
  std::vector<Done> parts; ///< that ran, and were not taken
  /// Per result of these: memory of a published value, or the number of a kept one.
  Memory published;
  std::vector<uint64_t> kept;
  std::optional<WorkerFailure> failed_;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_WORKER_PARTSRUN_H
