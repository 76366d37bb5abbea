// SPDX-License-Identifier: Apache-2.0
// What single mechanisms cost: upper bounds of Renyi divergences, and the integers made of them.
#ifndef SOJOURN_RUNTIME_PRIVACY_RDP_H
#define SOJOURN_RUNTIME_PRIVACY_RDP_H

#include "runtime/privacy/Charge.h"

namespace sojourn::privacy {

/// Upper bounds, in nats, of the Renyi divergence of an order in [2, 1024] between the outputs on
/// two neighbours, in both directions. They exceed the exact value by less than 1e-8 of it (1e-11 as
/// a rule), but are never below the least normal number where that is positive. Infinity where an argument is out of
/// its range or NaN.

/// Gaussian noise, continuous or on the integers: order * rho with rho = S^2 / (2 sigma^2) >= 0
/// for L2 sensitivity S (Mironov 2017; Canonne, Kamath, Steinke 2020).
double gaussianDivergence(int order, double rho);

/// Gaussian noise on the sum over a Poisson sample of rate q in [0, 1] (Mironov, Talwar, Zhang 2019,
/// section 3.3). All noises that one sample feeds are one mechanism: rho is the sum of theirs.
double sampledGaussianDivergence(int order, double q, double rho);

/// Any epsilon-differentially private mechanism, epsilon >= 0: randomised response is the worst.
double pureDivergence(int order, double epsilon);

/// The same as costs: per order rounded up. An argument out of its range or NaN costs the maximum,
/// which no budget admits.
Charge gaussian(double rho);
Charge sampledGaussian(double q, double rho);
Charge pure(double epsilon);

/// The cost of the same release where a row may become any other row (replace_one), of what it costs where it becomes
/// the null row and back (null_one): two such steps, by the weak triangle inequality of the Renyi divergence (Mironov
/// 2017, proposition 11, with p = q = 2),
///
///     D_a(P || Q) <= (a - 1/2) / (a - 1) D_2a(P || R) + D_(2a-1)(R || Q)
///
/// at the next order of kOrders that is at least 2a for both; an order without such a one costs the maximum. Holds for
/// whatever was charged, Poisson samples and sums of charges included, and adds up as charges do. Gaussian noise on all
/// rows costs less, `gaussian(4 * rho)`, and a pure release `pure(2 * epsilon)`.
Charge replaceOne(const Charge &nullOne);

/// The probability `mass` in [0, 1] that a mechanism is not the one whose divergence is charged: a
/// sample over its capacity, a sampler's distance in total variation.
Charge failure(double mass);

} // namespace sojourn::privacy

#endif // SOJOURN_RUNTIME_PRIVACY_RDP_H
