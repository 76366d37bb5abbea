// SPDX-License-Identifier: Apache-2.0
// Tensors made from a shape, ramps, and copies. The recorded result type says
// shape and element; memory that ATen leaves unset is 0 here.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

Results filled(Call &c, double value) { return full(c.emitter, c.shape(), value, c.element()); }

Results filledWith(Call &c) {
  Term value = c.number(c.anyOf({"fill_value", "value", "s"}), c.element());
  if (!value) {
    return c.fail("has no value to fill with");
  }
  return broadcastTo(reshape(value, {}), c.shape());
}

Results copied(Call &c) {
  Term source = c.in(c.anyOf({"src", "self"}));
  return broadcastTo(convert(source, c.element()), c.shape());
}

Results arange(Call &c) {
  Type element = c.element();
  bool integers = isa<IntegerType>(element);
  // ATen computes float ramps in double and rounds once.
  Type ramp = integers ? c.i64() : c.f64();
  Term start = c.number("start", ramp, 0);
  Term step = c.number("step", ramp, 1);
  Term at = iota(c.emitter, c.shape(), 0, ramp);
  if (!c.isLiteral("step", 1) && c.has("step")) {
    at = at * step;
  }
  if (c.has("start") && !c.isLiteral("start", 0)) {
    at = at + start;
  }
  return at;
}

Type rampElement(Call &c) {
  Type element = wideElement(c.element());
  return isa<FloatType>(element) ? element : c.f64();
}

/// A ramp of integers has integers for ends, as the result's type holds them; one of a single step computes with it
/// first.
Term endOf(Call &c, StringRef name, Type element) {
  Term end = c.number(name, element);
  bool isRamp = isa<IntegerType>(c.element()) && c.shape()[0] != 1;
  return isRamp ? convert(convert(convert(end, c.i64()), c.element()), element) : end;
}

Term rampOf(Call &c, Type element) { return ramp(endOf(c, "start", element), endOf(c, "end", element), c.shape()[0]); }

Results linspace(Call &c) { return rampOf(c, rampElement(c)); }

Results logspace(Call &c) {
  Type element = rampElement(c);
  return pow(c.number("base", element, 10), rampOf(c, element));
}

Results eye(Call &c) {
  Term row = iota(c.emitter, c.shape(), 0, c.i64());
  return convert(eq(row, iota(c.emitter, c.shape(), 1, c.i64())), c.element());
}

/// Row and column of the kept positions: a stable sort of the mask brings
/// them to the front in row-major order.
Results triangleIndices(Call &c) {
  int64_t rows = c.integer("row"), columns = c.integer("col");
  int64_t count = c.shape().back();
  if (count == 0) {
    return filled(c, 0);
  }
  Shape grid = {rows, columns};
  Term row = iota(c.emitter, grid, 0, c.i64()) + static_cast<double>(c.integer("offset"));
  Term column = iota(c.emitter, grid, 1, c.i64());
  Term dropped = c.base == "tril_indices" ? column > row : column < row;
  Term flat = reshape(toIndex(dropped), {rows * columns});
  Term at = sliceDim(sort(flat, 0, false).second, 0, 0, count);
  auto width = static_cast<double>(columns);
  return concat({unsqueeze(at / width, 0), unsqueeze(rem(at, width), 0)}, 0);
}

/// From 0 to 2 over a window; a periodic one is the beginning of one that is longer by 1.
Term windowPosition(Call &c) {
  const Type element = wideElement(c.element());
  const int64_t size = c.shape()[0] + (c.boolean("periodic", true) ? 1 : 0);
  return iota(c.emitter, c.shape(), 0, element) * (2.0 / static_cast<double>(std::max<int64_t>(size - 1, 1)));
}

/// A window of one position is 1.
Results windowOf(Call &c, Term values) { return c.shape()[0] == 1 ? filled(c, 1) : Results(values); }

/// alpha - beta cos(2 pi n / (size - 1)) + gamma cos(4 pi n / (size - 1)).
Results cosineWindow(Call &c, double alpha, double beta, double gamma) {
  constexpr double kPi = 3.14159265358979323846;
  const Type element = wideElement(c.element());
  Term angle = windowPosition(c) * kPi;
  Term values = c.number("alpha", element, alpha) - c.number("beta", element, beta) * cos(angle);
  return windowOf(c, gamma == 0 ? values : values + gamma * cos(angle * 2.0));
}

Results bartlettWindow(Call &c) { return windowOf(c, 1.0 - abs(windowPosition(c) - 1.0)); }

Results kaiserWindow(Call &c) {
  Term beta = c.number("beta", wideElement(c.element()), 12), from = windowPosition(c) - 1.0;
  // Rounding may take the last position beyond 1.
  Term root = sqrt(max((1.0 - from) * (1.0 + from), 0.0));
  return windowOf(c, special("i0", beta * root) / special("i0", beta));
}

} // namespace

/// From both ends toward the middle, so that both are exact.
Term ramp(Term start, Term end, int64_t steps) {
  if (steps == 1) {
    return broadcastTo(start, {1});
  }
  Term at = iota(*start.emitter, {steps}, 0, start.element());
  auto last = static_cast<double>(steps - 1);
  Term step = (end - start) / last;
  Term front = at < static_cast<double>(steps / 2);
  return select(front, start + step * at, end - step * (last - at));
}

void addFactories(Table &t) {
  t.add({"bartlett_window"}, bartlettWindow);
  t.add({"blackman_window"}, [](Call &c) { return cosineWindow(c, 0.42, 0.5, 0.08); });
  t.add({"hamming_window"}, [](Call &c) { return cosineWindow(c, 0.54, 0.46, 0); });
  t.add({"hann_window"}, [](Call &c) { return cosineWindow(c, 0.5, 0.5, 0); });
  t.add({"kaiser_window"}, kaiserWindow);
  t.add({"zeros", "zeros_like", "new_zeros", "zero", "empty", "empty_like", "empty_strided", "new_empty",
         "new_empty_strided", "empty_permuted", "_efficientzerotensor"},
        [](Call &c) { return filled(c, 0); });
  t.add({"ones", "ones_like", "new_ones"}, [](Call &c) { return filled(c, 1); });
  t.add({"full", "full_like", "new_full", "fill", "scalar_tensor"}, filledWith);
  t.add({"copy", "clone", "_to_copy", "lift", "lift_fresh", "lift_fresh_copy", "detach", "alias", "contiguous",
         "detach_copy", "alias_copy", "expand_copy", "expand", "resolve_conj", "resolve_neg"},
        copied);
  t.add({"arange", "range"}, arange);
  t.add({"linspace"}, linspace);
  t.add({"logspace"}, logspace);
  t.add({"eye"}, eye);
  t.add({"tril_indices", "triu_indices"}, triangleIndices);
}

} // namespace sojourn::decompose
