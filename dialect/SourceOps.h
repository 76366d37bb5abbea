// SPDX-License-Identifier: Apache-2.0
// The op classes of SourceOps.td.
#ifndef SOJOURN_DIALECT_SOURCEOPS_H
#define SOJOURN_DIALECT_SOURCEOPS_H

#include "dialect/Base.h"

#define GET_OP_CLASSES
#include "dialect/SourceOps.h.inc"

#endif // SOJOURN_DIALECT_SOURCEOPS_H
