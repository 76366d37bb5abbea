// SPDX-License-Identifier: Apache-2.0
// The windows of a pooling op, over 1 to 3 spatial dims.
#ifndef SOJOURN_RUNTIME_POOLWINDOWS_H
#define SOJOURN_RUNTIME_POOLWINDOWS_H
#include "runtime/Lower.h"
#include <algorithm>

namespace sojourn::runtime {

/// Sizes with absent spatial dims as 1, so that one loop nest serves all ranks.
struct Windows {
  int64_t planes = 1;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, size[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0},
          dilation[3] = {1, 1, 1};

  Windows(const Lowering &lowering, const GraphOp &op) {
    const TensorType &x = lowering.type(op.operands[0]), &y = lowering.type(op.results[0]);
    planes = x.dims[0] * x.dims[1];
    size_t spatial = x.rank() - 2;
    for (size_t k = 0; k < spatial; ++k) {
      size_t d = 3 - spatial + k;
      in[d] = x.dims[2 + k];
      out[d] = y.dims[2 + k];
      size[d] = op.ints("window")[k];
      stride[d] = op.ints("stride")[k];
      padding[d] = op.ints("padding")[k];
      dilation[d] = op.ints("dilation")[k];
    }
  }

  /// Window positions [first, past) along dim d whose input lies inside, for output position o.
  void range(int d, int64_t o, int64_t &first, int64_t &past) const {
    int64_t start = o * stride[d] - padding[d];
    if (dilation[d] == 1) { // nearly always, and without divisions
      first = std::max<int64_t>(0, -start);
      past = std::max(std::min(size[d], in[d] - start), first);
      return;
    }
    first = start < 0 ? (-start + dilation[d] - 1) / dilation[d] : 0;
    past = in[d] - start <= 0 ? 0 : std::min(size[d], (in[d] - start + dilation[d] - 1) / dilation[d]);
    past = std::max(past, first); // a window beside the input is an empty range
  }

  /// The first cell of window o along dim d that lies inside, and how many there are.
  void cells(int d, int64_t o, int64_t &at, int64_t &count) const {
    int64_t first, past;
    range(d, o, first, past);
    count = past - first;
    at = count > 0 ? o * stride[d] - padding[d] + first * dilation[d] : 0;
  }

  /// Whether visiting every window's elements costs more than a fixed number of walks over input and result: then the
  /// windows share their work (SlidingWindows.h). Depends on shapes alone.
  bool overlapMuch() const {
    double inputs = 1, outputs = 1, taps = 1;
    for (int d = 0; d < 3; ++d) {
      inputs *= static_cast<double>(in[d]);
      outputs *= static_cast<double>(out[d]);
      taps *= static_cast<double>(std::min(size[d], in[d]));
    }
    return outputs * taps > 128 * (inputs + outputs);
  }

  /// visit(flat input position) for every input of the window at (o0, o1, o2), in row-major order.
  template <typename Visit>
  void each(int64_t o0, int64_t o1, int64_t o2, Visit visit) const {
    int64_t first[3], past[3];
    range(0, o0, first[0], past[0]);
    range(1, o1, first[1], past[1]);
    range(2, o2, first[2], past[2]);
    if (first[0] == past[0] || first[1] == past[1] || first[2] == past[2]) {
      return; // wholly in the padding: no walk over the dims that are not
    }
    for (int64_t a = first[0]; a < past[0]; ++a) {
      int64_t i0 = o0 * stride[0] - padding[0] + a * dilation[0];
      for (int64_t b = first[1]; b < past[1]; ++b) {
        int64_t i1 = o1 * stride[1] - padding[1] + b * dilation[1];
        int64_t row = (i0 * in[1] + i1) * in[2] + o2 * stride[2] - padding[2];
        for (int64_t c = first[2]; c < past[2]; ++c) {
          visit(row + c * dilation[2]);
        }
      }
    }
  }

  /// The windows of a line that lie wholly inside along the last dim.
  void inside(int64_t &first, int64_t &past) const {
    int64_t reach = (size[2] - 1) * dilation[2] + 1, room = in[2] + padding[2] - reach;
    first = std::min((padding[2] + stride[2] - 1) / stride[2], out[2]);
    past = std::clamp(room < 0 ? 0 : room / stride[2] + 1, first, out[2]);
  }

  /// visit(at) for each input of the windows (o0, o1, .) that lie inside, in row-major order: window o's stands at flat
  /// position at + o * stride[2].
  template <typename Visit>
  void eachInside(int64_t o0, int64_t o1, Visit visit) const {
    int64_t first[2], past[2];
    range(0, o0, first[0], past[0]);
    range(1, o1, first[1], past[1]);
    for (int64_t a = first[0]; a < past[0]; ++a) {
      int64_t i0 = o0 * stride[0] - padding[0] + a * dilation[0];
      for (int64_t b = first[1]; b < past[1]; ++b) {
        int64_t i1 = o1 * stride[1] - padding[1] + b * dilation[1];
        for (int64_t c = 0; c < size[2]; ++c) {
          visit((i0 * in[1] + i1) * in[2] - padding[2] + c * dilation[2]);
        }
      }
    }
  }

  /// Whether windows are of 1 or 2 dims, without gaps.
  bool isFlat() const {
    return in[0] == 1 && size[0] == 1 && padding[0] == 0 && stride[0] == 1 && dilation[1] == 1 && dilation[2] == 1;
  }
  int64_t taps() const { return size[0] * size[1] * size[2]; }
  int64_t inPlane() const { return in[0] * in[1] * in[2]; }
  int64_t outPlane() const { return out[0] * out[1] * out[2]; }
  int64_t cellsMost() const { return std::max(inPlane(), outPlane()); }
  int64_t windowsMost() const { return std::max({out[0], out[1], out[2]}); }

  /// What is shared out among workers: lines of results, or planes whose windows share their work.
  Partition partition(bool shared) const {
    int64_t taps = std::min(size[0], in[0]) * std::min(size[1], in[1]) * std::min(size[2], in[2]);
    return shared ? Partition(planes, outPlane() * taps) : Partition(planes * out[0] * out[1], out[2] * taps);
  }

  /// Results of lines [first, past): `whole(line's first result, plane, o0, o1, from, to)` for its windows [from, to)
  /// that lie inside along the last dim, `one(result, plane, o0, o1, o2)` for each other; plane: its first input.
  template <typename Whole, typename One>
  void lines(int64_t first, int64_t past, Whole whole, One one) const {
    int64_t from, to;
    inside(from, to);
    int64_t plane = first / (out[0] * out[1]) * inPlane(), o0 = first / out[1] % out[0], o1 = first % out[1];
    for (int64_t line = first; line < past; ++line) {
      int64_t at = line * out[2];
      whole(at, plane, o0, o1, from, to);
      for (int64_t o2 = 0; o2 < from; ++o2) {
        one(at + o2, plane, o0, o1, o2);
      }
      for (int64_t o2 = to; o2 < out[2]; ++o2) {
        one(at + o2, plane, o0, o1, o2);
      }
      if (++o1 == out[1]) {
        o1 = 0;
        o0 = o0 + 1 == out[0] ? 0 : o0 + 1;
        plane += o0 == 0 ? inPlane() : 0;
      }
    }
  }
};

} // namespace sojourn::runtime

#endif // SOJOURN_RUNTIME_POOLWINDOWS_H
