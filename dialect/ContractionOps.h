// SPDX-License-Identifier: Apache-2.0
// The op classes of ContractionOps.td.
#ifndef SOJOURN_DIALECT_CONTRACTIONOPS_H
#define SOJOURN_DIALECT_CONTRACTIONOPS_H

#include "dialect/Base.h"

#define GET_OP_CLASSES
#include "dialect/ContractionOps.h.inc"

#endif // SOJOURN_DIALECT_CONTRACTIONOPS_H
