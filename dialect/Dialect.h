// SPDX-License-Identifier: Apache-2.0
// The whole dialect: Base.h and the op classes of every family.
#ifndef SOJOURN_DIALECT_DIALECT_H
#define SOJOURN_DIALECT_DIALECT_H

#include "dialect/CapturedOps.h"
#include "dialect/ContractionOps.h"
#include "dialect/ElementwiseOps.h"
#include "dialect/IndexOps.h"
#include "dialect/LayoutOps.h"
#include "dialect/OwnerOps.h"
#include "dialect/ReductionOps.h"
#include "dialect/RowOps.h"
#include "dialect/SourceOps.h"
#include "dialect/UnaryOps.h"
#include "dialect/WindowOps.h"

#endif // SOJOURN_DIALECT_DIALECT_H
