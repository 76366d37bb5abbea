// SPDX-License-Identifier: Apache-2.0
// A value, or the reason why there is none: what the accounting returns where its input can be wrong.
#ifndef SOJOURN_RUNTIME_PRIVACY_CHECKED_H
#define SOJOURN_RUNTIME_PRIVACY_CHECKED_H

#include <string>
#include <utility>
#include <variant>

namespace sojourn::privacy {

/// What is wrong: what was found, what was expected, what to do next.
struct Invalid {
  std::string text;
};

/// Either a value or an Invalid. Ask it as a bool before taking the value.
template <typename T>
class [[nodiscard]] Checked {
public:
  Checked(T value) : state(std::move(value)) {}
  Checked(Invalid reason) : state(std::move(reason)) {}

  explicit operator bool() const { return std::holds_alternative<T>(state); }
  const T &operator*() const { return *std::get_if<T>(&state); }
  const T *operator->() const { return std::get_if<T>(&state); }
  /// The reason; an empty text where there is a value.
  std::string error() const {
    const Invalid *reason = std::get_if<Invalid>(&state);
    return reason ? reason->text : std::string();
  }

private:
  std::variant<T, Invalid> state;
};

} // namespace sojourn::privacy

#endif // SOJOURN_RUNTIME_PRIVACY_CHECKED_H
