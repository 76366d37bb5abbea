// SPDX-License-Identifier: Apache-2.0
// Small linear functions of noise for the numbers of one step: standard deviations (see NoiseForm.h).
#include "passes/privacy/NoiseForm.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <utility>

namespace sojourn {

/// Per element the coins that it holds, and their coefficients.
using Row = llvm::SmallVector<std::pair<uint64_t, double>, 1>;

/// What is known of a node's value.
struct NoiseForm::Known {
  /// Its elements, if it is free of noise and known.
  std::optional<std::vector<double>> numbers;
  bool isNoised = false;
  std::vector<Row> rows;
  /// Of large ones: each element has a coin of its own, all with this coefficient times deviation.
  std::optional<double> alike;
};

class NoiseForm::Evaluator {
public:
  Evaluator(const std::vector<Node> &nodes, ArgumentValues argument) : nodes(nodes), argument(argument) {}

  std::optional<std::vector<double>> run() {
    for (const Node &node : nodes) {
      Known value;
      value.isNoised =
          node.kind == Kind::Noise || llvm::any_of(node.operands, [&](unsigned each) { return known[each].isNoised; });
      if (!value.isNoised) {
        work += node.numel <= kElementsMost ? node.numel + node.source.size() : 0;
      }
      bool isAlike = llvm::any_of(node.operands, [&](unsigned each) { return known[each].alike.has_value(); });
      bool good = node.kind == Kind::Noise ? source(node, value)
                  : !value.isNoised        ? evaluate(node, value)
                  : isAlike                ? scale(node, value)
                                           : combine(node, value);
      if (!good || work > kEntriesMost) {
        return std::nullopt;
      }
      known.push_back(std::move(value));
    }
    return deviations(known.back());
  }

private:
  const Known &operand(const Node &node, size_t k) const { return known[node.operands[k]]; }
  /// Of an operand that may be one number for all.
  size_t at(const Node &node, size_t k, size_t element) const {
    return nodes[node.operands[k]].numel == 1 ? 0 : element;
  }
  double numberAt(const Node &node, size_t k, size_t element) const {
    return (*operand(node, k).numbers)[at(node, k, element)];
  }

  bool source(const Node &node, Known &value) {
    if (node.numel > kElementsMost) {
      value.alike = node.number;
      return true;
    }
    sources.push_back({coins, node.number});
    for (size_t k = 0; k < node.numel; ++k) {
      value.rows.push_back({{coins++, 1}});
    }
    return true;
  }

  /// Free of noise: what cannot be told is not known.
  bool evaluate(const Node &node, Known &value) const {
    bool areKnown = llvm::all_of(node.operands, [&](unsigned each) { return known[each].numbers.has_value(); });
    if (node.kind == Kind::Argument && node.numel <= kElementsMost) {
      value.numbers = argument(node.argument);
      if (value.numbers && value.numbers->size() != node.numel) {
        value.numbers.reset();
      }
    } else if (node.kind == Kind::Constant) {
      value.numbers.emplace(node.numel, node.number);
    } else if (areKnown && !node.operands.empty() && node.kind != Kind::Public) {
      value.numbers.emplace(node.numel, 0.0);
      std::vector<double> &result = *value.numbers;
      for (size_t k = 0; node.kind == Kind::Sum && k < node.source.size(); ++k) {
        result[node.source[k]] += numberAt(node, 0, k);
      }
      for (size_t k = 0; node.kind == Kind::Dot && k < node.source.size(); k += 3) {
        result[node.source[k]] += numberAt(node, 0, node.source[k + 1]) * numberAt(node, 1, node.source[k + 2]);
      }
      for (size_t k = 0, next = 0; node.kind == Kind::Join && k < node.operands.size(); ++k) {
        for (size_t element = 0; element < nodes[node.operands[k]].numel; ++element) {
          result[node.source[next++]] = numberAt(node, k, element);
        }
      }
      bool isElementwise = node.kind != Kind::Sum && node.kind != Kind::Dot && node.kind != Kind::Join;
      for (size_t k = 0; isElementwise && k < node.numel; ++k) {
        result[k] = elementOf(node, k);
      }
    }
    return true;
  }

  double elementOf(const Node &node, size_t k) const {
    double x = numberAt(node, 0, node.kind == Kind::Map ? node.source[k] : k);
    switch (node.kind) {
    case Kind::Truncate: return std::trunc(x);
    case Kind::Negate: return -x;
    case Kind::Add: return x + numberAt(node, 1, k);
    case Kind::Subtract: return x - numberAt(node, 1, k);
    case Kind::Multiply: return x * numberAt(node, 1, k);
    case Kind::Divide: return x / numberAt(node, 1, k);
    default: return x;
    }
  }

