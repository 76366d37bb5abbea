// SPDX-License-Identifier: Apache-2.0
// The front's side of a worker: calls as functions. Answers may be anything: each is checked.
#ifndef SOJOURN_OWNER_WORKERSTUB_H
#define SOJOURN_OWNER_WORKERSTUB_H

#include "owner/CallControl.h"
#include "owner/RanParts.h"
#include "owner/RequestError.h"
#include "owner/worker/Port.h"
#include "passes/PriceLimits.h"
#include "runtime/facts/PrivateTerms.h"
#include "runtime/facts/Verdict.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::owner {

class WorkerStub;

/// A code of the worker, and all that another worker needs to make it again. The worker drops it with the last
/// reference, workers of sessions later. Immutable.
struct CodeRef : std::enable_shared_from_this<CodeRef> {
  CodeRef(WorkerStub &worker, uint64_t id) : worker(&worker), id(id) {}
  ~CodeRef();
  CodeRef(const CodeRef &) = delete;
  CodeRef &operator=(const CodeRef &) = delete;

  WorkerStub *worker;
  const uint64_t id;
  std::shared_ptr<runtime::Buffer> program, debug;
  PriceLimits limits;
  RoleOfGroup role;
  /// Of a proved one: its program, its terms, and the digest of the module that was proved.
  std::shared_ptr<const CodeRef> of;
  std::string terms;
  std::array<uint8_t, 32> digest{};
  size_t workerBytes = 0; ///< of memory, by the worker's word
  /// Memory of both sides, in bytes.
  size_t size() const { return sizeof(*this) + workerBytes + terms.size(); }
};

struct DescribedCode {
  runtime::ProgramFacts facts;
  std::string text; ///< for the log, printable
  std::shared_ptr<const CodeRef> code;
};

struct ProvedCode {
  runtime::Verdict verdict;
  /// Per result the standard deviation of its noise; NaN where it is not known, nothing where an argument changes it.
  std::vector<std::optional<double>> errors;
  std::shared_ptr<const CodeRef> code;
};

/// Arguments of one step as words (Worker.fbs), and uploads that lie in its message.
struct BoundWords {
  std::vector<uint64_t> words;
  std::vector<uint64_t> uploads; ///< values that lie in `memory`
  Memory memory;
};

struct RunPart {
  const CodeRef *code = nullptr;
  std::vector<uint64_t> words, results, context, drops;
  bool isPrivate = false; ///< depends on private rows
};

/// Thread-safe; outlives the codes. Errors are RequestErrors: those of the worker, or Internal where an answer breaks a
/// rule. `isLasting`: the same call fails again.
class WorkerStub {
public:
  explicit WorkerStub(std::unique_ptr<WorkerPort> port)
      : port(std::move(port)), nextId(std::make_shared<std::atomic<uint64_t>>(1)) {}
  /// Of one session; null where sessions share this worker. Codes of this one are known to it as they are used.
  std::unique_ptr<WorkerStub> forSession();

  /// A number that nothing of the worker has, nor of the sessions' workers.
  uint64_t newId() { return newIds(1); }
  /// Of values of one step: the first of `count` numbers in a row.
  uint64_t newIds(size_t count) { return nextId->fetch_add(count, std::memory_order_relaxed); }
  unsigned threads() const { return port ? port->threads() : 1; }

  llvm::Expected<DescribedCode> describe(llvm::StringRef program, llvm::StringRef debug, const PriceLimits &limits,
                                         const runtime::StopFlag *stop = nullptr, const RoleOfGroup &role = {},
                                         const Patience &patience = {});
  /// A proof for the program of `facts`. `isLasting` is set where it fails.
  llvm::Expected<ProvedCode> prove(const std::shared_ptr<const CodeRef> &program, const runtime::ProgramFacts &facts,
                                   const runtime::PrivateTerms &terms, const PriceLimits &limits, bool &isLasting,
                                   const runtime::StopFlag *stop = nullptr);
  /// Refused where the worker cannot serve private tables at this moment, or a proved code would read one at duplicate
  /// row numbers. Ranges of small tensors among the arguments `ranges`.
  llvm::Expected<std::vector<std::optional<runtime::Extent>>> inspect(const CodeRef &code, const BoundWords &bound,
                                                                      llvm::ArrayRef<unsigned> ranges, unsigned threads,
                                                                      const runtime::StopFlag *stop);
  /// Runs parts one after another; `facts`: of their program. `bound`: for the uploads of all. No part but the first
  /// begins after `withinUs` microseconds, 0: no matter when.
  llvm::Expected<RanParts> run(llvm::ArrayRef<RunPart> parts, const BoundWords &bound,
                               const runtime::ProgramFacts &facts, unsigned threads, uint64_t withinUs,
                               const CallControl &control);

