// SPDX-License-Identifier: Apache-2.0
// The next call of a function whose last one was replayed: looked at and replayed without a line of Python. Where
// anything is not as in the last one it says so, and sojourn/replay.py finds out what that means.
#ifndef SOJOURN_FRONTEND_BIND_READYCALL_H
#define SOJOURN_FRONTEND_BIND_READYCALL_H

#include "frontend/bind/Structure.h"
#include "frontend/replay/Call.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sojourn::frontend {

/// What a call depends on that it neither takes nor uses: torch's settings of the thread.
struct Surroundings {
  at::ScalarType defaultDtype, autocastDtype;
  bool isGradEnabled, isInferenceMode, isAutocast;
  static Surroundings now();
  bool operator==(const Surroundings &) const = default;
};

class [[gnu::visibility("hidden")]] ReadyCall {
public:
  /// What is known of calls that are alike; of `arguments` any may be the next call's if they are of the same kinds.
  struct Plan {
    std::shared_ptr<CapturedCall> call;
    std::shared_ptr<Watched> watched;
    std::string places; ///< of `watched`
    Structure structure;
    std::vector<pybind11::object> modules, optimizers; ///< weak references
    NumberSources sources;
    std::vector<double> base;  ///< numbers of the last traced call
    std::vector<bool> mayVary; ///< which of these
    HostNumbers host;          ///< that a call changes
    std::vector<bool> isFree;  ///< by argument: an integer of any value
    pybind11::object computed; ///< of the free integers and the floats the numbers that follow, or None; None for none
  };

  ReadyCall(Plan plan, const pybind11::tuple &arguments);
  /// Whether calls with such arguments can be looked at here: plain tensors, numbers and texts.
  static bool canTake(const pybind11::tuple &arguments);

  /// Replays the call and returns what it made; null, and nothing has happened, where it has to be looked at.
  std::shared_ptr<RepeatedCall> repeat(const pybind11::tuple &arguments);

private:
  /// What an argument has to be like.
  struct Form {
    std::optional<TensorForm> tensor;
    bool isFloat = false, isFree = false;
    pybind11::object value;   ///< of constants alone
    pybind11::object columns; ///< of a table, or None
    bool isZero = false, isOne = false, isNegative = false, isFinite = false;
  };
  static Form formOf(const pybind11::handle &argument);
  static bool fits(const Form &form, const pybind11::handle &argument);
  /// Adds the numbers that follow from free integers. False where some cannot be computed.
  bool addComputed(const pybind11::tuple &arguments, std::vector<double> &floats) const;

  Plan plan_;
  std::vector<Form> forms_;
  Surroundings surroundings_;
  std::vector<pybind11::object> modes_; ///< of torch's functions
  std::vector<NumberSources::Form> rateForms_;
  std::vector<RateGroup> groups_;
};

/// Replays a call in a step of its own, which is sent at once. `host`: what a call changes.
std::shared_ptr<RepeatedCall> replayStep(const CapturedCall &call, const std::shared_ptr<const CallEntry> &entry,
                                         const std::vector<double> &values, const HostNumbers &host);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_BIND_READYCALL_H
