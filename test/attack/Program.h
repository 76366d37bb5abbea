// SPDX-License-Identifier: Apache-2.0
// What an attacker sends in one session: programs in core form, each with the terms of its message.
#ifndef SOJOURN_TEST_ATTACK_PROGRAM_H
#define SOJOURN_TEST_ATTACK_PROGRAM_H

#include "test/owner/Support.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace sojourn::attack {

/// One message. Of `terms` count states, uploads, slots, seeds, tables, results, releases, spending and repetitions.
/// An upload with a number is sent ahead, in parts.
struct AttackStep {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  owner::test::StepRequest terms;
  size_t client = 0;    ///< number of its session: 0 is the owner's own process, others have keys
  bool isNamed = false; ///< by its hash alone, as an artifact's step is; the bytes follow where the owner asks for them

  AttackStep copy() const { return {mlir::OwningOpRef<mlir::ModuleOp>(module.get().clone()), terms, client, isNamed}; }
  mlir::func::FuncOp function() const;
};

struct Attack {
  uint64_t seed = 0;
  std::vector<AttackStep> steps;

  Attack copy() const;
  size_t ops() const;
  /// Each step as core form, its terms in front of it as comments.
  std::string text() const;
  /// Of such a text; whatever stands before the first step is left out.
  static llvm::Expected<Attack> parse(llvm::StringRef text, mlir::MLIRContext &context);
};

} // namespace sojourn::attack

#endif // SOJOURN_TEST_ATTACK_PROGRAM_H
