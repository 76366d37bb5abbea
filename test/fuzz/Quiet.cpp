// SPDX-License-Identifier: Apache-2.0
// The log of links that mutants end is left out. Apart from the targets, because torch brings another {fmt}.
#include "test/fuzz/Quiet.h"

#include <spdlog/spdlog.h>

namespace sojourn::fuzz {

void leaveLogOut() { spdlog::set_level(spdlog::level::off); }

} // namespace sojourn::fuzz
