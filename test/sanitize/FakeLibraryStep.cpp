// SPDX-License-Identifier: Apache-2.0
// Elementwise steps of the fake library (FakeLibrary.cpp): an element at a time, in double.
#include "runtime/Chain.h"
#include "runtime/Execute.h"
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <numbers>

namespace sojourn::runtime {

namespace {

/// The derivative of log(gamma(x)): up to where the asymptotic series holds, then the series.
double digamma(double x) {
  if (x == 0) {
    return std::copysign(std::numeric_limits<double>::infinity(), -x);
  }
  if (x < 0) {
    return x == std::floor(x) ? std::numeric_limits<double>::quiet_NaN()
                              : digamma(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * x);
  }
  double below = 0;
  for (; x < 10; ++x) {
    below += 1 / x;
  }
  double r = 1 / (x * x);
  return std::log(x) - 0.5 / x - r * (1.0 / 12 - r * (1.0 / 120 - r * (1.0 / 252 - r / 240))) - below;
}

/// Newton's steps from a closed form that is right to three digits.
double erfinv(double y) {
  if (!(std::abs(y) < 1)) {
    return std::abs(y) == 1 ? std::copysign(std::numeric_limits<double>::infinity(), y)
                            : std::numeric_limits<double>::quiet_NaN();
  }
  constexpr double a = 0.147;
  double l = std::log1p(-y * y), t = 2 / (std::numbers::pi * a) + l / 2;
  double x = std::copysign(std::sqrt(std::sqrt(t * t - l / a) - t), y);
  for (int step = 0; step < 4; ++step) {
    double error = y < 0 ? (1 + y) - std::erfc(-x) : std::erfc(x) - (1 - y);
    x += error * std::sqrt(std::numbers::pi) / 2 * std::exp(x * x);
  }
  return x;
}

template <typename T>
using Unary = T (*)(T);
template <typename T>
using Binary = T (*)(T, T);

Unary<double> realUnary(EOp op) {
  switch (op) {
  case EOp::exp: return [](double x) { return std::exp(x); };
  case EOp::expm1: return [](double x) { return std::expm1(x); };
  case EOp::log: return [](double x) { return std::log(x); };
  case EOp::log1p: return [](double x) { return std::log1p(x); };
  case EOp::sin: return [](double x) { return std::sin(x); };
  case EOp::cos: return [](double x) { return std::cos(x); };
  case EOp::tanh: return [](double x) { return std::tanh(x); };
  case EOp::logistic: return [](double x) { return 1 / (1 + std::exp(-x)); };
  case EOp::erf: return [](double x) { return std::erf(x); };
  case EOp::erfc: return [](double x) { return std::erfc(x); };
  case EOp::erfinv: return erfinv;
  case EOp::lgamma:
    return [](double x) {
      int sign = 0;
      return ::lgamma_r(x, &sign); // std::lgamma writes a global
    };
  case EOp::digamma: return digamma;
  default: return nullptr;
  }
}

Binary<double> realBinary(EOp op) {
  switch (op) {
  case EOp::pow: return [](double x, double y) { return std::pow(x, y); };
  case EOp::atan2: return [](double x, double y) { return std::atan2(x, y); };
  default: return nullptr;
  }
}

using Complex = std::complex<double>;

Unary<Complex> complexUnary(EOp op) {
  switch (op) {
  case EOp::neg: return [](Complex x) { return -x; };
  case EOp::sqrt: return [](Complex x) { return std::sqrt(x); };
  case EOp::exp: return [](Complex x) { return std::exp(x); };
  case EOp::expm1: return [](Complex x) { return std::exp(x) - 1.0; };
  case EOp::log: return [](Complex x) { return std::log(x); };
  case EOp::log1p: return [](Complex x) { return std::log(1.0 + x); };
  case EOp::sin: return [](Complex x) { return std::sin(x); };
  case EOp::cos: return [](Complex x) { return std::cos(x); };
  case EOp::tanh: return [](Complex x) { return std::tanh(x); };
  case EOp::logistic: return [](Complex x) { return 1.0 / (1.0 + std::exp(-x)); };
  default: return nullptr;
  }
}

/// Comparisons give 0 or 1.
Binary<Complex> complexBinary(EOp op) {
  switch (op) {
  case EOp::add: return [](Complex x, Complex y) { return x + y; };
  case EOp::sub: return [](Complex x, Complex y) { return x - y; };
  case EOp::mul: return [](Complex x, Complex y) { return x * y; };
  case EOp::div: return [](Complex x, Complex y) { return x / y; };
  case EOp::pow: return [](Complex x, Complex y) { return std::pow(x, y); };
  case EOp::eq: return [](Complex x, Complex y) { return Complex(x == y ? 1 : 0); };
  case EOp::ne: return [](Complex x, Complex y) { return Complex(x != y ? 1 : 0); };
  default: return nullptr;
  }
}

/// Element `i` of memory of any type. An integer beyond 2^53 rounds: as a complex number it does anyway.
Complex load(Element element, const void *data, int64_t i) {
  if (isComplex(element)) {
    return element == Element::c64 ? Complex(static_cast<const std::complex<float> *>(data)[i])
                                   : static_cast<const Complex *>(data)[i];
  }
  double value = 0;
  convertElements(element, static_cast<const char *>(data) + i * static_cast<int64_t>(byteWidth(element)), Element::f64,
                  &value, 1);
  return value;
}

void store(Element element, void *data, int64_t i, Complex value) {
  if (element == Element::c64) {
    static_cast<std::complex<float> *>(data)[i] = std::complex<float>(value);
  } else if (element == Element::c128) {
    static_cast<Complex *>(data)[i] = value;
  } else {
    double part = element == Element::i1 ? (value == Complex(0) ? 0 : 1) : value.real();
    convertElements(Element::f64, &part, element,
                    static_cast<char *>(data) + i * static_cast<int64_t>(byteWidth(element)), 1);
  }
}

/// What computes a step; all null where nothing does.
struct Functions {
  Unary<double> real1 = nullptr;
  Binary<double> real2 = nullptr;
  Unary<Complex> complex1 = nullptr;
  Binary<Complex> complex2 = nullptr;
};

class FakeStep final : public BlockStep {
public:
  FakeStep(const Functions &functions, Element in, Element out, unsigned splats)
      : functions_(functions), in_(in), out_(out), splats_(splats) {}

