// SPDX-License-Identifier: Apache-2.0
// Programs in shorthand, and what the second reading says of them.
#ifndef SOJOURN_TEST_PASSES_SLOTPROGRAMS_H
#define SOJOURN_TEST_PASSES_SLOTPROGRAMS_H

#include "dialect/RowOps.h"
#include "passes/SlotReading.h"

#include "test/dialect/Context.h"

#include <gtest/gtest.h>

#include <optional>
#include <regex>
#include <string>

namespace sojourn::test {

using namespace mlir;

/// A private table %t and an open one %o of 64 rows; public row numbers %r, %q and %one; %secret is an argument that is
/// not public. %x, %m, %v, %k and %img are read at %r, %xq at %q, %b at %one, %xd at the secret draw %d.
inline const char *const kHead = R"(
func.func @step(%secret: f[8x4], %r: i[8], %q: i[8], %one: i[1], %s: i[], %s2: i[], %t: !T, %o: !O) {
  %x = read_rows %t, %r, columns = ["a", "b", "c", "d"] : !T, i[8] -> f[8x4]
  %v = read_rows %t, %r, columns = ["a"] : !T, i[8] -> f[8]
  %k = read_rows %t, %r, columns = ["k"] : !T, i[8] -> i[8]
  %m = read_rows %t, %r, columns = ["m"] : !T, i[8] -> f[8x4x4]
  %img = read_rows %t, %r, columns = ["img"] : !T, i[8] -> f[8x3x6x6]
  %xq = read_rows %t, %q, columns = ["a", "b", "c", "d"] : !T, i[8] -> f[8x4]
  %b = read_rows %t, %one, columns = ["a", "b", "c", "d"] : !T, i[1] -> f[1x4]
  %d = sample_rows %r, %s, %s of %t, expected = 8 : i[8], i[], i[], !T -> i[8]
  %xd = read_rows %t, %d, columns = ["a", "b", "c", "d"] : !T, i[8] -> f[8x4]
  %p84 = iota dim = 0 : f[8x4]
  %p8 = iota dim = 0 : f[8]
  %i8 = iota dim = 0 : i[8]
  %c = constant 0.0 : f32
  %total = reduce_sum %x, dims = [0] : f[8x4]
  %mt = transpose %m, perm = [1, 0, 2] : f[8x4x4]
  %mtflat = reshape %mt : f[4x8x4] -> f[128]
  %flat = reshape %x : f[8x4] -> f[32]
  %vv = broadcast %v, dims = [0] : f[8] -> f[8x8]
  %dyn = dynamic_slice %x from [%s], dims = [0], sizes = [3] : f[8x4], i[]
  %z94 = broadcast %c, dims = [] : f[] -> f[9x4]
  %z9 = broadcast %c, dims = [] : f[] -> f[9]
  %k1 = reshape %k : i[8] -> i[8x1]
  %row = slice %x, [5, 0] to [6, 4] by [1, 1] : f[8x4]
  %odd = slice %x, [2, 0] to [7, 4] by [2, 1] : f[8x4]
)";

/// Shorthands of programs here: f[8x4] and i[8] are tensors, ops lack their dialect, ; ends a line.
inline const std::pair<const char *, const char *> kShorthands[] = {
    {";", "\n"},
    {R"(\bf\[([0-9x]+)\])", "tensor<$1xf32>"},
    {R"(\bi\[([0-9x]+)\])", "tensor<$1xi64>"},
    {R"(\bf\[\])", "tensor<f32>"},
    {R"(\bi\[\])", "tensor<i64>"},
    {R"(batch (\[.*?\]) (\[.*?\]) contract (\[.*?\]) (\[.*?\]))",
     "lhs_batch = $1, rhs_batch = $2, lhs_contract = $3, rhs_contract = $4"},
    {R"(low (\[.*?\]) high (\[.*?\]) gap (\[.*?\]))", "low = $1, high = $2, interior = $3"},
    {R"(, at (\[.*?\]) by (\[.*?\]))", ", start = $1, stride = $2"},
    {", a :", ", columns = [\"a\"] :"},
    {"DRAW", "expected = 8 : tensor<8xi64>, tensor<i64>, tensor<i64>, !T -> tensor<8xi64>"},
    {"iota tensor", "iota dim = 0 : tensor"},
    {R"((\[.*?\]) to (\[.*?\]) by (\[.*?\]))", "start = $1, limit = $2, stride = $3"},
    {R"(by (\[.*?\]) padding (\[[0-9]\]))", "stride = $1, padding = $2, dilation = [1]"},
    {R"(by (\[.*?\]) padding (\[[0-9], [0-9]\]))", "stride = $1, padding = $2, dilation = [1, 1]"},
    {R"((= conv(_[a-z_]+)? [^:]*) :)", "$1, groups = 1 :"},
    {R"((%[a-z0-9]+(:[0-9])?) = ([a-z]))", "$1 = sojourn.$3"},
    {"!T", R"(!sojourn.table<64, "a" : f32, "b" : f32, "c" : f32, "d" : f32, "k" : i64, "m" : 4x4xf32,
                             "img" : 3x6x6xf32>)"},
    {"!O", R"(!sojourn.table<64, "a" : f32, "k" : i64>)"},
};

/// A program, parsed and read.
struct Program {
  explicit Program(const std::string &body) {
    std::string text = kHead + body + ";  return; }";
    for (auto [shorthand, meaning] : kShorthands) {
      text = std::regex_replace(text, std::regex(shorthand), meaning);
    }
    module = context.parse(text);
    if (!module) {
      ADD_FAILURE() << "does not parse: " << text;
      return;
    }
    step = module->lookupSymbol<func::FuncOp>("step");
    reader.emplace(
        step, [](unsigned argument) { return argument != 0; }, [](unsigned argument) { return argument == 6; });
    for (auto sample : step.getOps<SampleRowsOp>()) {
      drawn = drawn ? drawn : sample.getResult();
    }
  }

  std::string name(Value value) {
    const char *const names[] = {"secret", "r", "q", "one", "s", "s2"};
    auto argument = dyn_cast_if_present<BlockArgument>(value);
    return argument ? names[argument.getArgNumber()] : value && value == drawn ? "d" : "?";
  }

  /// "r 0: 1x8x1", with " from first step n" and " at start" where they say something; or "none", "sum of r", "unknown
  /// op".
  std::string show(const SlotReading &reading) {
    const SlotPlace &place = reading.place;
    switch (reading.kind) {
    case SlotReading::Kind::None: return "none";
    case SlotReading::Kind::Summed: return "sum of " + name(place.root);
    case SlotReading::Kind::Unknown:
      return "unknown " + (reading.unread ? reading.unread->getName().stripDialect().str() : "argument");
    case SlotReading::Kind::Slots: break;
    }
    std::string text = name(place.root);
    if (place.slots == 1) {
      text += " slot " + std::to_string(place.first);
    } else {
      text += " " + std::to_string(place.dim) + ": " + std::to_string(place.outer) + "x" + std::to_string(place.slots) +
              "x" + std::to_string(place.inner);
      if (place.first != 0 || place.step != 1) {
        text += " from " + std::to_string(place.first) + " step " + std::to_string(place.step);
      }
    }
    return place.start ? text + " at " + name(place.start) : text;
  }

  Operation *last() { return step.getBody().front().getTerminator()->getPrevNode(); }

  Context context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp step;
  Value drawn;
  std::optional<SlotReader> reader;
};

} // namespace sojourn::test

#endif // SOJOURN_TEST_PASSES_SLOTPROGRAMS_H
