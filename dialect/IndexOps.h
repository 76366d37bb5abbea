// SPDX-License-Identifier: Apache-2.0
// The op classes of IndexOps.td.
#ifndef SOJOURN_DIALECT_INDEXOPS_H
#define SOJOURN_DIALECT_INDEXOPS_H

#include "dialect/Base.h"

#define GET_OP_CLASSES
#include "dialect/IndexOps.h.inc"

#endif // SOJOURN_DIALECT_INDEXOPS_H
