// SPDX-License-Identifier: Apache-2.0
// The op classes of ReductionOps.td.
#ifndef SOJOURN_DIALECT_REDUCTIONOPS_H
#define SOJOURN_DIALECT_REDUCTIONOPS_H

#include "dialect/Base.h"

#define GET_OP_CLASSES
#include "dialect/ReductionOps.h.inc"

#endif // SOJOURN_DIALECT_REDUCTIONOPS_H
