// SPDX-License-Identifier: Apache-2.0
#include "runtime/parties/JointCode.h"
#include "dialect/CoreForm.h"
#include "dialect/OwnerOps.h"
#include "passes/parties/Stages.h"
#include "runtime/Graph.h"
#include "runtime/Limits.h"
#include "runtime/Types.h"
#include "llvm/ADT/DenseMap.h"
#include <algorithm>
#include <cstring>

namespace sojourn::runtime {

namespace {

struct PlannedExchange {
  std::vector<unsigned> terms, sums; ///< numbers of values; terms of other roles are not read
  std::vector<TensorType> types;     ///< of sums
  FramePlaces sent, came;
};

struct PlannedStage {
  std::unique_ptr<Code> code;
  std::vector<unsigned> arguments, results, last;
  std::optional<PlannedExchange> exchange; ///< after it
};

/// What all runs of one part share. Immutable.
struct Plan {
  unsigned values = 0;
  std::vector<PlannedStage> stages;
  std::vector<unsigned> results;
  size_t arguments = 0;
  size_t heldBytes = 0; ///< of values and frames between stages, at most; without arguments
};

class Run;

/// Runs stages until the next exchange, or to the end.
llvm::Expected<RunOutcome> goOn(std::unique_ptr<Run> run);

/// One run. Values are held by number, from when they are made until no later stage takes them.
class Run final : public Suspended {
public:
  Run(std::shared_ptr<const Plan> plan, llvm::ArrayRef<Binding> arguments, const RunOptions &options)
      : plan_(std::move(plan)), values_(plan_->values), options_(options) {
    std::copy(arguments.begin(), arguments.end(), values_.begin());
  }

  llvm::Expected<RunOutcome> resume(llvm::ArrayRef<std::shared_ptr<Buffer>> came, const RunOptions &options) override {
    if (!plan_) {
      return makeError(ErrorCode::Internal, "a joint run was resumed twice");
    }
    try {
      if (llvm::Error error = check(came)) {
        return error;
      }
      auto next = std::make_unique<Run>(std::move(*this));
      next->options_ = options;
      next->take(came[0]);
      return goOn(std::move(next));
    } catch (const std::bad_alloc &) {
      return makeError(ErrorCode::Limit, kNoMemory);
    }
  }

  /// Runs one stage; whether an exchange comes after it.
  llvm::Expected<bool> runStage() {
    const PlannedStage &stage = plan_->stages[next_++];
    std::vector<Binding> arguments;
    for (unsigned number : stage.arguments) {
      arguments.push_back(values_[number]);
    }
    auto made = stage.code->run(arguments, options_);
    if (!made) {
      return made.takeError();
    }
    for (size_t i = 0; i < stage.results.size(); ++i) {
      values_[stage.results[i]].tensor = std::move((*made)[i]);
    }
    for (unsigned number : stage.last) {
      values_[number] = {};
    }
    return stage.exchange.has_value();
  }

  std::vector<HostTensor> takeResults() {
    std::vector<HostTensor> results;
    for (unsigned number : plan_->results) {
      results.push_back(values_[number].tensor);
    }
    return results;
  }

  /// Before it waits: writes its frame, and copies what is borrowed.
  void suspend() {
    const PlannedExchange &exchange = *plan_->stages[next_ - 1].exchange;
    BufferPool &pool = options_.buffers ? *options_.buffers : BufferPool::global();
    auto frame = pool.allocate(exchange.sent.bytes);
    for (size_t at = 0; at < exchange.terms.size(); ++at) {
      if (exchange.sent.offsets[at] != FramePlaces::kNone) {
        const HostTensor &term = values_[exchange.terms[at]].tensor;
        const size_t bytes = term.type.bytes();
        auto *to = static_cast<std::byte *>(frame->data()) + exchange.sent.offsets[at];
        std::memcpy(to, term.buffer->data(), bytes);
        std::memset(to + bytes, 0, framedBytes(bytes) - bytes); // no memory of others leaves
      }
    }
    frames.assign(1, std::move(frame));
    const auto own = [&](HostTensor &value) {
      if (value.buffer && value.buffer->isBorrowed()) {
        value.buffer = copyOf(value.buffer->data(), value.type.bytes(), pool);
      }
    };
    // What came with the message, sums of a frame that is used again, and results that are such values.
    for (size_t number = 0; next_ == 1 && number < plan_->arguments; ++number) {
      own(values_[number].tensor);
    }
    for (unsigned number : std::exchange(lent_, {})) {
      own(values_[number].tensor);
    }
    for (unsigned number : plan_->stages[next_ - 1].results) {
      own(values_[number].tensor);
    }
    options_ = {};
  }

private:
  llvm::Error check(llvm::ArrayRef<std::shared_ptr<Buffer>> came) const {
    const size_t expected = plan_->stages[next_ - 1].exchange->came.bytes;
    if (came.size() != 1) {
      return makeError(ErrorCode::Malformed,
                       "an exchange got " + std::to_string(came.size()) + " frames, expected 1 with the sums");
    }
    const size_t bytes = came[0] ? came[0]->size() : 0;
    return bytes == expected ? llvm::Error::success()
                             : makeError(ErrorCode::Malformed, "the sums of an exchange have " + std::to_string(bytes) +
                                                                   " bytes, expected " + std::to_string(expected));
  }

