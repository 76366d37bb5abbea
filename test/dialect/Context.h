// SPDX-License-Identifier: Apache-2.0
// Modules from text, for tests of whatever takes a module.
#ifndef SOJOURN_TEST_DIALECT_CONTEXT_H
#define SOJOURN_TEST_DIALECT_CONTEXT_H

#include "dialect/CoreForm.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <string>

namespace sojourn::test {

/// A context that knows what a program may hold.
struct Context {
  Context() {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }
  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text) {
    return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  }
  mlir::MLIRContext context;
};

} // namespace sojourn::test

#endif // SOJOURN_TEST_DIALECT_CONTEXT_H
