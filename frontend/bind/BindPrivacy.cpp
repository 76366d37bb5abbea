// SPDX-License-Identifier: Apache-2.0
// Python's view of private training: how steps spend, and what that costs.
#include "frontend/bind/Bind.h"

#include "frontend/local/Local.h"
#include "frontend/session/Session.h"
#include "runtime/privacy/Filter.h"
#include "runtime/privacy/Plan.h"
#include "runtime/privacy/Tail.h"
#include "runtime/signing/Receipt.h"
#include "runtime/terms/Charges.h"
#include "runtime/wire/Terms.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace sojourn::frontend {

namespace {

template <typename T>
T checked(const privacy::Checked<T> &result) {
  if (!result) {
    raise(ErrorKind::Error, result.error());
  }
  return *result;
}

/// A training run as the owner will charge it.
privacy::TrainingPlan planOf(int64_t rows, int64_t size, uint64_t steps) {
  checked(privacy::samplingRate(rows, size)); // sizes that do not go together
  terms::DrawRate drawn = checked(terms::rateOf({true, rows, size, checked(privacy::capacityFor(size))}));
  return {drawn.rate, steps, drawn.overflow, terms::kSamplerFailure};
}

/// How often a grant that nothing else uses admits a charge.
uint64_t admitted(const privacy::Grant &grant, const privacy::Charge &charge) {
  auto filter = privacy::Filter::of(grant);
  uint64_t least = 0, most = filter && charge != privacy::Charge{} ? uint64_t{1} << 40 : 0;
  while (least < most) {
    uint64_t middle = most - (most - least) / 2;
    if (filter->admits(middle * charge)) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return least;
}

/// First steps by a table's defaults at all sessions: dataset, noise multiplier, clip, sampling rate, epsilon of the
/// step, delta and epsilon of the grant, and how many such steps it admits alone.
using DefaultPrice = std::tuple<std::string, double, double, double, double, double, double, uint64_t>;
std::vector<DefaultPrice> takeDefaultSteps() {
  std::vector<DefaultPrice> prices;
  for (const std::shared_ptr<Session> &session : Session::all()) {
    for (const DefaultStep &step : session->news().takeDefaultSteps()) {
      py::gil_scoped_release release;
      BudgetInfo budget = session->budget(step.dataset);
      prices.emplace_back(step.dataset, step.defaults.noiseMultiplier, step.defaults.clip, step.rate,
                          privacy::smallestEpsilon(step.charge, budget.delta), budget.delta, budget.epsilon,
                          admitted({budget.epsilon, budget.delta}, step.charge));
    }
  }
  return prices;
}

} // namespace

void bindPrivacy(py::module_ &m) {
  py::class_<wire::Interval>(m, "Interval")
      .def("admits", &wire::Interval::admits)
      .def_property_readonly("expected", &wire::Interval::expected);
  m.attr("EPSILON") = wire::kEpsilon;
  m.attr("DELTA") = wire::kDelta;
  m.attr("BOUND") = wire::kSaidBound;
  m.attr("NOISE_MULTIPLIER") = wire::kNoiseMultiplier;
  m.attr("METRIC_SHARE") = wire::kMetricShare;
  m.def("capacity_for", [](int64_t size) { return checked(privacy::capacityFor(size)); });
  m.def("sampling_rate", [](int64_t rows, int64_t size) { return planOf(rows, size, 1).rate; });
  m.def("noise_multiplier_for", [](double epsilon, double delta, int64_t rows, int64_t size, uint64_t steps) {
    return checked(privacy::noiseMultiplierFor({epsilon, delta}, planOf(rows, size, steps)));
  });
  m.def("epsilon_of", [](double noiseMultiplier, double delta, int64_t rows, int64_t size, uint64_t steps) {
    return steps == 0 ? 0.0 : checked(privacy::epsilonOf(planOf(rows, size, steps), noiseMultiplier, delta));
  });
  m.def("epsilon_of_best_order", [](double noiseMultiplier, double delta, int64_t rows, int64_t size, uint64_t steps) {
    return steps == 0 ? 0.0 : checked(privacy::plannedEpsilonOf(planOf(rows, size, steps), noiseMultiplier, delta));
  });
  // Receipts travel as what the owner signed; everything else is read from it.
  m.def("receipt_text", [](const py::bytes &receipt) {
    auto read = signing::readReceipt(std::string_view(receipt));
    if (!read) {
      raise(ErrorKind::Error, read.problem().text);
    }
    return signing::receiptJson(*read);
  });
  m.def("verify_receipt", [](const py::bytes &receipt, const std::string &ownerKey) {
    auto key = signing::parseKey(ownerKey);
    if (!key) {
      raise(ErrorKind::Error, "the owner's key has " + std::to_string(ownerKey.size()) +
                                  " characters, expected the 64 hexadecimal digits that 'sojourn-owner key' prints");
    }
    auto verified = signing::verifyReceipt(std::string_view(receipt), *key);
    if (!verified) {
      raise(ErrorKind::Error, verified.problem().text);
    }
  });
  m.def(
      "set_spending",
      [](Session &session, uint64_t run, uint64_t steps, double noiseMultiplier, double clip, bool perLayer,
         bool lossIsSum, double metricShare) {
        session.spending().set({run, steps, noiseMultiplier, clip, perLayer, lossIsSum, metricShare, {}});
      },
      py::arg("session"), py::arg("run") = 0, py::arg("steps") = 0, py::arg("noise_multiplier") = 0.0,
      py::arg("clip") = 0.0, py::arg("per_layer") = false, py::arg("loss_is_sum") = false,
      py::arg("metric_share") = -1.0);
  m.def("await_spending", [](Session &session) { session.spending().await(); });
  // Steps that the owner charged to a run for a dataset, and their epsilon at delta (0: not asked).
  m.def(
      "run_spent",
      [](Session &session, uint64_t run, const std::string &dataset, double delta, bool forget) {
        RunSpent spent = session.spending().spentBy(run, dataset, forget);
        double epsilon = spent.steps && delta > 0 ? privacy::smallestEpsilon(spent.charge, delta) : 0;
        return std::make_tuple(spent.steps, epsilon);
      },
      py::arg("session"), py::arg("run"), py::arg("dataset"), py::arg("delta") = 0.0, py::arg("forget") = false);
  m.def("coin_seconds", &EmbeddedOwner::coinSeconds);
  m.def(
      "quote",
      [](const at::Tensor &tensor, double bound, double epsilon, double delta) {
        ReleaseQuote quoted = quote(tensor, {bound, epsilon, delta});
        return std::make_tuple(quoted.isFree, quoted.error, quoted.numbers, quoted.isLaplace, quoted.notes,
                               quoted.delta);
      },
      py::arg("tensor"), py::arg("bound") = 0.0, py::arg("epsilon") = 0.0, py::arg("delta") = 0.0);
  m.def("take_default_steps", &takeDefaultSteps);
  m.def("take_notes", [](Session &session) { return session.news().takeNotes(); });
  m.def(
      "budget",
      [](Session &session, const std::string &dataset, uint64_t endRun) {
        BudgetInfo info = session.budget(dataset, endRun);
        return std::make_tuple(info.granted, info.epsilon, info.delta, info.epsilonLeft,
                               info.commonLeft >= 0 ? std::optional(info.commonLeft) : std::nullopt);
      },
      py::arg("session"), py::arg("dataset"), py::arg("end_run") = 0, py::call_guard<py::gil_scoped_release>());
}

} // namespace sojourn::frontend