  void take(const std::shared_ptr<Buffer> &came) {
    const PlannedExchange &exchange = *plan_->stages[next_ - 1].exchange;
    const std::shared_ptr<Buffer> frame = came ? came : copyOf("", 0); // of sums without bytes
    for (size_t at = 0; at < exchange.sums.size(); ++at) {
      const TensorType &type = exchange.types[at];
      values_[exchange.sums[at]].tensor = {
          type, Buffer::borrow(static_cast<const std::byte *>(frame->data()) + exchange.came.offsets[at], type.bytes(),
                               frame)};
    }
    if (frame->isBorrowed()) { // others live as long as their sums
      lent_ = exchange.sums;
    }
  }

  std::shared_ptr<const Plan> plan_;
  std::vector<Binding> values_;
  RunOptions options_;
  size_t next_ = 0;            ///< stage
  std::vector<unsigned> lent_; ///< sums that go with the call that they came with
};

llvm::Expected<RunOutcome> goOn(std::unique_ptr<Run> run) {
  auto waits = run->runStage();
  if (!waits) {
    return waits.takeError();
  }
  if (!*waits) {
    return RunOutcome{run->takeResults(), nullptr};
  }
  run->suspend();
  return RunOutcome{{}, std::move(run)};
}

class JointCode final : public Code {
public:
  JointCode(const Engine &engine, std::shared_ptr<const Plan> plan, std::vector<ArgSpec> args,
            std::vector<ResultSpec> results)
      : Code(engine), plan_(std::move(plan)), args_(std::move(args)), results_(std::move(results)) {}

  llvm::ArrayRef<ArgSpec> args() const override { return args_; }
  llvm::ArrayRef<ResultSpec> results() const override { return results_; }
  /// Of the largest stage, as arenas are leased stage by stage, and of values that are held between them.
  RunMemory runMemory() const override {
    RunMemory most;
    for (const PlannedStage &stage : plan_->stages) {
      const RunMemory memory = stage.code->runMemory();
      most.arena = std::max(most.arena, memory.arena);
      most.scratch = std::max(most.scratch, memory.scratch);
      most.library = std::max(most.library, memory.library);
    }
    most.arena += plan_->heldBytes;
    return most;
  }
  llvm::ArrayRef<LibraryCalls> libraryCalls() const override { return {}; }
  size_t bytes() const override {
    size_t all = sizeof(Plan);
    for (const PlannedStage &stage : plan_->stages) {
      all += sizeof(stage) + stage.code->bytes();
    }
    return all;
  }

  llvm::Expected<std::vector<HostTensor>> run(llvm::ArrayRef<Binding> arguments,
                                              const RunOptions &options) const override {
    if (plan_->stages.size() > 1) {
      return makeError(ErrorCode::Unsupported, "a joint step waits for other owners, and cannot run in one go");
    }
    auto outcome = start(arguments, options);
    return outcome ? llvm::Expected<std::vector<HostTensor>>(std::move(outcome->values)) : outcome.takeError();
  }

