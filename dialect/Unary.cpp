// SPDX-License-Identifier: Apache-2.0
// Unary ops: what their records generate; traits and Elementwise.cpp say the rest.
#include "dialect/UnaryOps.h"

using namespace mlir;
using namespace sojourn;

#define GET_OP_CLASSES
#include "dialect/UnaryOps.cpp.inc"

void sojourn::detail::registerUnaryOps(SojournDialect &dialect) {
  dialect.add<
#define GET_OP_LIST
#include "dialect/UnaryOps.cpp.inc"
      >();
}
