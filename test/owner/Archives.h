// SPDX-License-Identifier: Apache-2.0
// Archives as numpy.savez writes them, built byte by byte.
#ifndef SOJOURN_TEST_OWNER_ARCHIVES_H
#define SOJOURN_TEST_OWNER_ARCHIVES_H

#include <string>
#include <utility>
#include <vector>

namespace sojourn::owner::test {

/// An array as it stands in a .npy file: `descr` as "<f8", `shape` as "(3,)".
std::string npy(const std::string &descr, const std::string &shape, const std::string &data, bool fortran = false);
/// A raw stream of deflate.
std::string deflated(const std::string &data);
/// Names and contents; `pack`: deflated.
std::string zip(const std::vector<std::pair<std::string, std::string>> &members, bool pack);

} // namespace sojourn::owner::test

#endif // SOJOURN_TEST_OWNER_ARCHIVES_H