  llvm::Expected<RunOutcome> start(llvm::ArrayRef<Binding> arguments, const RunOptions &options) const override {
    if (arguments.size() != args_.size()) {
      return makeError(ErrorCode::Execution, "the run got " + std::to_string(arguments.size()) +
                                                 " arguments, expected " + std::to_string(args_.size()));
    }
    try {
      return goOn(std::make_unique<Run>(plan_, arguments, options));
    } catch (const std::bad_alloc &) {
      return makeError(ErrorCode::Limit, kNoMemory);
    }
  }

private:
  std::shared_ptr<const Plan> plan_;
  std::vector<ArgSpec> args_;
  std::vector<ResultSpec> results_;
};

PlannedExchange plannedExchange(const parties::Stage &stage, const Exchange &exchange, unsigned role) {
  PlannedExchange planned;
  for (const parties::Stage::Sum &sum : stage.sums) {
    planned.terms.push_back(sum.term);
    planned.sums.push_back(sum.number);
    planned.types.push_back(*tensorTypeOf(sum.type));
  }
  planned.sent = placesOfTerms(exchange, role);
  planned.came = placesOfSums(exchange);
  return planned;
}

/// A frame of terms, its copy under masks, and its shares for other members (owner/peers/JointMessage.cpp).
constexpr size_t kCopiesOfTerms = 3;

/// The most that a run holds between stages; frames are bounded as results are.
llvm::Error planMemory(Plan &plan, const std::vector<TensorType> &types) {
  struct Frame {
    size_t bytes = 0, left = 0; ///< and sums that are still needed
  };
  std::vector<Frame> frames;
  llvm::DenseMap<unsigned, size_t> frameOf; // of a sum
  size_t held = 0;
  for (const PlannedStage &stage : plan.stages) {
    for (unsigned number : stage.results) {
      held += types[number].bytes();
    }
    size_t sent = 0;
    if (stage.exchange) {
      sent = kCopiesOfTerms * stage.exchange->sent.bytes;
      for (unsigned number : stage.exchange->sums) {
        frameOf[number] = frames.size();
      }
      frames.push_back({stage.exchange->came.bytes, stage.exchange->sums.size()});
      held += frames.back().bytes;
      if (sent + frames.back().bytes > static_cast<size_t>(limits::kResultBytes)) {
        return makeError(ErrorCode::Limit, "the terms of an exchange between owners have " +
                                               std::to_string(sent + frames.back().bytes) + " bytes, the limit is " +
                                               std::to_string(limits::kResultBytes));
      }
    }
    plan.heldBytes = std::max(plan.heldBytes, held + sent);
    for (unsigned number : stage.last) {
      if (auto framed = frameOf.find(number); framed != frameOf.end()) {
        Frame &frame = frames[framed->second];
        held -= --frame.left == 0 ? frame.bytes : 0;
      } else {
        held -= number < plan.arguments ? 0 : types[number].bytes();
      }
    }
  }
  return llvm::Error::success();
}

} // namespace

std::vector<Exchange> exchangesOf(mlir::ModuleOp part) {
  std::vector<Exchange> exchanges;
  for (AcrossSumOp sum : part.lookupSymbol<mlir::func::FuncOp>(kStepName).getOps<AcrossSumOp>()) {
    Exchange &exchange = exchanges.emplace_back();
    for (auto [index, term] : llvm::enumerate(sum.getTerms())) {
      const TensorType type = *tensorTypeOf(mlir::cast<mlir::RankedTensorType>(term.getType()));
      exchange.push_back({type.element, static_cast<uint64_t>(type.numel()),
                          static_cast<uint32_t>(sum.getFrom()[index]), sum.isMasked(index)});
    }
  }
  return exchanges;
}

llvm::Expected<std::unique_ptr<Code>> prepareJoint(const Engine &engine, mlir::ModuleOp part, StageCheck check) {
  if (mlir::failed(verifyCoreFormOfRole(part)) || !part->hasAttr(kRoleAttr)) {
    return makeError(ErrorCode::Unsupported, "the module is not the part of a role");
  }
  auto graph = buildGraph(part);
  if (!graph) {
    return graph.takeError();
  }
  const parties::Stages cut = parties::stagesOf(part);
  const std::vector<Exchange> exchanges = exchangesOf(part);
  auto plan = std::make_shared<Plan>();
  plan->arguments = graph->args.size();
  const auto role = static_cast<unsigned>(part->getAttrOfType<mlir::IntegerAttr>(kRoleAttr).getInt());
  plan->values = cut.values;
  plan->results = cut.results;
  std::vector<TensorType> types(cut.values);
  for (size_t i = 0; i < graph->args.size(); ++i) {
    types[i] = graph->args[i].type;
  }
  for (size_t i = 0; i < cut.stages.size(); ++i) {
    const parties::Stage &stage = cut.stages[i];
    auto code = engine.prepare(*stage.module);
    if (!code) {
      return code.takeError();
    }
    if (llvm::Error error = check ? check(*stage.module, **code) : llvm::Error::success()) {
      return error;
    }
    for (size_t k = 0; k < stage.results.size(); ++k) {
      types[stage.results[k]] = (*code)->results()[k].type;
    }
    PlannedStage planned{std::move(*code), stage.arguments, stage.results, stage.last, std::nullopt};
    if (i + 1 < cut.stages.size()) {
      planned.exchange = plannedExchange(stage, exchanges[i], role);
    }
    plan->stages.push_back(std::move(planned));
  }
  if (llvm::Error error = planMemory(*plan, types)) {
    return error;
  }
  return std::make_unique<JointCode>(engine, std::move(plan), std::move(graph->args), std::move(graph->results));
}

} // namespace sojourn::runtime
