// SPDX-License-Identifier: Apache-2.0
// Functions that the linker puts in front of the owner's (see AuditSeam.h; the list of names is in CMakeLists.txt).
#include "test/owner/AuditSeam.h"

#include "dialect/ElementwiseOps.h"
#include "dialect/LayoutOps.h"
#include "passes/privacy/Privacy.h"
#include "runtime/privacy/PoissonDraw.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>

using namespace sojourn;

static owner::test::Broken broken;
static owner::test::SeamUses uses;

void owner::test::breakOwner(const Broken &how) { broken = how; }
owner::test::Broken owner::test::seamState() { return broken; }
owner::test::SeamUses owner::test::seamUses() { return uses; }

/// min(bound / norm, 1) per row, as passes/privacy/Lower.cpp makes it, becomes 1.
static void forgetClip(mlir::ModuleOp module) {
  llvm::SmallVector<MinOp> factors;
  module.walk([&](MinOp min) {
    auto isRatio = [](mlir::Value value) { return value.getDefiningOp<DivOp>() != nullptr; };
    if (isRatio(min.getA()) || isRatio(min.getB())) {
      factors.push_back(min);
    }
  });
  for (MinOp min : factors) {
    mlir::Value one = min.getA().getDefiningOp<DivOp>() ? min.getB() : min.getA();
    mlir::OpBuilder builder(min);
    auto type = mlir::cast<mlir::RankedTensorType>(min.getResult().getType());
    if (one.getType() != type) {
      one = BroadcastOp::create(builder, min.getLoc(), type, one, builder.getDenseI64ArrayAttr({}));
    }
    min.getResult().replaceAllUsesWith(one);
    min.erase();
    ++uses.factors;
  }
}

// NOLINTBEGIN(readability-identifier-naming, bugprone-reserved-identifier): names that the linker gives
extern "C" {
llvm::FailureOr<PrivacyPlan> __real__ZN7sojourn11makePrivateEN4mlir8ModuleOpERKNS_9RowInputsERKNS_14PrivacyOptionsE(
    mlir::ModuleOp module, const RowInputs &inputs, const PrivacyOptions &options);
llvm::FailureOr<PrivacyPlan> __wrap__ZN7sojourn11makePrivateEN4mlir8ModuleOpERKNS_9RowInputsERKNS_14PrivacyOptionsE(
    mlir::ModuleOp module, const RowInputs &inputs, const PrivacyOptions &options) {
  auto plan =
      __real__ZN7sojourn11makePrivateEN4mlir8ModuleOpERKNS_9RowInputsERKNS_14PrivacyOptionsE(module, inputs, options);
  ++uses.plans;
  if (failed(plan)) {
    return plan;
  }
  if (broken.halvesNoise) { // at releases, too: an owner refuses a coin of another scale than its release has
    for (CoinSpec &coin : plan->coins) {
      if (coin.kind != CoinSpec::Kind::Draw) {
        coin.scale = std::max<int64_t>(1, coin.scale / 2);
        plan->sites[coin.site].scale = coin.scale;
      }
    }
  }
  if (broken.forgetsClip) {
    forgetClip(module);
  }
  return plan;
}

void __real__ZNK7sojourn7privacy11PoissonDraw4drawERKNS0_5CoinsEjSt4spanIlLm18446744073709551615EE(
    const privacy::PoissonDraw *self, const privacy::Coins &coins, uint32_t index, std::span<int64_t> slots);
void __wrap__ZNK7sojourn7privacy11PoissonDraw4drawERKNS0_5CoinsEjSt4spanIlLm18446744073709551615EE(
    const privacy::PoissonDraw *self, const privacy::Coins &coins, uint32_t index, std::span<int64_t> slots) {
  __real__ZNK7sojourn7privacy11PoissonDraw4drawERKNS0_5CoinsEjSt4spanIlLm18446744073709551615EE(self, coins, index,
                                                                                                slots);
  ++uses.draws;
  if (broken.drawsInFront) {
    std::fill(std::remove(slots.begin(), slots.end(), -1), slots.end(), -1);
  }
  if (broken.nullRow >= 0) {
    std::replace(slots.begin(), slots.end(), broken.nullRow, int64_t{-1});
  }
}
}
// NOLINTEND(readability-identifier-naming, bugprone-reserved-identifier)
