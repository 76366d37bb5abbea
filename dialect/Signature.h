// SPDX-License-Identifier: Apache-2.0
// What arguments of a step are and what becomes of its results, made from Signature.def. Knows neither MLIR nor torch,
// so that recorder, program format and executor have the same enums.
#ifndef SOJOURN_DIALECT_SIGNATURE_H
#define SOJOURN_DIALECT_SIGNATURE_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sojourn {

/// The kinds of argument in the order in which they must stand.
/// Only the owner appends coins: its noise and its draws. No program has them.
enum class StepArg : uint8_t {
#define SOJOURN_STEP_ARG(Name, name, number) Name = number,
#define SOJOURN_OWNER_ARG(Name, name, number) Name = number,
#include "dialect/Signature.def"
};

/// What becomes of a result.
enum class StepResult : uint8_t {
#define SOJOURN_STEP_RESULT(Name, name, number) Name = number,
#include "dialect/Signature.def"
};

/// All of them, in the order of their numbers.
inline constexpr std::array kStepArgs = {
#define SOJOURN_STEP_ARG(Name, name, number) StepArg::Name,
#define SOJOURN_OWNER_ARG(Name, name, number) StepArg::Name,
#include "dialect/Signature.def"
};
inline constexpr std::array kStepResults = {
#define SOJOURN_STEP_RESULT(Name, name, number) StepResult::Name,
#include "dialect/Signature.def"
};

namespace detail {

inline constexpr std::array<std::string_view, kStepArgs.size()> kStepArgNames = {
#define SOJOURN_STEP_ARG(Name, name, number) #name,
#define SOJOURN_OWNER_ARG(Name, name, number) #name,
#include "dialect/Signature.def"
};
inline constexpr std::array<std::string_view, kStepResults.size()> kStepResultNames = {
#define SOJOURN_STEP_RESULT(Name, name, number) #name,
#include "dialect/Signature.def"
};

template <typename Kinds>
constexpr bool countFromZero(const Kinds &kinds) {
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (static_cast<size_t>(kinds[i]) != i) {
      return false;
    }
  }
  return true;
}
static_assert(countFromZero(kStepArgs) && countFromZero(kStepResults),
              "the numbers of Signature.def index tables: from 0, in order, without a gap");

} // namespace detail

/// The name in `sojourn.kind` and in errors.
constexpr std::string_view nameOf(StepArg kind) { return detail::kStepArgNames[static_cast<size_t>(kind)]; }
/// The name in `sojourn.result` and in errors.
constexpr std::string_view nameOf(StepResult kind) { return detail::kStepResultNames[static_cast<size_t>(kind)]; }

constexpr std::optional<StepArg> parseStepArg(std::string_view text) {
  for (StepArg kind : kStepArgs) {
    if (nameOf(kind) == text) {
      return kind;
    }
  }
  return std::nullopt;
}

constexpr std::optional<StepResult> parseStepResult(std::string_view text) {
  for (StepResult kind : kStepResults) {
    if (nameOf(kind) == text) {
      return kind;
    }
  }
  return std::nullopt;
}

} // namespace sojourn

#endif // SOJOURN_DIALECT_SIGNATURE_H
