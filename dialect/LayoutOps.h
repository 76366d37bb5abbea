// SPDX-License-Identifier: Apache-2.0
// The op classes of LayoutOps.td.
#ifndef SOJOURN_DIALECT_LAYOUTOPS_H
#define SOJOURN_DIALECT_LAYOUTOPS_H

#include "dialect/Base.h"

#define GET_OP_CLASSES
#include "dialect/LayoutOps.h.inc"

#endif // SOJOURN_DIALECT_LAYOUTOPS_H
