// SPDX-License-Identifier: Apache-2.0
#include "frontend/recording/StepSender.h"

namespace sojourn::frontend {

namespace {

StepSender *current = nullptr;

} // namespace

void setStepSender(StepSender &sender) { current = &sender; }
StepSender &stepSender() { return *current; }

} // namespace sojourn::frontend
