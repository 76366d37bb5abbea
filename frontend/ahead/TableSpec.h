// SPDX-License-Identifier: Apache-2.0
// Descriptions of tables in words; frontend::checkTableSpec (Artifact.h) says whether one is valid.
#ifndef SOJOURN_FRONTEND_AHEAD_TABLESPEC_H
#define SOJOURN_FRONTEND_AHEAD_TABLESPEC_H

#include "frontend/Sojourn.h"

#include <string>

namespace sojourn::frontend {

std::string typeText(const Column &column);
std::string boundsText(const Column &column);
std::string defaultsText(const terms::Defaults &defaults);
/// Whether it says what stands for a private table.
bool statesDefaults(const Dataset &table);

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_AHEAD_TABLESPEC_H
