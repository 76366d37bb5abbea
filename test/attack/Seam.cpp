// SPDX-License-Identifier: Apache-2.0
// Functions that the linker puts in front of the owner's (see Seam.h; the list of names is in CMakeLists.txt).
#include "test/attack/Seam.h"

#include "dialect/CoreForm.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/UnaryOps.h"
#include "runtime/Buffer.h"
#include "runtime/privacy/Coins.h"

#include <cstring>
#include <sodium.h>
#include <unordered_map>

using namespace sojourn;
using namespace sojourn::attack;

Observer::~Observer() = default;

namespace {
Observer *current = nullptr;
Instrumented pending; ///< of the module that has kMark
std::unordered_map<const runtime::Executable *, Instrumented> known;
uint8_t poison = 0;
SeamCounts counts;
constexpr llvm::StringLiteral kMark = "attacked";
} // namespace

void attack::observe(Observer *observer) { current = observer; }
void attack::setPoison(uint8_t byte) { poison = byte; }
SeamCounts attack::seamCounts() { return counts; }

/// round(x / h) + coin, as passes/privacy/Lower.cpp makes it, becomes the coin.
static bool cut(mlir::func::FuncOp step, mlir::BlockArgument coin) {
  if (coin.use_empty()) {
    return true;
  }
  if (!coin.hasOneUse()) {
    return false;
  }
  auto wide = mlir::dyn_cast<ConvertOp>(*coin.user_begin());
  if (!wide || !wide.getResult().hasOneUse()) {
    return false;
  }
  auto add = mlir::dyn_cast<AddOp>(*wide.getResult().user_begin());
  if (!add || add.getResult().getType() != wide.getResult().getType()) {
    return false;
  }
  mlir::Value units = add.getA() == wide.getResult() ? add.getB() : add.getA();
  auto back = mlir::cast<mlir::func::ReturnOp>(step.getBody().front().getTerminator());
  mlir::Builder builder(step.getContext());
  auto kind =
      builder.getDictionaryAttr(builder.getNamedAttr(kResultAttr, builder.getStringAttr(stringify(StepResult::Keep))));
  if (failed(step.insertResult(step.getNumResults(), units.getType(), kind))) {
    return false;
  }
  back->insertOperands(back->getNumOperands(), units);
  add.getResult().replaceAllUsesWith(wide.getResult());
  add.erase();
  return true;
}

static Instrumented instrument(mlir::func::FuncOp step, const PrivacyPlan &plan) {
  Instrumented program;
  program.results = step.getNumResults();
  program.coins = plan.coins;
  program.released = plan.released;
  for (const ReleaseSite &site : plan.sites) {
    program.sites.push_back({site.what, site.isLaplace, site.sensitivity, site.tables});
  }
  size_t first = step.getNumArguments() - plan.coins.size();
  for (auto [number, coin] : llvm::enumerate(plan.coins)) {
    if (coin.kind == CoinSpec::Kind::Draw) {
      continue;
    }
    size_t before = step.getNumResults();
    program.missed += !cut(step, step.getArgument(static_cast<unsigned>(first + number)));
    if (step.getNumResults() > before) {
      program.sums.push_back({number, coin.site});
    }
  }
  return program;
}

