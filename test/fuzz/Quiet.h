// SPDX-License-Identifier: Apache-2.0
#ifndef SOJOURN_TEST_FUZZ_QUIET_H
#define SOJOURN_TEST_FUZZ_QUIET_H

namespace sojourn::fuzz {

void leaveLogOut();

} // namespace sojourn::fuzz

#endif // SOJOURN_TEST_FUZZ_QUIET_H
