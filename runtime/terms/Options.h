// SPDX-License-Identifier: Apache-2.0
// Terms of a step (StepTerms.h) as options of the passes.
#ifndef SOJOURN_RUNTIME_TERMS_OPTIONS_H
#define SOJOURN_RUNTIME_TERMS_OPTIONS_H

#include "passes/privacy/Privacy.h"
#include "runtime/terms/StepTerms.h"

#include "llvm/ADT/ArrayRef.h"

#include <optional>

namespace sojourn::terms {

/// `published`: per result of the step its number among those that are published.
PrivacyOptions optionsOf(const StepTerms &terms, llvm::ArrayRef<std::optional<unsigned>> published);

} // namespace sojourn::terms

#endif // SOJOURN_RUNTIME_TERMS_OPTIONS_H
