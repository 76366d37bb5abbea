// SPDX-License-Identifier: Apache-2.0
// Sizes of planes under 2-d windows, as own loops take them: includes nothing (VectorPool.cpp).
#ifndef SOJOURN_RUNTIME_POOLSHAPE_H
#define SOJOURN_RUNTIME_POOLSHAPE_H

namespace sojourn::runtime {

struct PoolShape {
  long height, width;       ///< of a plane
  long lines, windows;      ///< of its results: lines, and windows in each
  long rows, columns;       ///< of a window
  long rowsPad, columnsPad; ///< elements that the first window stands before the plane
};

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_POOLSHAPE_H
