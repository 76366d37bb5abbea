// SPDX-License-Identifier: Apache-2.0
// One way through the words of a trace, for all who look for something in them.
#ifndef SOJOURN_FRONTEND_RECORDING_TRACEWALK_H
#define SOJOURN_FRONTEND_RECORDING_TRACEWALK_H

#include "frontend/recording/Trace.h"

namespace sojourn::frontend {

/// What a walk tells; a visitor derives from it and hides what it asks for. Positions are positions of words.
struct TraceVisitor {
  void defaultFloat(Element) {}
  /// `begin`: of the record.
  void beginOp(size_t /*begin*/, const OpEntry &) {}
  void beginArgument(size_t /*index*/) {}
  /// The word there is a storage's id; of a view, rank, sizes, strides and offset follow. A view of another element
  /// type counts as none.
  void reference(size_t /*at*/, bool /*isView*/, bool /*isMutated*/) {}
  void number(size_t /*at*/) {}
  void slot(Tag) {}
  void seed() {}
  void tableRef() {}
  /// The word there is the element of a result, -1 where it is undefined; else rank, sizes and strides follow.
  void result(size_t /*at*/) {}
  void endOp(size_t /*end*/) {}
  /// The lists of the Outputs record begin there.
  void outputs(size_t /*at*/) {}
  /// Asked before each record.
  bool goesOn() { return true; }
};

template <class Visitor>
class TraceWalk {
public:
  TraceWalk(const std::vector<Word> &words, Visitor &visitor) : words_(words), visitor_(visitor) {}

  void run() {
    while (at_ < words_.size() && visitor_.goesOn()) {
      const size_t begin = at_;
      switch (static_cast<Record>(words_[at_++])) {
      case Record::Op:
      case Record::NumpyOp: op(begin); break;
      case Record::DefaultFloat: visitor_.defaultFloat(static_cast<Element>(words_[at_++])); break;
      case Record::Outputs:
        visitor_.outputs(at_);
        for (int list = 0; list < 3; ++list) {
          at_ += 1 + static_cast<size_t>(words_[at_]);
        }
      }
    }
  }

private:
  Word word() { return words_[at_++]; }
  void skip(Word count) { at_ += static_cast<size_t>(count); }

  void op(size_t begin) {
    const OpEntry &entry = OpTable::get().at(word());
    visitor_.beginOp(begin, entry);
    const auto arguments = static_cast<size_t>(word());
    for (size_t i = 0; i < arguments; ++i) {
      visitor_.beginArgument(i);
      argument(entry.mutated[i]);
    }
    for (Word count = word(); count > 0; --count) {
      visitor_.result(at_);
      if (word() >= 0) {
        skip(2 * words_[at_] + 1);
      }
    }
    visitor_.endOp(at_);
  }

  void argument(bool isMutated) {
    const Tag tag = static_cast<Tag>(word());
    switch (tag) {
    case Tag::None: break;
    case Tag::Slot:
    case Tag::IntSlot: visitor_.slot(tag); break;
    case Tag::Seed: visitor_.seed(); break;
    case Tag::Whole:
    case Tag::View:
    case Tag::TypedView:
      visitor_.reference(at_, tag == Tag::View, isMutated);
      ++at_;
      if (tag != Tag::Whole) {
        skip(2 * words_[at_] + (tag == Tag::View ? 2 : 3));
      }
      break;
    case Tag::Number: visitor_.number(at_++); break;
    case Tag::TableRef:
      visitor_.tableRef();
      ++at_;
      break;
    case Tag::IntList:
    case Tag::BoolList:
    case Tag::StringList: skip(words_[at_] + 1); break;
    case Tag::List:
      for (Word count = word(); count > 0; --count) {
        argument(isMutated);
      }
      break;
    case Tag::Complex: skip(2); break;
    case Tag::Int:
    case Tag::Bool:
    case Tag::Real:
    case Tag::Dtype:
    case Tag::String: ++at_; break;
    case Tag::RunNumber:
    case Tag::MovedView: break; // of general forms, which nobody walks
    }
  }

  const std::vector<Word> &words_;
  Visitor &visitor_;
  size_t at_ = 0;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_TRACEWALK_H
