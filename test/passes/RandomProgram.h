// SPDX-License-Identifier: Apache-2.0
// Random straight-line programs in core form for the tests of analyses, with what a plain walk knows about them.
#ifndef SOJOURN_TEST_PASSES_RANDOMPROGRAM_H
#define SOJOURN_TEST_PASSES_RANDOMPROGRAM_H

#include <random>
#include <set>
#include <string>
#include <vector>

namespace sojourn::test {

/// A program over vectors of f32, and per result the arguments that a set per value finds.
struct RandomProgram {
  std::string text;
  std::vector<std::set<size_t>> depends;
};

inline RandomProgram randomProgram(std::mt19937_64 &dice, size_t arguments, size_t ops, size_t results) {
  auto upTo = [&](size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(dice); };
  std::vector<std::string> names;
  std::vector<std::set<size_t>> depends;
  std::string head, body;
  for (size_t i = 0; i < arguments; ++i) {
    names.push_back("%a" + std::to_string(i));
    depends.push_back({i});
    head += (i > 0 ? ", " : "") + names.back() + ": tensor<6xf32> {sojourn.kind = \"upload\"}";
  }
  auto add = [&](const std::string &text, std::set<size_t> from) {
    names.push_back("%v" + std::to_string(names.size()));
    depends.push_back(std::move(from));
    body += "    " + names.back() + text + "\n";
  };
  for (size_t i = 0; i < ops; ++i) {
    size_t a = upTo(names.size()), b = upTo(names.size());
    std::set<size_t> both = depends[a];
    both.insert(depends[b].begin(), depends[b].end());
    switch (upTo(5)) {
    case 0: add(" = sojourn.add " + names[a] + ", " + names[b] + " : tensor<6xf32>, tensor<6xf32>", both); break;
    case 1: add(" = sojourn.mul " + names[a] + ", " + names[b] + " : tensor<6xf32>, tensor<6xf32>", both); break;
    case 2: add(" = sojourn.neg " + names[a] + " : tensor<6xf32>", depends[a]); break;
    case 3: add(" = sojourn.cumsum " + names[a] + ", dim = 0 : tensor<6xf32>", depends[a]); break;
    default: add(" = sojourn.reverse " + names[a] + ", dims = [0] : tensor<6xf32>", depends[a]); break;
    }
  }
  RandomProgram program;
  std::string returned, types, kinds;
  for (size_t i = 0; i < results; ++i) {
    size_t value = upTo(names.size());
    program.depends.push_back(depends[value]);
    returned += (i > 0 ? ", " : "") + names[value];
    types += i > 0 ? ", tensor<6xf32>" : "tensor<6xf32>";
    kinds += std::string(i > 0 ? ", " : "") + "tensor<6xf32> {sojourn.result = \"keep\"}";
  }
  program.text = "module attributes {sojourn.phase = \"core\", sojourn.promotion = \"torch\"} {\n  func.func @step(" +
                 head + ") -> (" + kinds + ") {\n" + body + "    return " + returned + " : " + types + "\n  }\n}\n";
  return program;
}

} // namespace sojourn::test

#endif // SOJOURN_TEST_PASSES_RANDOMPROGRAM_H
