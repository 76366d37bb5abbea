// SPDX-License-Identifier: Apache-2.0
// Row numbers, each at its first place. A sorting network: the numbers may be secret, and its exchanges, their places
// in memory and so their time follow from the count alone. Only the last writes, once to each place, go by the numbers.
#include "runtime/Lower.h"
#include "runtime/Stop.h"

#include <algorithm>

namespace sojourn::runtime {

namespace {

/// The lesser of (number, place) to the front, without a branch.
void exchange(int64_t *numbers, int64_t *places, int64_t a, int64_t b) {
  int64_t isAbove = static_cast<int64_t>(numbers[a] > numbers[b]) |
                    (static_cast<int64_t>(numbers[a] == numbers[b]) & static_cast<int64_t>(places[a] > places[b]));
  int64_t number = (numbers[a] ^ numbers[b]) & -isAbove, place = (places[a] ^ places[b]) & -isAbove;
  numbers[a] ^= number;
  numbers[b] ^= number;
  places[a] ^= place;
  places[b] ^= place;
}

/// Batcher's merge sort by odd and even places (Knuth, 5.2.2, algorithm M), for any count.
void sort(int64_t *numbers, int64_t *places, int64_t count) {
  for (int64_t merged = 1; merged < count; merged *= 2) {
    for (int64_t apart = merged; apart >= 1; apart /= 2) {
      checkStop(); // at places that depend on the count alone
      for (int64_t first = apart % merged; first + apart < count; first += 2 * apart) {
        for (int64_t a = first, end = std::min(first + apart, count - apart); a < end; ++a) {
          if (a / (2 * merged) == (a + apart) / (2 * merged)) {
            exchange(numbers, places, a, a + apart);
          }
        }
      }
    }
  }
}

void lowerFirstRows(Lowering &lowering, const GraphOp &op) {
  int64_t count = lowering.type(op.results[0]).numel();
  Place from = lowering.dense(op.operands[0]), to = lowering.result(op.results[0]);
  size_t bytes = static_cast<size_t>(count) * sizeof(int64_t);
  Place sorted = lowering.scratch(bytes), order = lowering.scratch(bytes);
  auto body = [=](SlotTable slots, int64_t, int64_t) {
    int64_t *numbers = sorted.in<int64_t>(slots), *places = order.in<int64_t>(slots), *out = to.in<int64_t>(slots);
    const int64_t *in = from.in<int64_t>(slots);
    for (int64_t k = 0; k < count; ++k) {
      numbers[k] = in[k];
      places[k] = k;
    }
    sort(numbers, places, count);
    for (int64_t k = 0; k < count; ++k) {
      int64_t isAgain = static_cast<int64_t>(k > 0 && numbers[k] == numbers[k - 1]);
      out[places[k]] = numbers[k] | -isAgain;
    }
  };
  lowering.emit(op, makeKernel(body, count == 0 ? 0 : 1));
}

} // namespace

const LowerFn kernels::lower_first_rows = lowerFirstRows;

} // namespace sojourn::runtime
