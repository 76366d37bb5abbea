// SPDX-License-Identifier: Apache-2.0
// The op classes of OwnerOps.td.
#ifndef SOJOURN_DIALECT_OWNEROPS_H
#define SOJOURN_DIALECT_OWNEROPS_H

#include "dialect/Base.h"

#define GET_OP_CLASSES
#include "dialect/OwnerOps.h.inc"

#endif // SOJOURN_DIALECT_OWNEROPS_H
