// SPDX-License-Identifier: Apache-2.0
// The op classes of RowOps.td.
#ifndef SOJOURN_DIALECT_ROWOPS_H
#define SOJOURN_DIALECT_ROWOPS_H

#include "dialect/Base.h"

#define GET_OP_CLASSES
#include "dialect/RowOps.h.inc"

#endif // SOJOURN_DIALECT_ROWOPS_H