// NOLINTBEGIN(readability-identifier-naming, bugprone-reserved-identifier): names that the linker gives
extern "C" {
llvm::FailureOr<PrivacyPlan> __real__ZN7sojourn11makePrivateEN4mlir8ModuleOpERKNS_9RowInputsERKNS_14PrivacyOptionsE(
    mlir::ModuleOp module, const RowInputs &inputs, const PrivacyOptions &options);
llvm::FailureOr<PrivacyPlan> __wrap__ZN7sojourn11makePrivateEN4mlir8ModuleOpERKNS_9RowInputsERKNS_14PrivacyOptionsE(
    mlir::ModuleOp module, const RowInputs &inputs, const PrivacyOptions &options) {
  auto plan =
      __real__ZN7sojourn11makePrivateEN4mlir8ModuleOpERKNS_9RowInputsERKNS_14PrivacyOptionsE(module, inputs, options);
  ++counts.madePrivate;
  if (current && succeeded(plan)) {
    pending = instrument(module.lookupSymbol<mlir::func::FuncOp>(kStepName), *plan);
    module->setAttr(kMark, mlir::UnitAttr::get(module.getContext()));
  }
  return plan;
}

llvm::Expected<std::unique_ptr<runtime::Executable>>
__real__ZN7sojourn7runtime10Executable6createEN4mlir8ModuleOpE(mlir::ModuleOp module);
llvm::Expected<std::unique_ptr<runtime::Executable>>
__wrap__ZN7sojourn7runtime10Executable6createEN4mlir8ModuleOpE(mlir::ModuleOp module) {
  bool isMarked = bool(module->removeAttr(kMark));
  auto executable = __real__ZN7sojourn7runtime10Executable6createEN4mlir8ModuleOpE(module);
  ++counts.created;
  if (executable) {
    known.erase(executable->get());
    if (isMarked) {
      known[executable->get()] = std::move(pending);
    }
  }
  return executable;
}

Values __real__ZNK7sojourn7runtime10Executable3runEN4llvm8ArrayRefINS0_7BindingEEERKNS0_10RunOptionsE(
    const runtime::Executable *self, llvm::ArrayRef<runtime::Binding> bindings, const runtime::RunOptions &options);
Values __wrap__ZNK7sojourn7runtime10Executable3runEN4llvm8ArrayRefINS0_7BindingEEERKNS0_10RunOptionsE(
    const runtime::Executable *self, llvm::ArrayRef<runtime::Binding> bindings, const runtime::RunOptions &options) {
  ++counts.runs;
  if (!current) {
    return runReally(*self, bindings, options);
  }
  auto found = known.find(self);
  return current->run(*self, found == known.end() ? nullptr : &found->second, bindings, options);
}

privacy::Coins
__wrap__ZN7sojourn7privacy5Coins10fromSystemESt4spanIKhLm18446744073709551615EE(std::span<const uint8_t> /*context*/) {
  uint64_t key = 0; // the tool's: the owner mixes the process's number into its keys
  randombytes_buf(&key, sizeof key);
  return privacy::Coins::forTests(key);
}

std::shared_ptr<runtime::Buffer> __real__ZN7sojourn7runtime10BufferPool8allocateEm(runtime::BufferPool *self,
                                                                                   size_t size);
std::shared_ptr<runtime::Buffer> __wrap__ZN7sojourn7runtime10BufferPool8allocateEm(runtime::BufferPool *self,
                                                                                   size_t size) {
  auto buffer = __real__ZN7sojourn7runtime10BufferPool8allocateEm(self, size);
  ++counts.buffers;
  if (buffer->size() > 0) {
    std::memset(buffer->data(), poison, buffer->size());
  }
  return buffer;
}

runtime::ArenaPool::Lease __real__ZN7sojourn7runtime9ArenaPool7acquireEm(runtime::ArenaPool *self, size_t bytes);
runtime::ArenaPool::Lease __wrap__ZN7sojourn7runtime9ArenaPool7acquireEm(runtime::ArenaPool *self, size_t bytes) {
  auto lease = __real__ZN7sojourn7runtime9ArenaPool7acquireEm(self, bytes);
  ++counts.arenas;
  if (lease.data()) {
    std::memset(lease.data(), poison, lease.size());
  }
  return lease;
}
}
// NOLINTEND(readability-identifier-naming, bugprone-reserved-identifier)

Values attack::runReally(const runtime::Executable &executable, llvm::ArrayRef<runtime::Binding> bindings,
                         const runtime::RunOptions &options) {
  return __real__ZNK7sojourn7runtime10Executable3runEN4llvm8ArrayRefINS0_7BindingEEERKNS0_10RunOptionsE(
      &executable, bindings, options);
}
