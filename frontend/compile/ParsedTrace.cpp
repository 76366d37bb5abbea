// SPDX-License-Identifier: Apache-2.0
#include "frontend/compile/ParsedTrace.h"

#include <utility>

namespace sojourn::frontend::parsed {

namespace {

class Parser {
public:
  explicit Parser(const Trace &trace) : trace_(trace) {}

  ParsedTrace run() {
    stream_ = &trace_.inputs;
    for (at_ = 0; at_ < stream_->size();) {
      int64_t id = next();
      const Word kind = next();
      Layout layout = parseLayout(static_cast<Element>(next()));
      parsed_.inputs.push_back({id, inputKindOf(kind), placeIdOf(kind), std::move(layout)});
    }
    stream_ = &trace_.tables;
    for (at_ = 0; at_ < stream_->size();) {
      Table table{next(), next(), next(), {}};
      for (Word count = next(); count > 0; --count) {
        Word name = next();
        auto element = static_cast<Element>(next());
        table.columns.push_back({name, element, parseList()});
      }
      parsed_.tables.push_back(std::move(table));
    }
    stream_ = &trace_.words;
    for (at_ = 0; at_ < stream_->size();) {
      switch (static_cast<Record>(next())) {
      case Record::Op: parseOp({PromotionRules::Torch, defaultFloat_}); break;
      case Record::NumpyOp: parseOp(kNumpyTypes); break;
      case Record::DefaultFloat: defaultFloat_ = static_cast<Element>(next()); break;
      case Record::Outputs:
        parsed_.keep = parseList();
        parsed_.publish = parseList();
        parsed_.trained = parseList();
      }
    }
    return std::move(parsed_);
  }

private:
  Word next() { return (*stream_)[at_++]; }
  std::vector<Word> parseList() {
    std::vector<Word> values(next());
    for (Word &value : values) {
      value = next();
    }
    return values;
  }
  Layout parseLayout(Element element) {
    Layout layout{element, {}, {}};
    Word rank = next();
    for (Word i = 0; i < rank; ++i) {
      layout.sizes.push_back(next());
    }
    for (Word i = 0; i < rank; ++i) {
      layout.strides.push_back(next());
    }
    return layout;
  }
  void parseOp(TypeContext types) {
    Node node;
    node.entry = next();
    node.types = types;
    Word count = next();
    for (Word i = 0; i < count; ++i) {
      node.arguments.push_back(parseArgument());
    }
    Word results = next();
    for (Word i = 0; i < results; ++i) {
      Word element = next();
      node.results.push_back(element < 0 ? std::nullopt : std::optional(parseLayout(static_cast<Element>(element))));
    }
    parsed_.nodes.push_back(std::move(node));
  }
  Argument parseArgument() {
    Argument argument;
    argument.tag = static_cast<Tag>(next());
    switch (argument.tag) {
    case Tag::None:
    case Tag::Slot:
    case Tag::IntSlot:
    case Tag::Seed: break;
    case Tag::Complex: argument.values = {next(), next()}; break;
    case Tag::View:
    case Tag::TypedView:
    case Tag::MovedView: {
      argument.value = next();
      Word rank = next();
      argument.values.push_back(rank);
      for (Word i = 0; i < 2 * rank + 1; ++i) {
        argument.values.push_back(next());
      }
      if (argument.tag == Tag::TypedView) {
        argument.element = static_cast<Element>(next());
      } else if (argument.tag == Tag::MovedView) {
        argument.seen = parseList();
        argument.moves.resize(2 * static_cast<size_t>(next()));
        for (Word &word : argument.moves) {
          word = next();
        }
      }
      break;
    }
    case Tag::IntList:
    case Tag::BoolList:
    case Tag::StringList: argument.values = parseList(); break;
    case Tag::List:
      for (Word count = next(); count > 0; --count) {
        argument.children.push_back(parseArgument());
      }
      break;
    default: argument.value = next();
    }
    return argument;
  }

  const Trace &trace_;
  ParsedTrace parsed_;
  const std::vector<Word> *stream_ = nullptr;
  size_t at_ = 0;
  Element defaultFloat_ = Element::f32;
};

} // namespace

ParsedTrace parse(const Trace &trace) { return Parser(trace).run(); }

} // namespace sojourn::frontend::parsed
