// SPDX-License-Identifier: Apache-2.0
// Reading files and modules in the runtime's tests.
#pragma once

#include "dialect/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <fstream>
#include <iterator>
#include <string>

namespace sojourn::test {

inline std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A context that knows what a program may hold.
struct Context {
  Context() {
    mlir::DialectRegistry registry;
    registry.insert<SojournDialect, mlir::func::FuncDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }
  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text) {
    return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  }
  mlir::MLIRContext context;
};

} // namespace sojourn::test
