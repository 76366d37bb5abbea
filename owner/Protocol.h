// SPDX-License-Identifier: Apache-2.0
// The owner's names for the numbers of the protocol; both sides take them from runtime/wire.
#ifndef SOJOURN_OWNER_PROTOCOL_H
#define SOJOURN_OWNER_PROTOCOL_H

#include "runtime/wire/Protocol.h"

namespace sojourn::owner {

using sojourn::wire::kMessageIdentifier;
using sojourn::wire::kProtocolVersion;

} // namespace sojourn::owner

#endif // SOJOURN_OWNER_PROTOCOL_H
