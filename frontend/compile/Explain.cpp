// SPDX-License-Identifier: Apache-2.0
// How two traces differ, in words (see Explain.h).
#include "frontend/compile/Explain.h"

#include "dialect/Signature.h"
#include "frontend/recording/Origin.h"
#include "frontend/recording/TraceWalk.h"

#include <algorithm>
#include <bit>
#include <optional>

namespace sojourn::frontend {

namespace {

/// Where the records of a trace and their parts begin.
struct Parts : TraceVisitor {
  struct Op {
    size_t begin = 0, end = 0;
    const OpEntry *entry = nullptr;
    std::vector<size_t> results; ///< positions of their elements
  };
  explicit Parts(const std::vector<Word> &words) : words(words) { TraceWalk(words, *this).run(); }
  void beginOp(size_t begin, const OpEntry &entry) { ops.push_back({begin, 0, &entry, {}}); }
  void result(size_t at) { ops.back().results.push_back(at); }
  void endOp(size_t end) { ops.back().end = end; }
  void outputs(size_t at) { kept = at; }

  const std::vector<Word> &words;
  std::vector<Op> ops;
  size_t kept = 0; ///< of the count of storages that live on
};

std::string listOf(const Word *begin, size_t count) {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i) {
    text += (i ? ", " : "") + std::to_string(begin[i]);
  }
  return text + "]";
}

std::string tensorText(const Word *element, size_t rank, const Word *sizes) {
  return std::string(elementName(static_cast<Element>(*element))) + listOf(sizes, rank);
}

/// One argument from its tag on, and the position after it. Values that are slots are not there to be shown.
std::string argumentText(const std::vector<Word> &words, size_t &at) {
  switch (static_cast<Tag>(words[at++])) {
  case Tag::None: return "None";
  case Tag::Whole: ++at; return "a whole tensor";
  case Tag::View:
  case Tag::TypedView: {
    const bool isTyped = static_cast<Tag>(words[at - 1]) == Tag::TypedView;
    const auto rank = static_cast<size_t>(words[at + 1]);
    std::string text = "a window of sizes " + listOf(&words[at + 2], rank) + ", strides " +
                       listOf(&words[at + 2 + rank], rank) + ", offset " + std::to_string(words[at + 2 + 2 * rank]);
    at += 3 + 2 * rank + static_cast<size_t>(isTyped);
    return isTyped ? text + " as " + std::string(elementName(static_cast<Element>(words[at - 1]))) : text;
  }
  case Tag::Slot:
  case Tag::IntSlot: return "a run-time number";
  case Tag::Seed: return "a seed";
  case Tag::Bool: return words[at++] ? "True" : "False";
  case Tag::Real: return std::to_string(std::bit_cast<double>(words[at++]));
  case Tag::Complex:
    at += 2;
    return std::to_string(std::bit_cast<double>(words[at - 2])) + " + " +
           std::to_string(std::bit_cast<double>(words[at - 1])) + "j";
  case Tag::Dtype: return std::string(elementName(static_cast<Element>(words[at++])));
  case Tag::String: return "'" + StringTable::get().at(words[at++]) + "'";
  case Tag::IntList:
  case Tag::BoolList: {
    const auto count = static_cast<size_t>(words[at]);
    std::string text = listOf(&words[at + 1], count);
    at += 1 + count;
    return text;
  }
  case Tag::StringList: {
    at += 1 + static_cast<size_t>(words[at]);
    return "names";
  }
  case Tag::List: {
    const auto count = static_cast<size_t>(words[at++]);
    std::string text = "[";
    for (size_t i = 0; i < count; ++i) {
      text += (i ? ", " : "") + argumentText(words, at);
    }
    return text + "]";
  }
  case Tag::TableRef: ++at; return "a table";
  default: return std::to_string(words[at++]);
  }
}

SourceLine lineOf(const Trace &trace, size_t op) {
  if (op >= trace.origins.size()) {
    return {};
  }
  const Origin &origin = trace.origins[op];
  SourceLine forward = resolveFrame(origin.forward);
  return forward.file.empty() ? resolveFrame(origin.frame) : forward;
}

/// An op of the trace with what differs.
Explanation differing(const Trace &trace, const Parts::Op &op, size_t index, std::string argument, std::string before,
                      std::string now) {
  Explanation explanation;
  explanation.op = op.entry->name;
  explanation.argument = std::move(argument);
  explanation.before = std::move(before);
  explanation.now = std::move(now);
  explanation.line = lineOf(trace, index);
  explanation.why =
      explanation.op + ": " + explanation.argument + " is " + explanation.now + ", was " + explanation.before;
  return explanation;
}

std::optional<Explanation> compareInputs(const Trace &trace, const std::vector<Word> &before) {
  size_t now = 0, then = 0;
  const std::vector<Word> &inputs = trace.inputs;
  auto text = [](const std::vector<Word> &stream, size_t at) {
    const bool isUpload = inputKindOf(stream[at + 1]) == InputKind::Upload;
    return (isUpload ? "an upload, " : "a value at the owner, ") +
           tensorText(&stream[at + 2], static_cast<size_t>(stream[at + 3]), &stream[at + 4]);
  };
  for (size_t number = 0; now < inputs.size() && then < before.size(); ++number) {
    const size_t length = 4 + 2 * static_cast<size_t>(inputs[now + 3]);
    const size_t other = 4 + 2 * static_cast<size_t>(before[then + 3]);
    std::string is = text(inputs, now), was = text(before, then);
    if (is != was) {
      Explanation explanation;
      explanation.argument = "input " + std::to_string(number);
      explanation.before = was;
      explanation.now = is;
      explanation.why = explanation.argument + " is " + is + "; it was " + was;
      return explanation;
    }
    now += length;
    then += other;
  }
  return std::nullopt;
}

} // namespace

