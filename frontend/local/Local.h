// SPDX-License-Identifier: Apache-2.0
// An owner inside the client's process, reached through the same bytes as any other.
#ifndef SOJOURN_FRONTEND_LOCAL_LOCAL_H
#define SOJOURN_FRONTEND_LOCAL_LOCAL_H

#include "frontend/Sojourn.h"
#include "owner/Owner.h"
#include "runtime/OwnProcess.h"
#include "runtime/Profile.h"

#include <memory>

namespace sojourn::frontend {

class EmbeddedOwner final : public Registrar {
public:
  /// `store`: folder of its tables; empty keeps them in memory. Throws Error if it cannot be opened.
  /// `profile`: folder for the times of its programs' instructions (runtime/Profile.h); empty for none.
  explicit EmbeddedOwner(const std::string &store, const std::string &profile = "");

  ~EmbeddedOwner() override;

  void add(const std::string &name, const Source &source, const RegisterOptions &options) override;
  /// The budget of this process on one of its tables.
  void grant(const std::string &dataset, double epsilon, double delta);
  /// What stands for one of its private tables where a step says nothing.
  void describe(const std::string &dataset, const std::string &text, const std::vector<std::string> &tags);
  /// What other owners, by their keys, may see of a table's rows in joint steps: "none" or "clear".
  void share(const std::string &dataset, const std::vector<std::string> &keys, const std::string &level) override;
  void setDefaults(const std::string &dataset, double noiseMultiplier, double clip, double metricBound);
  /// Checks receipts: 64 hexadecimal digits.
  std::string key() const { return owner_.key(); }
  wire::Message handle(std::string_view request) { return owner_.answer(request); }
  uint64_t requests() const { return owner_.requests(); }
  /// Seconds that drawing coins has taken in all owners of this process; for benchmarks.
  static double coinSeconds();
  /// Steps that it has committed.
  uint64_t steps() const { return owner_.stepsHandled(); }

private:
  const runtime::OwnProcess process_;
  std::unique_ptr<runtime::Profile> profile_;
  owner::Owner owner_;
};

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_LOCAL_LOCAL_H
