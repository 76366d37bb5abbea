// SPDX-License-Identifier: Apache-2.0
// Unary ops: what their records generate; traits and Elementwise.cpp say the rest.
#include "dialect/Families.h"
#include "dialect/UnaryOps.h"
#include "dialect/rows/Rules.h"

#include "dialect/Support.h"

using namespace mlir;
using namespace sojourn;

LogicalResult SpecialOp::verify() {
  std::string problem = unknownSpecial(getFunction(), 1);
  return problem.empty() ? success() : emitOpError() << problem;
}

#define GET_OP_CLASSES
#include "dialect/UnaryOps.cpp.inc"

void sojourn::detail::registerUnaryOps(SojournDialect &dialect) {
  dialect.add<
#define GET_OP_LIST
#include "dialect/UnaryOps.cpp.inc"
      >();
}