  /// Runs a part `times` times, as `run` does, with coins of its own and made-up numbers in the place of the arguments
  /// `madeUp`, and drops the results: its time depends on shapes and on values of the other arguments alone.
  llvm::Error rehearse(const RunPart &part, unsigned times, llvm::ArrayRef<unsigned> madeUp, const BoundWords &bound,
                       const runtime::ProgramFacts &facts, unsigned threads, const CallControl &control);

  struct Received {
    size_t bytes = 0; ///< that stand, from the start
    bool isBits = true;
    std::shared_ptr<runtime::Buffer> memory; ///< of the whole upload
  };
  /// Takes in a part of an upload of `size` bytes.
  llvm::Expected<Received> put(uint64_t value, size_t size, size_t offset, std::shared_ptr<runtime::Buffer> part);
  /// The bytes of a value of an answer, in memory that the worker cannot change; null where they cannot be read.
  std::shared_ptr<runtime::Buffer> taken(std::shared_ptr<runtime::Buffer> value, size_t size) {
    return port->taken(std::move(value), size);
  }
  /// Values of another worker, under the numbers that they had there.
  struct Adopted {
    Value value; ///< of an upload without a type
    std::shared_ptr<runtime::Buffer> memory;
    bool isUpload = false;
    Received received = {}; ///< of an upload
  };
  llvm::Error adopt(llvm::ArrayRef<Adopted> values);
  /// Never fails, and allocates nothing on this side. Values that a worker cannot drop end with the worker.
  void drop(llvm::ArrayRef<uint64_t> values, llvm::ArrayRef<uint64_t> codes = {},
            llvm::ArrayRef<uint64_t> runs = {}) noexcept;

  void map(uint64_t table, std::shared_ptr<const Dataset> rows) { port->map(table, std::move(rows)); }
  void unmap(uint64_t table) noexcept { port->unmap(table); }

  /// Of a session's worker, in its turn. Gets it ready for a message; true where it holds nothing yet, so that the
  /// session's values are to be adopted.
  llvm::Expected<bool> begin(const runtime::StopFlag *stop, const Patience &patience = {});
  /// Which of its lives, each of which begins without values and warm code.
  uint64_t currentLife() const { return life; }
  void end() noexcept { port->end(); }
  /// The message is over.
  void rest() noexcept { port->rest(); }
  /// Of a session's worker: the next calls name this table. `isReadable`: and read its rows, for a step that is
  /// admitted and paid; else they know how many it has.
  void admit(uint64_t table, const std::shared_ptr<const Dataset> &rows, bool isReadable);

private:
  WorkerStub(std::unique_ptr<WorkerPort> port, std::shared_ptr<std::atomic<uint64_t>> ids)
      : port(std::move(port)), nextId(std::move(ids)), isOfSession(true) {}
  /// `madeUp`: of a rehearsal; else null.
  llvm::Expected<RanParts> runParts(llvm::ArrayRef<RunPart> parts, const llvm::ArrayRef<unsigned> *madeUp,
                                    const BoundWords &bound, const runtime::ProgramFacts &facts, unsigned threads,
                                    uint64_t withinUs, const CallControl &control);
  /// Makes a code known that the worker did not know.
  llvm::Error teach(const CodeRef &code, const runtime::StopFlag *stop);
  /// Drops codes and tables that are used no more.
  void sweep();

  const std::unique_ptr<WorkerPort> port;
  const std::shared_ptr<std::atomic<uint64_t>> nextId;
  /// Of a session's worker, in its turn: which life of it, and what it has learned in that.
  const bool isOfSession = false;
  uint64_t life = 0;
  std::vector<std::pair<uint64_t, std::weak_ptr<const CodeRef>>> taught;
  struct Admitted {
    uint64_t table;
    std::weak_ptr<const Dataset> rows;
    bool isReadable;
  };
  std::vector<Admitted> admitted;
};

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_WORKERSTUB_H
