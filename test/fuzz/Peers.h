// SPDX-License-Identifier: Apache-2.0
// The errors that the last input of the target `frames` got from the owner.
#ifndef SOJOURN_TEST_FUZZ_PEERS_H
#define SOJOURN_TEST_FUZZ_PEERS_H

#include "test/fuzz/PeerChanges.h"
#include "test/fuzz/Target.h"

namespace sojourn::fuzz {

/// By message; empty where it was committed.
const std::vector<std::string> &errorsOfFrames();

} // namespace sojourn::fuzz

#endif // SOJOURN_TEST_FUZZ_PEERS_H
