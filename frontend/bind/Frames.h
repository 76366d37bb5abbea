// SPDX-License-Identifier: Apache-2.0
// Python frames as source positions.
#ifndef SOJOURN_FRONTEND_BIND_FRAMES_H
#define SOJOURN_FRONTEND_BIND_FRAMES_H

#include <string>
#include <vector>

namespace sojourn::frontend {

/// Installs the frame source. Frames of files below these folders are not the user's; frames of other installed
/// libraries are only named where there is no frame of the user's.
void installFrameSource(const std::string &torchFolder, const std::string &sojournFolder,
                        std::vector<std::string> installed);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_BIND_FRAMES_H
