// SPDX-License-Identifier: Apache-2.0
// Names of runtime/signing that the ledger uses as its own: hashes, keys, problems.
#ifndef SOJOURN_OWNER_LEDGER_SIGNING_H
#define SOJOURN_OWNER_LEDGER_SIGNING_H

#include "runtime/signing/Bytes.h"
#include "runtime/signing/Problem.h"
#include "runtime/signing/SigningKey.h"

namespace sojourn::owner::ledger {
using namespace signing;
} // namespace sojourn::owner::ledger

#endif // SOJOURN_OWNER_LEDGER_SIGNING_H