  void run(void *out, const void *a, const void *b, int64_t, int64_t n, unsigned) const override {
    for (int64_t i = 0; i < n; ++i) {
      Complex x = load(in_, a, (splats_ & 1) != 0 ? 0 : i);
      Complex y = b == nullptr ? Complex() : load(in_, b, (splats_ & 2) != 0 ? 0 : i);
      store(out_, out, i, apply(x, y));
    }
  }

private:
  Complex apply(Complex x, Complex y) const {
    if (functions_.real1 != nullptr) {
      return functions_.real1(x.real());
    }
    if (functions_.real2 != nullptr) {
      return functions_.real2(x.real(), y.real());
    }
    if (functions_.complex1 != nullptr) {
      return functions_.complex1(x);
    }
    return functions_.complex2(x, y);
  }

  Functions functions_;
  Element in_, out_;
  unsigned splats_;
};

} // namespace

std::shared_ptr<BlockStep> makeLibraryStep(EOp op, Element in, Element out, unsigned splats) {
  Functions functions;
  if (op == EOp::convert) {
    functions.complex1 = [](Complex x) { return x; };
  } else if (isComplex(in)) {
    functions.complex1 = complexUnary(op);
    functions.complex2 = complexBinary(op);
  } else if (isFloat(in)) {
    functions.real1 = realUnary(op);
    functions.real2 = realBinary(op);
  }
  if (functions.real1 == nullptr && functions.real2 == nullptr && functions.complex1 == nullptr &&
      functions.complex2 == nullptr) {
    return nullptr;
  }
  return std::make_shared<FakeStep>(functions, in, out, splats);
}

} // namespace sojourn::runtime
