// SPDX-License-Identifier: Apache-2.0
// The answer of keys, receipts and ledger where they cannot do as asked: a value with a code, never an exception.
#ifndef SOJOURN_RUNTIME_SIGNING_PROBLEM_H
#define SOJOURN_RUNTIME_SIGNING_PROBLEM_H

#include "runtime/privacy/Charge.h"

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace sojourn::signing {

/// What an owner allows: (epsilon, delta) of differential privacy, in all and for ever.
struct Grant {
  double epsilon = 0, delta = 0;
  friend bool operator==(const Grant &, const Grant &) = default;
};

enum class Code {
  disk,            ///< the operating system or SQLite refused; nothing was changed
  busy,            ///< another process held the ledger for too long
  damaged,         ///< bytes that no release wrote; the ledger stays shut
  olderFile,       ///< the file is behind its head: an old copy was put back
  badRequest,      ///< an argument outside of its bounds, or a call out of order
  unknownClient,   ///< no such client
  unknownDataset,  ///< no such dataset
  noCap,           ///< the population has no cap yet
  noGrant,         ///< the client has no grant on the dataset
  sharedPeople,    ///< one release from two datasets of the same people
  otherRelation,   ///< the population is accounted under another relation of neighbours
  budgetExhausted, ///< a grant or a cap does not admit the charge; see Problem::exhausted
  keyReused,       ///< the idempotency key belongs to another request
  inFlight,        ///< the same request is running now
  burnt,           ///< the request started and never sealed; its charge stands
  expired,         ///< the sealed bytes were kept for their time and are gone
  planExceeded,    ///< a step beyond the plan that the run declared
};

/// Which account refused a charge, and its numbers.
struct Exhausted {
  /// The client whose grant refused; empty: the cap over everyone.
  std::string client;
  /// The dataset that the charge named, and the people it is about.
  std::string dataset, population;
  Grant budget;
  /// What the account holds already, reservations included, and what was asked on top.
  privacy::Charge spent, asked;
};

struct Problem {
  Code code = Code::disk;
  std::string text;
  std::optional<Exhausted> exhausted;
};

/// Nothing where all went well.
using Status = std::optional<Problem>;

/// A value or the problem that kept it from being made.
template <class T>
class Result {
public:
  Result(T value) : held(std::move(value)) {}
  Result(Problem problem) : held(std::move(problem)) {}
  explicit operator bool() const { return held.index() == 0; }
  T &operator*() { return *std::get_if<0>(&held); }
  const T &operator*() const { return *std::get_if<0>(&held); }
  T *operator->() { return std::get_if<0>(&held); }
  const T *operator->() const { return std::get_if<0>(&held); }
  const Problem &problem() const { return *std::get_if<1>(&held); }

private:
  std::variant<T, Problem> held;
};

inline Problem problem(Code code, std::string text) { return Problem{code, std::move(text), std::nullopt}; }

} // namespace sojourn::signing

#endif // SOJOURN_RUNTIME_SIGNING_PROBLEM_H
