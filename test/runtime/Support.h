// SPDX-License-Identifier: Apache-2.0
// Reading files and modules in the runtime's tests.
#ifndef SOJOURN_TEST_RUNTIME_SUPPORT_H
#define SOJOURN_TEST_RUNTIME_SUPPORT_H

#include "test/dialect/Context.h"

#include <fstream>
#include <iterator>
#include <string>

namespace sojourn::test {

inline std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace sojourn::test

#endif // SOJOURN_TEST_RUNTIME_SUPPORT_H
