// SPDX-License-Identifier: Apache-2.0
// Frames: pieces of images, padded and laid out for windows with a step of 1, as own loops take them. Includes nothing
// (VectorFrames.cpp).
#ifndef SOJOURN_RUNTIME_FRAMESHAPE_H
#define SOJOURN_RUNTIME_FRAMESHAPE_H

namespace sojourn::runtime {

/// One dim of a frame. Element i of its part `part` is the image's element i * step + part + first, or zero where the
/// image has none.
struct FrameDim {
  long size = 1;  ///< of the image
  long step = 1;  ///< of windows
  long parts = 1; ///< at most `step`
  long first = 0;
  long count = 1; ///< elements of a part
};

/// A frame [channel, part of rows, part of columns, row, column].
struct FrameShape {
  long channels = 1;
  FrameDim rows, columns;

  long plane() const { return rows.count * columns.count; }
  long elements() const { return channels * rows.parts * columns.parts * plane(); }
};

/// Windows of a frame: tap k of window (y, x) is element offsets[k] + y * pitch + x, if the frame has one channel in an
/// element. Results of a window lie at (y * width + x) * outPitch.
struct WindowGrid {
  const long *offsets = nullptr;
  long taps = 0; ///< all of them, whose weights lie one after the other
  long pitch = 0;
  long height = 0, width = 0;
  long outPitch = 0;
};

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_FRAMESHAPE_H
