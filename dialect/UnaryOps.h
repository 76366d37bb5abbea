// SPDX-License-Identifier: Apache-2.0
// The op classes of UnaryOps.td.
#ifndef SOJOURN_DIALECT_UNARYOPS_H
#define SOJOURN_DIALECT_UNARYOPS_H

#include "dialect/Base.h"

#define GET_OP_CLASSES
#include "dialect/UnaryOps.h.inc"

#endif // SOJOURN_DIALECT_UNARYOPS_H
