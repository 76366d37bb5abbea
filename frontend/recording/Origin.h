// SPDX-License-Identifier: Apache-2.0
// Where in the user's program an op was called: forward ops by the caller's frame, backward ops by
// the backward() line and the line of the forward op they differentiate.
#ifndef SOJOURN_FRONTEND_RECORDING_ORIGIN_H
#define SOJOURN_FRONTEND_RECORDING_ORIGIN_H

#include "frontend/recording/Trace.h"

namespace sojourn::frontend {

/// Supplied by the bindings; absent in processes without Python.
struct FrameSource {
  /// Innermost frame that is the user's (not torch's, not ours). `haveLock`: the interpreter lock
  /// is held by this thread. `backward`: the innermost one that called backward() or grad().
  Frame (*capture)(bool haveLock, bool backward) = nullptr;
  /// File and line of a captured frame.
  SourceLine (*resolve)(const Frame &frame) = nullptr;
  /// The innermost frame, if it is torch's; Tensor's own methods do not count, which stand for the line that calls
  /// them.
  Frame (*torchs)() = nullptr;
};

void setFrameSource(FrameSource source);
Origin captureOrigin();
/// Empty file if unknown.
SourceLine resolveFrame(const Frame &frame);
/// " at file:line" (and the forward op's line), or "".
std::string describeOrigin(const Origin &origin);
/// "torch/optim/lbfgs.py:372" where code of torch calls, or "".
std::string describeTorchsLine();

} // namespace sojourn::frontend

#endif // SOJOURN_FRONTEND_RECORDING_ORIGIN_H
