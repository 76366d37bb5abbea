// SPDX-License-Identifier: Apache-2.0
// The op classes of WindowOps.td.
#ifndef SOJOURN_DIALECT_WINDOWOPS_H
#define SOJOURN_DIALECT_WINDOWOPS_H

#include "dialect/Base.h"

#define GET_OP_CLASSES
#include "dialect/WindowOps.h.inc"

#endif // SOJOURN_DIALECT_WINDOWOPS_H
