// SPDX-License-Identifier: Apache-2.0
// Source positions of recorded ops.
#include "frontend/recording/Origin.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/node.h>

#include <array>
#include <memory>

namespace sojourn::frontend {

namespace {

FrameSource frameSource;

/// Forward frames by autograd sequence number. A ring: graphs older than its length lose the
/// forward line, not the backward one.
struct ForwardFrames {
  static constexpr size_t kLength = 1 << 16;
  struct Slot {
    uint64_t sequence = ~0ULL;
    Frame frame;
  };
  std::unique_ptr<Slot[]> slots = std::make_unique<Slot[]>(kLength);

  void note(uint64_t sequence, const Frame &frame) {
    Slot &slot = slots[sequence % kLength];
    // The first op recorded after a node was made is that node's own.
    if (slot.sequence != sequence) {
      slot = {sequence, frame};
    }
  }
  Frame find(uint64_t sequence) const {
    const Slot &slot = slots[sequence % kLength];
    return slot.sequence == sequence ? slot.frame : Frame{};
  }
};

thread_local int backwardTask = -1;
thread_local Frame backwardFrame;

ForwardFrames &forwardFrames() {
  static ForwardFrames frames;
  return frames;
}

} // namespace

void setFrameSource(FrameSource source) { frameSource = source; }

Origin captureOrigin() {
  Origin origin;
  if (!frameSource.capture) {
    return origin;
  }
  if (auto node = torch::autograd::get_current_node()) {
    int task = torch::autograd::get_current_graph_task_id();
    if (task != backwardTask) {
      backwardTask = task;
      backwardFrame = frameSource.capture(/*haveLock=*/false, /*backward=*/true);
    }
    origin.frame = backwardFrame;
    origin.forward = forwardFrames().find(node->sequence_nr());
    // A gradient that is itself differentiated belongs to the same forward line.
    if (uint64_t next = at::sequence_number::peek(); at::GradMode::is_enabled() && next > 0) {
      forwardFrames().note(next - 1, origin.forward.code ? origin.forward : origin.frame);
    }
    return origin;
  }
  origin.frame = frameSource.capture(/*haveLock=*/true, /*backward=*/false);
  uint64_t next = at::sequence_number::peek();
  if (next > 0) {
    forwardFrames().note(next - 1, origin.frame);
  }
  return origin;
}

SourceLine resolveFrame(const Frame &frame) {
  if (!frame.code || !frameSource.resolve) {
    return {};
  }
  return frameSource.resolve(frame);
}

std::string describeOrigin(const Origin &origin) {
  std::string text;
  SourceLine here = resolveFrame(origin.frame);
  if (!here.file.empty()) {
    text += " at " + here.file + ":" + std::to_string(here.line);
  }
  SourceLine forward = resolveFrame(origin.forward);
  if (!forward.file.empty()) {
    text += " (backward of the op at " + forward.file + ":" + std::to_string(forward.line) + ")";
  }
  return text;
}

std::string describeTorchsLine() {
  SourceLine line = frameSource.torchs ? resolveFrame(frameSource.torchs()) : SourceLine();
  if (line.file.empty()) {
    return "";
  }
  size_t folder = line.file.rfind("/torch/");
  return (folder == std::string::npos ? line.file : line.file.substr(folder + 1)) + ":" + std::to_string(line.line);
}

} // namespace sojourn::frontend
