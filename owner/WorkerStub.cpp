// SPDX-License-Identifier: Apache-2.0
// Calls as bytes to the worker, and its answers checked (see WorkerStub.h).
#include "owner/WorkerStub.h"

#include "owner/Text.h"
#include "owner/WorkerAsk.h"
#include "runtime/Limits.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

namespace sojourn::owner {

using flatbuffers::FlatBufferBuilder;
using llvm::Twine;

/// Bytes of a program's text for the log, at most.
static constexpr size_t kTextMost = size_t{4} << 20;
/// Of a code, whatever the worker says.
static constexpr size_t kCodeMost = size_t{1} << 40;

CodeRef::~CodeRef() { worker->drop({}, id); }

namespace {

std::string textOf(const flatbuffers::String *text, size_t most) {
  return text ? printable(text->string_view(), most) : std::string();
}

RequestError refusalOf(const runtime::Refusal &refusal) {
  return errorOf(refusal.code, refusal.message, refusal.op, refusal.location);
}

flatbuffers::Offset<calls::PriceLimits> write(FlatBufferBuilder &builder, const PriceLimits &limits) {
  return calls::CreatePriceLimits(builder, limits.operations, limits.arenaBytes, limits.scratchBytes, limits.planBytes,
                                  limits.callSeconds, limits.exchangedBytes);
}

llvm::StringRef bytesOf(const flatbuffers::Vector<uint8_t> *vector) {
  return vector ? llvm::StringRef(reinterpret_cast<const char *>(vector->data()), vector->size()) : llvm::StringRef();
}

} // namespace

llvm::Expected<DescribedCode> WorkerStub::describe(llvm::StringRef program, llvm::StringRef debug,
                                                   const PriceLimits &limits, const runtime::StopFlag *stop,
                                                   const RoleOfGroup &role, const Patience &patience) {
  auto code = std::make_shared<CodeRef>(*this, newId());
  code->role = role;
  code->program = runtime::copyOf(program.data(), program.size());
  code->debug = runtime::copyOf(debug.data(), debug.size());
  code->limits = limits;
  FlatBufferBuilder builder(128);
  auto body = calls::CreateDescribe(builder, code->id, write(builder, limits), role.role, role.parties, role.isMasked);
  auto answer =
      ask<calls::Described>(*port, builder, calls::CallBody_Describe, body.Union(), {code->program, code->debug},
                            {.stop = stop, .patience = patience}, calls::AnswerBody_Described);
  if (!answer) {
    return plain(answer.takeError());
  }
  const calls::Described &described = *answer->first;
  auto facts = runtime::readFacts(bytesOf(described.facts()));
  if (!facts) {
    return brokenWorker(llvm::toString(facts.takeError()));
  }
  const unsigned ofRole = facts->joint ? facts->joint->role : 0, parties = facts->joint ? facts->joint->parties : 0;
  if (ofRole != role.role || parties != role.parties) {
    return brokenWorker("facts of role " + Twine(ofRole) + " of " + Twine(parties) + ", expected role " +
                        Twine(unsigned(role.role)) + " of " + Twine(unsigned(role.parties)));
  }
  code->workerBytes = std::min<size_t>(described.code_bytes(), kCodeMost);
  return DescribedCode{std::move(*facts), textOf(described.text(), kTextMost), std::move(code)};
}

llvm::Error WorkerStub::teach(const CodeRef &code, const runtime::StopFlag *stop) {
  if (isOfSession) {
    sweep();
    taught.emplace_back(code.id, code.weak_from_this());
  }
  FlatBufferBuilder builder(256 + code.terms.size());
  if (!code.of) {
    auto body = calls::CreateDescribe(builder, code.id, write(builder, code.limits), code.role.role, code.role.parties,
                                      code.role.isMasked);
    auto answer = ask<calls::Described>(*port, builder, calls::CallBody_Describe, body.Union(),
                                        {code.program, code.debug}, {.stop = stop}, calls::AnswerBody_Described);
    return answer ? llvm::Error::success() : answer.takeError();
  }
  for (int attempt = 0;; ++attempt) {
    builder.Clear();
    auto terms = builder.CreateVector(reinterpret_cast<const uint8_t *>(code.terms.data()), code.terms.size());
    auto digest = builder.CreateVector(code.digest.data(), code.digest.size());
    auto limits = write(builder, code.limits);
    auto body = calls::CreateProve(builder, code.of->id, code.id, terms, limits, digest);
    auto answer = ask<calls::Proved>(*port, builder, calls::CallBody_Prove, body.Union(), {}, {.stop = stop},
                                     calls::AnswerBody_Proved);
    llvm::Error error = answer ? llvm::Error::success() : answer.takeError();
    if (!error || attempt > 0 || !isUnknown(error)) {
      return error;
    }
    llvm::consumeError(std::move(error));
    if (llvm::Error failed = teach(*code.of, stop)) {
      return failed;
    }
  }
}

llvm::Expected<ProvedCode> WorkerStub::prove(const std::shared_ptr<const CodeRef> &program,
                                             const runtime::ProgramFacts &facts, const runtime::PrivateTerms &terms,
                                             const PriceLimits &limits, bool &isLasting,
                                             const runtime::StopFlag *stop) {
  auto code = std::make_shared<CodeRef>(*this, newId());
  code->of = program;
  code->terms = runtime::writeTerms(terms);
  code->limits = limits;
  isLasting = false;
  for (int attempt = 0;; ++attempt) {
    FlatBufferBuilder builder(256 + code->terms.size());
    auto termsVector = builder.CreateVector(reinterpret_cast<const uint8_t *>(code->terms.data()), code->terms.size());
    auto limitsTable = write(builder, limits);
    auto body = calls::CreateProve(builder, program->id, code->id, termsVector, limitsTable);
    auto answer = ask<calls::Proved>(*port, builder, calls::CallBody_Prove, body.Union(), {}, {.stop = stop},
                                     calls::AnswerBody_Proved);
    if (!answer) {
      llvm::Error error = answer.takeError();
      if (attempt == 0 && isUnknown(error)) {
        llvm::consumeError(std::move(error));
        if (llvm::Error failed = teach(*program, stop)) {
          return plain(std::move(failed));
        }
        continue;
      }
      return llvm::handleErrors(std::move(error), [&](const WorkerError &found) -> llvm::Error {
        isLasting = found.isLasting;
        return llvm::make_error<RequestError>(found.error);
      });
    }
    const calls::Proved &proved = *answer->first;
    auto verdict = runtime::readVerdict(bytesOf(proved.verdict()), facts);
    if (!verdict) {
      isLasting = true;
      return brokenWorker(llvm::toString(verdict.takeError()));
    }
    if (const auto &refusal = verdict->refusal) {
      isLasting = true;
      return llvm::make_error<RequestError>(refusalOf(*refusal));
    }
    ProvedCode made;
    const size_t results = facts.results.size();
    if (!proved.errors() || !proved.varies() || proved.errors()->size() != results ||
        proved.varies()->size() != results) {
      return brokenWorker("the worker gave standard errors of other results");
    }
    for (size_t at = 0; at < results; ++at) {
      const auto index = static_cast<flatbuffers::uoffset_t>(at);
      made.errors.push_back(proved.varies()->Get(index) ? std::nullopt : std::optional(proved.errors()->Get(index)));
    }
    code->digest = verdict->moduleDigest;
    code->workerBytes = std::min<size_t>(proved.code_bytes(), kCodeMost);
    made.verdict = std::move(*verdict);
    made.code = std::move(code);
    return made;
  }
}

llvm::Expected<std::vector<std::optional<runtime::Extent>>>
WorkerStub::inspect(const CodeRef &code, const BoundWords &bound, llvm::ArrayRef<unsigned> ranges, unsigned threads,
                    const runtime::StopFlag *stop) {
  for (int attempt = 0;; ++attempt) {
    FlatBufferBuilder builder(256 + 8 * bound.words.size());
    auto words = builder.CreateVector(bound.words), uploads = builder.CreateVector(bound.uploads);
    auto bindings = calls::CreateBindings(builder, words, uploads);
    auto wanted = builder.CreateVector(ranges.data(), ranges.size());
    auto body = calls::CreateInspect(builder, code.id, bindings, wanted, threads);
    auto answer = ask<calls::Inspected>(*port, builder, calls::CallBody_Inspect, body.Union(), bound.memory,
                                        {.stop = stop}, calls::AnswerBody_Inspected);
    if (!answer) {
      llvm::Error error = answer.takeError();
      if (attempt == 0 && isUnknown(error)) {
        llvm::consumeError(std::move(error));
        if (llvm::Error failed = teach(code, stop)) {
          return plain(std::move(failed));
        }
        continue;
      }
      return plain(std::move(error));
    }
    const auto *found = answer->first->ranges();
    if ((found ? found->size() : 0) != ranges.size()) {
      return brokenWorker("the worker gave ranges of other arguments");
    }
    std::vector<std::optional<runtime::Extent>> extents;
    for (size_t at = 0; at < ranges.size(); ++at) {
      const calls::Range &range = *found->Get(static_cast<flatbuffers::uoffset_t>(at));
      const bool isRange = std::isfinite(range.low()) && std::isfinite(range.high()) && range.low() <= range.high();
      if (range.is_known() && !isRange) {
        return brokenWorker("the worker gave an invalid range");
      }
      extents.push_back(range.is_known() ? std::optional(runtime::Extent{range.low(), range.high()}) : std::nullopt);
    }
    return extents;
  }
}

llvm::Expected<WorkerStub::Received> WorkerStub::put(uint64_t value, size_t size, size_t offset,
                                                     std::shared_ptr<runtime::Buffer> part) {
  FlatBufferBuilder builder(128);
  auto body = calls::CreatePut(builder, value, size, offset);
  auto answer = ask<calls::Received>(*port, builder, calls::CallBody_Put, body.Union(), {std::move(part)}, {},
                                     calls::AnswerBody_Received);
  if (!answer) {
    return plain(answer.takeError());
  }
  Memory &memory = answer->second.memory;
  if (answer->first->bytes() > size || memory.size() != 1 || !memory[0] || memory[0]->size() != size) {
    return brokenWorker("the worker took in another upload");
  }
  return Received{answer->first->bytes(), answer->first->is_bits(), std::move(memory[0])};
}

llvm::Error WorkerStub::adopt(llvm::ArrayRef<Adopted> values) {
  constexpr size_t kAtOnce = 128; // descriptors that the worker has at a time
  if (values.size() > kAtOnce) {
    llvm::Error error = adopt(values.take_front(kAtOnce));
    return error ? std::move(error) : adopt(values.drop_front(kAtOnce));
  }
  FlatBufferBuilder builder(64 + 96 * values.size());
  std::vector<flatbuffers::Offset<calls::AdoptedValue>> offsets;
  Memory memory;
  for (const Adopted &each : values) {
    auto dims = builder.CreateVector(each.value.type.dims.data(), each.value.type.dims.size());
    offsets.push_back(calls::CreateAdoptedValue(builder, each.value.id, static_cast<uint8_t>(each.value.type.element),
                                                dims, each.isUpload, each.received.bytes, each.received.isBits));
    memory.push_back(each.memory);
  }
  auto body = calls::CreateAdopt(builder, builder.CreateVector(offsets));
  auto answer = ask<calls::Adopted>(*port, builder, calls::CallBody_Adopt, body.Union(), std::move(memory), {},
                                    calls::AnswerBody_Adopted);
  return answer ? llvm::Error::success() : plain(answer.takeError());
}

namespace {
/// Memory on the stack, for calls that must not fail.
class StackMemory final : public flatbuffers::Allocator {
public:
  static constexpr size_t kBytes = 2'048;
  uint8_t *allocate(size_t size) override {
    return size <= kBytes ? memory : throw std::bad_alloc(); // the builder grows for longer lists than kAtOnce
  }
  void deallocate(uint8_t *, size_t) override {}

private:
  alignas(16) uint8_t memory[kBytes];
};
} // namespace

void WorkerStub::drop(llvm::ArrayRef<uint64_t> values, llvm::ArrayRef<uint64_t> codes,
                      llvm::ArrayRef<uint64_t> runs) noexcept {
  constexpr size_t kAtOnce = 64;
  auto part = [](llvm::ArrayRef<uint64_t> &all) {
    const auto first = all.take_front(kAtOnce);
    all = all.drop_front(first.size());
    return first;
  };
  while (!values.empty() || !codes.empty() || !runs.empty()) {
    try {
      StackMemory memory;
      FlatBufferBuilder builder(StackMemory::kBytes, &memory);
      auto list = [&](llvm::ArrayRef<uint64_t> ids) { return builder.CreateVector(ids.data(), ids.size()); };
      auto valuesVector = list(part(values)), codesVector = list(part(codes)), runsVector = list(part(runs));
      auto body = calls::CreateDrop(builder, valuesVector, codesVector, runsVector);
      auto answer =
          ask<calls::Dropped>(*port, builder, calls::CallBody_Drop, body.Union(), {}, {}, calls::AnswerBody_Dropped);
      if (!answer) {
        llvm::consumeError(answer.takeError());
      }
    } catch (const std::bad_alloc &) { // of a worker behind a wire; they go with it
    }
  }
}

} // namespace sojourn::owner
