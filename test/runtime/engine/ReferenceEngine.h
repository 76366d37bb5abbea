// SPDX-License-Identifier: Apache-2.0
// A second engine, for tests: a reference interpreter that walks over the ops of core form, one element at a time, in
// float64. About thirty ops of the core form, for f32, f64, i64 and i1; the others have no kernel.
#ifndef SOJOURN_TEST_RUNTIME_ENGINE_REFERENCEENGINE_H
#define SOJOURN_TEST_RUNTIME_ENGINE_REFERENCEENGINE_H

#include "runtime/Engine.h"

#include <atomic>

namespace sojourn::runtime::test {

/// Integers beyond 2^53 are rounded: it lacks addsIntegersExactly.
class ReferenceEngine : public Engine {
public:
  llvm::StringRef name() const override { return "reference"; }
  std::string lacks(EngineTrait trait) const override;
  bool hasKernel(llvm::StringRef op) const override;
  unsigned threads() const override { return 1; }
  /// The one trait that it does not claim.
  EngineTrait lacked = EngineTrait::addsIntegersExactly;
  /// Runs of its code so far.
  mutable std::atomic<size_t> runs = 0;

private:
  llvm::Expected<std::unique_ptr<Code>> make(mlir::ModuleOp coreModule) const override;
};

} // namespace sojourn::runtime::test

#endif // SOJOURN_TEST_RUNTIME_ENGINE_REFERENCEENGINE_H
