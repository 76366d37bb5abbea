// SPDX-License-Identifier: Apache-2.0
// The op classes of CapturedOps.td.
#ifndef SOJOURN_DIALECT_CAPTUREDOPS_H
#define SOJOURN_DIALECT_CAPTUREDOPS_H

#include "dialect/Base.h"

#define GET_OP_CLASSES
#include "dialect/CapturedOps.h.inc"

#endif // SOJOURN_DIALECT_CAPTUREDOPS_H
