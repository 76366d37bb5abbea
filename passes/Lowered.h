// SPDX-License-Identifier: Apache-2.0
// Which operators the passes know. Includes neither MLIR nor torch: the recorder asks before it records a call.
#ifndef SOJOURN_PASSES_LOWERED_H
#define SOJOURN_PASSES_LOWERED_H

#include <string_view>

namespace sojourn {

/// Whether calls of ATen's operator of that base name ("add" of "aten::add_.Tensor") can become core ops.
bool isLowered(std::string_view base);

} // namespace sojourn

#endif // SOJOURN_PASSES_LOWERED_H
