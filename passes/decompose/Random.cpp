// SPDX-License-Identifier: Apache-2.0
// Random numbers from the call's seed. Draws are counter based, so an
// element's draw depends on its place and the seed only.
#include "passes/decompose/Call.h"

using namespace mlir;

namespace sojourn::decompose {
namespace {

/// The element in which uniforms are drawn: halves use f32, and compare
/// before they round.
Type drawElement(Type element) { return element.isF64() ? element : Float32Type::get(element.getContext()); }

Term uniform(Call &c, Dims shape, Type element, int64_t stream = 0) {
  return draw(Draw::uniform, c.seed(), shape, drawElement(element), stream);
}

/// Integers in [0, range), or of the full 63 bits where range is 0.
Term integers(Call &c, Dims shape, uint64_t range) {
  Term bits = draw(Draw::bits, c.seed(), shape, c.i64());
  if (range == 0 || range > (uint64_t(1) << 32)) {
    // 31 more bits from a second stream.
    Term more = draw(Draw::bits, c.seed(), shape, c.i64(), 1);
    Term shift = constantInt(c.emitter, 31, c.i64());
    Term one = constantInt(c.emitter, 1, c.i64());
    bits = shiftLeft(bits, shift) | shiftRight(more, one);
  }
  if (range == 0) {
    return bits;
  }
  return rem(bits, constantInt(c.emitter, static_cast<int64_t>(range), c.i64()));
}

Results uniformOver(Call &c) {
  Type element = drawElement(c.element());
  Term u = uniform(c, c.shape(), element);
  if (!c.has("from") && !c.has("to")) {
    return u;
  }
  Term from = c.number("from", element, 0);
  return u * (c.number("to", element, 1) - from) + from;
}

Results normal(Call &c) {
  Type element = drawElement(c.element());
  Term z = draw(Draw::normal, c.seed(), c.shape(), element);
  if (c.has("std") && !c.isLiteral("std", 1)) {
    z = z * c.number("std", element);
  }
  if (c.has("mean") && !c.isLiteral("mean", 0)) {
    z = z + c.number("mean", element);
  }
  return z;
}

Results bernoulli(Call &c) {
  // Without p the tensor itself holds the probabilities.
  Term self = c.in("self");
  Type element = drawElement(self.element());
  Term p = c.number(c.has("p") ? "p" : "self", element);
  return uniform(c, c.shape(), element) < p;
}

Results randint(Call &c) {
  int64_t low = c.integer("low"), high = c.integer("high");
  if (high <= low) {
    return c.fail("draws integers from an empty range");
  }
  Term drawn = integers(c, c.shape(), static_cast<uint64_t>(high) - static_cast<uint64_t>(low));
  return drawn + constantInt(c.emitter, low, c.i64());
}

/// random_: from `from` up to `to`, by default everything that the element
/// type holds exactly.
Results randomIntegers(Call &c) {
  Type element = c.element();
  int64_t from = c.integer("from");
  uint64_t range = 0;
  if (c.has("to")) {
    range = static_cast<uint64_t>(c.integer("to")) - static_cast<uint64_t>(from);
  } else if (auto real = dyn_cast<FloatType>(element)) {
    range = (uint64_t(1) << real.getFPMantissaWidth()) + 1 - static_cast<uint64_t>(from);
  } else {
    unsigned bits = element.getIntOrFloatBitWidth();
    bits -= element.isUnsignedInteger() || bits == 1 ? 0 : 1;
    range = bits >= 63 ? 0 : (uint64_t(1) << bits) - from;
  }
  return integers(c, c.shape(), range) + constantInt(c.emitter, from, c.i64());
}

Results randperm(Call &c) { return sort(integers(c, c.shape(), 0), 0, false).second; }

/// -log(1 - u): exponentially distributed with mean 1.
Term exponential(Call &c, Type element) { return -log1p(-uniform(c, c.shape(), element)); }

Results multinomial(Call &c) {
  Term weights = c.wide("self");
  Term table = weights.rank() == 1 ? unsqueeze(weights, 0) : weights;
  int64_t samples = c.integer("num_samples");
  int64_t rows = table.dim(0), classes = table.dim(1);
  if (c.boolean("replacement")) {
    // The number of cumulative weights not above a uniform share of all.
    Term running = cumulative("cumsum", table, 1);
    Term total = sliceDim(running, 1, classes - 1, classes);
    Term u = uniform(c, {rows, samples}, table.element()) * total;
    Term below = reshape(running, {rows, 1, classes}) <= reshape(u, {rows, samples, 1});
    Term index = min(sum(toIndex(below), {2}), static_cast<double>(classes - 1));
    return reshape(index, c.shape());
  }
  // The first arrivals of exponential clocks at these rates.
  Term u = uniform(c, table.shape(), table.element());
  Term arrival = -log1p(-u) / table;
  return reshape(topk(arrival, 1, samples, /*largest=*/false).second, c.shape());
}

Results dropout(Call &c) {
  Term x = c.wide("input");
  if (!c.boolean("train", true)) {
    return {x, full(c.emitter, x.shape(), 1, c.emitter.builder.getI1Type())};
  }
  // 1 / (1 - p) in double, as in ATen; everything is dropped for p = 1.
  Term keep = 1.0 - c.number("p", c.f64());
  Type drawn = drawElement(x.element());
  Term mask = uniform(c, x.shape(), drawn) < convert(keep, drawn);
  Term scale = select(eq(keep, 0.0), 0.0, 1.0 / keep);
  Term y = x * convert(mask, x.element()) * convert(scale, x.element());
  return {y, mask};
}

Results dropoutBackward(Call &c) {
  Term g = convert(c.in("grad_output"), wideElement(c.element()));
  return g * convert(c.in("mask"), g.element()) * c.number("scale", g.element());
}

} // namespace

void addRandom(Table &t) {
  t.add({"rand", "rand_like", "uniform"}, uniformOver);
  t.add({"randn", "randn_like", "normal", "normal_functional"}, normal);
  t.add({"bernoulli"}, bernoulli);
  t.add({"randint", "randint_like"}, randint);
  t.add({"random"}, randomIntegers);
  t.add({"randperm"}, randperm);
  t.add({"exponential"}, [](Call &c) -> Results {
    Type element = drawElement(c.element());
    return exponential(c, element) / c.number("lambd", element, 1);
  });
  t.add({"log_normal"}, [](Call &c) -> Results {
    Type element = drawElement(c.element());
    Term z = draw(Draw::normal, c.seed(), c.shape(), element);
    return exp(c.number("mean", element, 1) + c.number("std", element, 2) * z);
  });
  t.add({"cauchy"}, [](Call &c) -> Results {
    Type element = drawElement(c.element());
    Term angle = (uniform(c, c.shape(), element) - 0.5) * 3.14159265358979323846;
    return c.number("median", element, 0) + c.number("sigma", element, 1) * (sin(angle) / cos(angle));
  });
  t.add({"geometric"}, [](Call &c) -> Results {
    Type element = drawElement(c.element());
    return max(ceil(-exponential(c, element) / log1p(-c.number("p", element))), 1.0);
  });
  t.add({"multinomial"}, multinomial);
  t.add({"native_dropout"}, dropout);
  t.add({"native_dropout_backward"}, dropoutBackward);
}

} // namespace sojourn::decompose
