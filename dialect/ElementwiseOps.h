// SPDX-License-Identifier: Apache-2.0
// The op classes of ElementwiseOps.td.
#ifndef SOJOURN_DIALECT_ELEMENTWISEOPS_H
#define SOJOURN_DIALECT_ELEMENTWISEOPS_H

#include "dialect/Base.h"

#define GET_OP_CLASSES
#include "dialect/ElementwiseOps.h.inc"

#endif // SOJOURN_DIALECT_ELEMENTWISEOPS_H
