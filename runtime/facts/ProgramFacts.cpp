// SPDX-License-Identifier: Apache-2.0
// Counts of a program's signature, and the checks that an owner's commit rests on.
#include "runtime/facts/ProgramFacts.h"
#include "dialect/Bounds.h"
#include "runtime/Error.h"
#include "runtime/Limits.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

namespace sojourn::runtime {

using llvm::Twine;

static llvm::Error failure(ErrorCode code, const Twine &text) { return makeError(code, text.str()); }

size_t RunMemory::bytes(unsigned threads) const {
  return llvm::SaturatingAdd(llvm::SaturatingAdd(arena, library), llvm::SaturatingMultiply<uint64_t>(scratch, threads));
}

static llvm::Error countArgument(size_t index, const ArgSpec &spec, ProgramFacts &facts) {
  auto wrong = [&](const char *kind, const char *expected) {
    return failure(ErrorCode::Unsupported, "argument " + Twine(index) + " is a " + kind + " of rank " +
                                               Twine(spec.type.rank()) + " and element " +
                                               elementName(spec.type.element) + ", expected " + expected);
  };
  const Element element = spec.type.element;
  switch (spec.kind) {
  case StepArg::State: ++facts.states; break;
  case StepArg::Upload: ++facts.uploads; break;
  case StepArg::Slot:
    ++facts.slots;
    if (spec.type.rank() || (element != Element::f64 && element != Element::i64 && element != Element::i1)) {
      return wrong("slot", "tensor<f64>, tensor<i64> or tensor<i1>");
    }
    break;
  case StepArg::Seed:
    ++facts.seeds;
    if (spec.type.rank() || element != Element::i64) {
      return wrong("seed", "tensor<i64>");
    }
    break;
  case StepArg::Table: ++facts.tables; break;
  case StepArg::Coin: return wrong("coin", "none in a program");
  }
  return llvm::Error::success();
}

/// Positions of the part are in the joint step, each once and in its order.
static llvm::Error checkJoint(const ProgramFacts &facts) {
  const JointFacts &joint = *facts.joint;
  std::vector<std::optional<uint32_t>> last(joint.counts.size());
  std::optional<uint32_t> lastKept;
  auto follows = [](uint32_t position, std::optional<uint32_t> &before, uint32_t count) {
    const bool isFine = position < count && (!before || *before < position);
    before = position;
    return isFine;
  };
  bool isFine = joint.role < joint.parties && joint.parties <= bounds::kPartiesMost &&
                joint.positions.size() == facts.args.size() && joint.shown.size() == facts.args.size() &&
                joint.kept.size() == facts.keeps;
  for (size_t index = 0; isFine && index < facts.args.size(); ++index) {
    const auto kind = static_cast<size_t>(facts.args[index].kind);
    isFine = joint.shown[index] <= Shown::Clear && follows(joint.positions[index], last[kind], joint.counts[kind]);
  }
  for (size_t index = 0; isFine && index < facts.keeps; ++index) {
    isFine = follows(joint.kept[index], lastKept, joint.keeps);
  }
  std::optional<uint32_t> lastCopy, lastState;
  for (size_t at = 0; isFine && at < joint.copies.size(); ++at) {
    isFine = follows(joint.copies[at], lastCopy, static_cast<uint32_t>(facts.results.size()));
  }
  for (size_t at = 0; isFine && at < joint.copiedStates.size(); ++at) {
    isFine = follows(joint.copiedStates[at], lastState, static_cast<uint32_t>(facts.args.size())) &&
             facts.args[joint.copiedStates[at]].kind == StepArg::State;
  }
  for (size_t at = 0; isFine && at < joint.exchanges.size(); ++at) {
    uint64_t bytes = 0;
    for (const ExchangeTerm &term : joint.exchanges[at]) {
      const auto roles = llvm::popcount(term.from);
      const size_t width = byteWidth(term.element);
      const bool isMaskable =
          term.element == Element::i64 && roles >= bounds::kMaskedRolesLeast && term.from == (1u << joint.parties) - 1;
      if (roles == 0 || term.from >> joint.parties != 0 || term.element == Element::i1 ||
          term.elements > (static_cast<uint64_t>(limits::kResultBytes) - bytes) / width ||
          (term.isMasked && !isMaskable)) {
        return failure(ErrorCode::Malformed, "an exchange of the joint step has a term that no program has");
      }
      bytes += term.elements * width;
    }
  }
  return isFine ? llvm::Error::success()
                : failure(ErrorCode::Malformed, "the part of role " + Twine(joint.role) +
                                                    " has arguments or results "
                                                    "that the joint step does not have");
}

llvm::Error ProgramFacts::count() {
  states = uploads = slots = seeds = tables = keeps = publishes = 0;
  publishBytes = 0;
  for (size_t index = 0; index < args.size(); ++index) {
    if (llvm::Error error = countArgument(index, args[index], *this)) {
      return error;
    }
  }
  if (dependence.argumentCount() != args.size() || dependence.resultCount() != results.size()) {
    return failure(ErrorCode::Internal, "the program has no complete record of the dependences of its results");
  }
  std::vector<bool> committed(args.size());
  for (size_t index = 0; index < results.size(); ++index) {
    const ResultSpec &spec = results[index];
    if (spec.kind == StepResult::Keep) {
      ++keeps;
    } else if (spec.kind == StepResult::Publish) {
      ++publishes;
      publishBytes = llvm::SaturatingAdd<uint64_t>(publishBytes, spec.type.bytes());
    } else if (spec.target >= args.size() || args[spec.target].kind != StepArg::State ||
               !(args[spec.target].type == spec.type) || committed[spec.target]) {
      return failure(ErrorCode::Malformed, "result " + Twine(index) + " commits to argument " + Twine(spec.target) +
                                               ", expected a state of the same type to which no other result commits");
    } else {
      committed[spec.target] = true;
    }
  }
  return joint ? checkJoint(*this) : llvm::Error::success();
}

size_t ProgramFacts::bytes() const {
  size_t total =
      sizeof(*this) + dependence.bytes() + args.size() * sizeof(ArgSpec) + results.size() * sizeof(ResultSpec);
  for (const ArgSpec &arg : args) {
    for (const TableColumn &column : arg.columns) {
      total += sizeof(column) + column.name.size();
    }
    for (const std::vector<Side> &part : arg.parts) {
      total += sizeof(part) + part.size() * sizeof(Side);
    }
  }
  if (joint) {
    total += 9 * joint->positions.size(); // and `shown`
    total += 4 * (joint->kept.size() + joint->copies.size() + joint->copiedStates.size());
    for (const Exchange &exchange : joint->exchanges) {
      total += sizeof(exchange) + exchange.size() * sizeof(ExchangeTerm);
    }
  }
  for (const ResultSpec &result : results) {
    total += result.op.size() + result.location.size();
  }
  return total;
}

} // namespace sojourn::runtime
