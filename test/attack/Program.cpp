// SPDX-License-Identifier: Apache-2.0
// Copies and texts of attacks (see Program.h).
#include "test/attack/Program.h"

#include "dialect/Base.h"

#include "llvm/Support/raw_ostream.h"

using namespace sojourn;
using namespace sojourn::attack;

mlir::func::FuncOp AttackStep::function() const { return module.get().lookupSymbol<mlir::func::FuncOp>(kStepName); }

Attack Attack::copy() const {
  Attack copied;
  copied.seed = seed;
  for (const AttackStep &step : steps) {
    copied.steps.push_back(step.copy());
  }
  return copied;
}

size_t Attack::ops() const {
  size_t count = 0;
  for (const AttackStep &step : steps) {
    count += step.function().getBody().front().getOperations().size();
  }
  return count;
}

template <class T>
static void list(llvm::raw_ostream &out, const char *what, const std::vector<T> &values) {
  if (values.empty()) {
    return;
  }
  out << "//   " << what;
  for (const T &value : values) {
    out << ' ' << value;
  }
  out << '\n';
}

std::string Attack::text() const {
  std::string text;
  llvm::raw_string_ostream out(text);
  for (size_t number = 0; number < steps.size(); ++number) {
    const owner::test::StepRequest &terms = steps[number].terms;
    out << "// step " << number << "\n";
    list(out, "states", terms.states);
    for (const owner::test::Upload &upload : terms.uploads) {
      out << "//   upload " << int(upload.element) << ":";
      if (upload.element == static_cast<uint8_t>(runtime::Element::i64)) {
        for (int64_t value : owner::test::values<int64_t>(upload.data)) {
          out << ' ' << value;
        }
      } else if (upload.element == static_cast<uint8_t>(runtime::Element::f64)) {
        for (double value : owner::test::values<double>(upload.data)) {
          out << llvm::format(" %.17g", value);
        }
      } else {
        for (float value : owner::test::values<float>(upload.data)) {
          out << llvm::format(" %.9g", static_cast<double>(value));
        }
      }
      out << '\n';
    }
    list(out, "slots (words)", terms.slots);
    list(out, "seeds", terms.seeds);
    std::vector<std::string> names;
    for (const owner::test::TableName &table : terms.tables) {
      names.push_back(table.name);
    }
    list(out, "tables", names);
    list(out, "kept as", terms.results);
    const wire::Spending &spending = terms.spending;
    if (!spending.isDefault()) {
      out << llvm::format("//   spending: run %llu of %llu steps, noise %g, clip %g, share %g, per layer %d, sum %d\n",
                          static_cast<unsigned long long>(spending.run),
                          static_cast<unsigned long long>(spending.steps), spending.noiseMultiplier, spending.clip,
                          spending.metricShare, spending.perLayer, spending.lossIsSum);
      for (const wire::ReleaseTerms &release : spending.releases) {
        out << llvm::format("//   release: bound %g, epsilon %g, delta %g, continues %d\n", release.bound,
                            release.epsilon, release.delta, release.continues);
      }
    }
    steps[number].module.get().print(out);
    out << "\n";
  }
  return text;
}
