// SPDX-License-Identifier: Apache-2.0
// sojourn-verify-core: the dialect's core-form predicate as a pass, at the end of the client's pipeline.
#include "dialect/Base.h"
#include "dialect/CoreForm.h"
#include "passes/Passes.h"

namespace sojourn {
#define GEN_PASS_DEF_VERIFYCORE
#include "passes/Passes.h.inc"
} // namespace sojourn

using namespace mlir;
using namespace sojourn;

namespace {
struct VerifyCore : sojourn::impl::VerifyCoreBase<VerifyCore> {
  void runOnOperation() override {
    if (failed(verifyCoreForm(getOperation()))) {
      signalPassFailure();
      return;
    }
    setPhase(getOperation(), "core");
  }
};
} // namespace