size_t agreement(const Trace &trace, const std::vector<Word> &words) {
  const size_t least = std::min(trace.words.size(), words.size());
  return static_cast<size_t>(
      std::mismatch(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(least), trace.words.begin()).first -
      words.begin());
}

Explanation explainDifference(const Trace &trace, const TraceWords *before) {
  Explanation explanation;
  if (!before) {
    explanation.why = "the first program of this session";
    explanation.line = lineOf(trace, 0);
    return explanation;
  }
  Parts now(trace.words), then(*before->words);
  for (size_t i = 0; i < now.ops.size(); ++i) {
    const Parts::Op &op = now.ops[i];
    if (i == then.ops.size()) {
      explanation.op = op.entry->name;
      explanation.now = std::to_string(now.ops.size()) + " ops";
      explanation.before = std::to_string(then.ops.size()) + " ops";
      explanation.line = lineOf(trace, i);
      explanation.why = "it continues with " + explanation.op + " where the most similar earlier program ended";
      return explanation;
    }
    const Parts::Op &old = then.ops[i];
    if (op.entry != old.entry) {
      return differing(trace, op, i, "the op", old.entry->name, op.entry->name);
    }
    if (std::equal(trace.words.begin() + static_cast<std::ptrdiff_t>(op.begin),
                   trace.words.begin() + static_cast<std::ptrdiff_t>(op.end),
                   before->words->begin() + static_cast<std::ptrdiff_t>(old.begin),
                   before->words->begin() + static_cast<std::ptrdiff_t>(old.end))) {
      continue;
    }
    for (size_t k = 0; k < std::min(op.results.size(), old.results.size()); ++k) {
      auto text = [](const std::vector<Word> &words, size_t at) {
        return words[at] < 0 ? std::string("undefined")
                             : tensorText(&words[at], static_cast<size_t>(words[at + 1]), &words[at + 2]);
      };
      std::string is = text(trace.words, op.results[k]), was = text(*before->words, old.results[k]);
      if (is != was) {
        return differing(trace, op, i, "its result", was, is);
      }
    }
    size_t at = op.begin + 3, other = old.begin + 3;
    for (const std::string &name : op.entry->argumentNames) {
      const size_t from = at, otherFrom = other;
      std::string is = argumentText(trace.words, at), was = argumentText(*before->words, other);
      if (!std::equal(trace.words.begin() + static_cast<std::ptrdiff_t>(from),
                      trace.words.begin() + static_cast<std::ptrdiff_t>(at),
                      before->words->begin() + static_cast<std::ptrdiff_t>(otherFrom),
                      before->words->begin() + static_cast<std::ptrdiff_t>(other))) {
        if (is == was) {
          is = "another tensor";
          was = "a tensor that is now used elsewhere";
        }
        return differing(trace, op, i, name, was, is);
      }
    }
    return differing(trace, op, i, "the layout of its result", "another", "new");
  }
  if (then.ops.size() > now.ops.size()) {
    explanation.before = std::to_string(then.ops.size()) + " ops";
    explanation.now = std::to_string(now.ops.size()) + " ops";
    explanation.line = lineOf(trace, now.ops.empty() ? 0 : now.ops.size() - 1);
    explanation.why =
        "it ends where the most similar earlier program continues with " + then.ops[now.ops.size()].entry->name;
    return explanation;
  }
  if (auto inputs = compareInputs(trace, *before->inputs)) {
    inputs->line = lineOf(trace, 0);
    return *inputs;
  }
  const Word is = trace.words[now.kept], was = (*before->words)[then.kept];
  explanation.before = std::to_string(was) + " values";
  explanation.now = std::to_string(is) + " values";
  explanation.line = lineOf(trace, now.ops.empty() ? 0 : now.ops.size() - 1);
  explanation.why = is == was ? "it keeps or publishes other values than the most similar earlier program"
                              : explanation.now + " are kept after it, " + explanation.before +
                                    " after the most similar earlier program";
  return explanation;
}

Explanation explainInteger(const Trace &trace, const Skeleton &skeleton, size_t integer, int64_t before) {
  const Skeleton::Integer &found = skeleton.integers[integer];
  const Parts parts(trace.words);
  const std::vector<std::string> &arguments = parts.ops[found.op].entry->argumentNames;
  std::string name = found.argument < arguments.size() ? arguments[found.argument] : "an argument";
  if (found.dim >= 0) {
    name = "the start of " + name + " along dim " + std::to_string(found.dim) + " of its storage";
  }
  return differing(trace, parts.ops[found.op], found.op, std::move(name), std::to_string(before),
                   std::to_string(found.value));
}

} // namespace sojourn::frontend
