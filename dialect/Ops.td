// SPDX-License-Identifier: Apache-2.0
// All ops, group by group; CoreOps.def is the list with their status.
#ifndef SOJOURN_OPS_TD
#define SOJOURN_OPS_TD

include "dialect/Attrs.td"
include "dialect/CapturedOps.td"
include "dialect/ContractionOps.td"
include "dialect/ElementwiseOps.td"
include "dialect/IndexOps.td"
include "dialect/LayoutOps.td"
include "dialect/OwnerOps.td"
include "dialect/ReductionOps.td"
include "dialect/RowOps.td"
include "dialect/SourceOps.td"
include "dialect/UnaryOps.td"
include "dialect/WindowOps.td"

#endif // SOJOURN_OPS_TD
