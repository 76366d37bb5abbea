// SPDX-License-Identifier: Apache-2.0
// An independent oracle for shape rules: while a CheckShapes lives, every ATen op that runs on CPU
// tensors below autograd is also given to its rule, and the rule's answer is compared with the real
// outputs (sizes, strides, dtype, offset) or, where eager throws, with its error text.
#ifndef SOJOURN_TEST_FRONTEND_SHAPESCHECK_H
#define SOJOURN_TEST_FRONTEND_SHAPESCHECK_H

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace sojourn::test {

struct ShapesReport {
  int64_t checked = 0;
  int64_t errorsChecked = 0;
  std::set<std::string> seen;                  ///< ops with a rule
  std::map<std::string, int64_t> unruled;      ///< ops without one
  std::map<std::string, std::string> failures; ///< op -> first difference
  std::map<std::string, int64_t> failureCounts;

  std::string text() const;
};

/// Not reentrant; one thread.
class CheckShapes {
public:
  CheckShapes();
  ~CheckShapes();
  CheckShapes(const CheckShapes &) = delete;
  CheckShapes &operator=(const CheckShapes &) = delete;

  const ShapesReport &report() const;
};

} // namespace sojourn::test

#endif // SOJOURN_TEST_FRONTEND_SHAPESCHECK_H