  /// Large ones: what keeps elements apart and scales all alike.
  bool scale(const Node &node, Known &value) const {
    bool isFirst = operand(node, 0).alike.has_value();
    double alike = *operand(node, isFirst ? 0 : 1).alike;
    const Known *other = node.operands.size() == 2 ? &operand(node, isFirst ? 1 : 0) : nullptr;
    if (node.kind == Kind::Multiply || node.kind == Kind::Divide) {
      if (!other->numbers || other->numbers->size() != 1 || (node.kind == Kind::Divide && !isFirst)) {
        return false;
      }
      double factor = std::abs((*other->numbers)[0]);
      value.alike = node.kind == Kind::Multiply ? alike * factor : alike / factor;
      return true;
    }
    value.alike = alike;
    bool isSum = node.kind == Kind::Add || node.kind == Kind::Subtract;
    return isSum ? !other->isNoised : node.kind == Kind::Same || node.kind == Kind::Negate;
  }

  void add(Row &row, const Row &other, double factor) {
    for (auto [coin, coefficient] : other) {
      row.push_back({coin, factor * coefficient});
    }
    work += other.size();
  }

  const Row &rowAt(const Node &node, size_t k, size_t element) const {
    static const Row none;
    return operand(node, k).isNoised ? operand(node, k).rows[at(node, k, element)] : none;
  }

  bool combine(const Node &node, Known &value) {
    value.rows.resize(node.numel);
    std::vector<Row> &rows = value.rows;
    switch (node.kind) {
    case Kind::Multiply:
    case Kind::Divide:
    case Kind::Dot:
      if (!multiply(node, rows)) {
        return false;
      }
      break;
    case Kind::Sum:
      for (size_t k = 0; k < node.source.size() && work <= kEntriesMost; ++k) {
        add(rows[node.source[k]], rowAt(node, 0, k), 1);
      }
      break;
    case Kind::Join: {
      size_t next = 0;
      for (size_t k = 0; k < node.operands.size(); ++k) {
        for (size_t element = 0; element < nodes[node.operands[k]].numel; ++element) {
          add(rows[node.source[next++]], rowAt(node, k, element), 1);
        }
      }
      break;
    }
    case Kind::Add:
    case Kind::Subtract:
      for (size_t k = 0; k < node.numel && work <= kEntriesMost; ++k) {
        add(rows[k], rowAt(node, 0, k), 1);
        add(rows[k], rowAt(node, 1, k), node.kind == Kind::Add ? 1 : -1);
      }
      break;
    case Kind::Map:
    case Kind::Same:
    case Kind::Negate:
      for (size_t k = 0; k < node.numel && work <= kEntriesMost; ++k) {
        add(rows[k], rowAt(node, 0, node.kind == Kind::Map ? node.source[k] : k), node.kind == Kind::Negate ? -1 : 1);
      }
      break;
    default: return false;
    }
    for (Row &row : rows) {
      unite(row);
    }
    return true;
  }

  bool multiply(const Node &node, std::vector<Row> &rows) {
    size_t noised = operand(node, 0).isNoised ? 0 : 1;
    const Known &factor = operand(node, 1 - noised);
    if (factor.isNoised || !factor.numbers || (node.kind == Kind::Divide && noised == 1)) {
      return false;
    }
    for (size_t k = 0; node.kind == Kind::Dot && k < node.source.size() && work <= kEntriesMost; k += 3) {
      add(rows[node.source[k]], rowAt(node, noised, node.source[k + 1 + noised]),
          numberAt(node, 1 - noised, node.source[k + 2 - noised]));
    }
    for (size_t k = 0; node.kind != Kind::Dot && k < node.numel && work <= kEntriesMost; ++k) {
      double by = numberAt(node, 1 - noised, k);
      add(rows[k], rowAt(node, noised, k), node.kind == Kind::Divide ? 1 / by : by);
    }
    return true;
  }

  /// One coefficient for each coin.
  static void unite(Row &row) {
    if (row.size() < 2) {
      return;
    }
    llvm::sort(row);
    Row united;
    for (auto [coin, coefficient] : row) {
      if (united.empty() || united.back().first != coin) {
        united.push_back({coin, 0});
      }
      united.back().second += coefficient;
    }
    row = std::move(united);
  }

  std::optional<std::vector<double>> deviations(const Known &value) const {
    std::vector<double> found;
    if (value.alike) {
      found.push_back(*value.alike);
    }
    for (const Row &row : value.rows) {
      double squares = 0;
      for (auto [coin, factor] : row) {
        auto after =
            llvm::upper_bound(sources, coin, [](uint64_t each, const auto &source) { return each < source.first; });
        squares += std::pow(factor * std::prev(after)->second, 2);
      }
      found.push_back(std::sqrt(squares));
    }
    if (found.empty() || !llvm::all_of(found, [](double each) { return std::isfinite(each); })) {
      return std::nullopt;
    }
    bool isOne = llvm::all_of(found, [&](double each) { return each == found[0]; });
    return isOne ? std::vector{found[0]} : found;
  }

  const std::vector<Node> &nodes;
  ArgumentValues argument;
  std::vector<Known> known;
  /// The first coin of each noise, and its deviation.
  std::vector<std::pair<uint64_t, double>> sources;
  uint64_t coins = 0;
  size_t work = 0;
};

std::optional<std::vector<double>> NoiseForm::deviations(ArgumentValues argument) const {
  return Evaluator(nodes, argument).run();
}

} // namespace sojourn
