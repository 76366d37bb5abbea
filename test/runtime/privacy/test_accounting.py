# SPDX-License-Identifier: Apache-2.0
"""Prices of the product against oracles that share nothing with it.

Divergences and tails: mpmath at 50 digits. Prices of random lists of events: dp-accounting's privacy
loss distributions from below (no accountant can go under them) and its RDP accountant, with the same
orders, from above. The driver `prices` answers in JSON; SOJOURN_PRICES names another build's.
"""

import math
import sys

import pytest
from accounting_support import (  # noqa: F401
    ORDERS,
    UNIT,
    ask,
    divergences_of,
    exact_pure,
    fresh_numbers,
    log_uniform,
    mp,
    question_of,
    random_events,
)
from dp_accounting import rdp
from dp_accounting.pld import privacy_loss_distribution as pld

LISTS = 1000

# Divergences and tails.


def exact_sampled(order, q, rho):
    q, rho = mp.mpf(q), mp.mpf(rho)
    terms = (
        mp.binomial(order, k) * (1 - q) ** (order - k) * q**k * mp.exp(k * (k - 1) * rho) for k in range(order + 1)
    )
    return mp.log(mp.fsum(terms)) / (order - 1)


def exact_replaced(order, q, sigma):
    """D_a(P || Q) where a row in a Poisson sample moves the sum by 1 in both, in opposite directions, by quadrature."""

    def density(x, shift):
        return (1 - q) * mp.npdf(x, 0, sigma) + q * mp.npdf(x, shift, sigma)

    # The integrand's weight lies between the modes of P^a and of Q^(1 - a).
    places = sorted({-40 * sigma - order, -8 * sigma, -1, 0, 1, 8 * sigma, order, 2 * order, 40 * sigma + 2 * order})
    moment = mp.quad(lambda x: density(x, 1) ** order * density(x, -1) ** (1 - order), places)
    return mp.log(moment) / (order - 1)


def test_any_other_row(fresh):
    """What a release costs where a row may become any other: by way of the null row, never below the exact value."""
    for order in ORDERS[:8:2]:
        for _ in range(3):
            q, sigma = fresh.choice([1.0, log_uniform(fresh, 1e-3, 0.5)]), log_uniform(fresh, 0.7, 8)
            rho = 1 / (2 * sigma**2)
            event = {"kind": "sampled", "q": q, "rho": rho, "count": 3}
            (replaced,) = ask([{"ask": "replaced", "event": event}])
            found = replaced["rdp"][ORDERS.index(order)] * UNIT / 3
            twice = next(o for o in ORDERS if o >= 2 * order)
            step = min(exact_sampled(twice, q, rho), twice * mp.mpf(rho))
            bound = step * (1 + (mp.mpf(order) - mp.mpf("0.5")) / (order - 1))
            assert bound <= found <= bound * (1 + mp.mpf(1e-8)) + 4 * UNIT
            exact = exact_replaced(order, mp.mpf(q), mp.mpf(sigma))
            assert exact <= found, (order, q, sigma)
            if q == 1:
                assert abs(exact - 4 * order * rho) <= 1e-9 * exact, "the oracle knows the plain case"
    (replaced,) = ask([{"ask": "replaced", "event": {"kind": "failure", "mass": 1e-9}}])
    assert replaced["rdp"][:-1] == [0] * 21 and replaced["delta"] == math.ceil(1e-9 * 2**64)
    assert replaced["rdp"][-1] == 2**64 - 1, "no order is twice the last one"


def test_divergences(fresh):
    """Never below the exact value, and close, over more magnitudes than any plan has."""
    questions, exact = [], []
    for order in ORDERS:
        for _ in range(8 if order < 1000 else 3):
            q, rho = log_uniform(fresh, 1e-12, 1), log_uniform(fresh, 1e-9, 1e3)
            questions.append({"ask": "divergence", "kind": "sampled", "order": order, "q": q, "rho": rho})
            exact.append(min(exact_sampled(order, q, rho), order * mp.mpf(rho)))
            epsilon = log_uniform(fresh, 1e-9, 50)
            questions.append({"ask": "divergence", "kind": "pure", "order": order, "epsilon": epsilon})
            exact.append(exact_pure(order, epsilon))
    for question, answer, value in zip(questions, ask(questions), exact):
        assert value <= mp.mpf(answer["value"]) <= value * (1 + mp.mpf(1e-9)), (question, answer, value)


def exact_tail(rows, rate, capacity):
    n, q = mp.mpf(rows), mp.mpf(rate)
    k = mp.mpf(capacity) + 1
    if k > n:
        return mp.mpf(0)
    logarithm = (
        mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1) + k * mp.log(q) + (n - k) * mp.log1p(-q)
    )
    term, total = mp.exp(logarithm), mp.mpf(0)
    while k <= n and (term > total * mp.mpf(10) ** -15 or k < n * q):
        total += term
        term *= (n - k) / (k + 1) * q / (1 - q)
        k += 1
    return total


def exact_poisson_tail(mean, capacity):
    m, k = mp.mpf(mean), mp.mpf(capacity) + 1
    term, total = mp.exp(k * mp.log(m) - m - mp.loggamma(k + 1)), mp.mpf(0)
    while term > total * mp.mpf(10) ** -15 or k < m:
        total += term
        term *= m / (k + 1)
        k += 1
    return total


def test_tails_and_capacities(fresh):
    """Upper bounds, within 2 % (or the smallest normal double), and the smallest capacity in exact arithmetic."""
    sizes = [(60000, 256), (455, 64), (1437, 64), (50000, 512), (2**40, 1024), (10**6, 1), (300, 299), (12, 5)]
    sizes += [(11349, 10422)]  # a tail of 1e-393: no double is that small
    sizes += [
        (rows := int(log_uniform(fresh, 20, 2**40)), int(log_uniform(fresh, 1, min(rows, 20000)))) for _ in range(40)
    ]
    capacities = [a["value"] for a in ask([{"ask": "capacity", "expected": e} for _, e in sizes])]
    questions = [
        {"ask": "overflow", "rows": n, "rate": e / n, "capacity": c + below}
        for (n, e), c in zip(sizes, capacities)
        for below in (0, -8)
    ]
    for question, answer in zip(questions, ask(questions)):
        exact = exact_tail(question["rows"], question["rate"], question["capacity"])
        assert exact <= mp.mpf(answer["value"]), (question, answer, exact)
        closest = max(exact * mp.mpf(1.02), sys.float_info.min)
        assert exact > 1e-6 or answer["value"] <= closest, (question, answer, exact)
    masses = ask([{"ask": "poisson", "mean": e, "capacity": c} for (_, e), c in zip(sizes, capacities)])
    for (rows, expected), capacity, mass in zip(sizes, capacities, masses):
        exact = exact_poisson_tail(expected, capacity)
        assert exact <= mp.mpf(mass["value"]) <= exact * mp.mpf(1 + 1e-6), (expected, capacity, mass, exact)
        assert capacity % 8 == 0 and capacity > expected
        assert exact_tail(rows, expected / rows, capacity) <= exact <= mp.mpf(2) ** -60
        assert exact_poisson_tail(expected, capacity - 8) * mp.mpf(1 + 1e-6) > mp.mpf(2) ** -60


# Prices of lists of events.


def loss_distribution(events, interval):
    """Pessimistic: an upper bound on any grid."""
    total, options = None, {"value_discretization_interval": interval}
    for kind, given, count in events:
        if kind == "gaussian":
            one = pld.from_gaussian_mechanism(given["sigma"], **options)
        elif kind == "sampled":
            one = pld.from_gaussian_mechanism(given["sigma"], sampling_prob=given["q"], **options)
        elif kind == "laplace":
            one = pld.from_laplace_mechanism(1 / given["epsilon"], **options)
        else:
            one = pld.from_randomized_response(2 / (1 + math.exp(given["epsilon"])), 2, **options)
        one = one.self_compose(count)
        total = one if total is None else total.compose(one)
    return total


def below_distributions(events, delta, price):
    """Whether the price is no less than the exact epsilon of the list, less 1e-6.

    A pessimistic distribution errs upwards, so being above it proves it. A coarse grid may err by more
    than the price has to spare; then a finer one decides.
    """
    for interval in (2e-2, 4e-3, 1e-3, 1e-4, 1e-5):
        if price >= loss_distribution(events, interval).get_epsilon_for_delta(delta) - 1e-6:
            return interval
    return None


def weights(epsilon, delta):
    """The orders' shares of delta, as Filter.cpp states them."""
    logs = [math.log(a) for a in ORDERS]
    ends = [2 * logs[0] - logs[1], *logs, 2 * logs[-1] - logs[-2]]
    parts = [(above - below) / 2 for below, above in zip(ends, ends[2:])]
    usual = math.log(1e6)
    length = usual * (min(max(math.log(1 / delta), math.log(1e3)), math.log(1e12)) / usual) ** 0.25
    peak = 1 + 0.56 * math.sqrt(length) * (math.sqrt(length + epsilon) + math.sqrt(length)) / epsilon
    peak = min(max(peak, ORDERS[0]), ORDERS[-1])
    near = [part * math.exp(-8 * math.log(a / peak) ** 2) for a, part in zip(ORDERS, parts)]
    return [15 / 16 * (0.96 * g / sum(near) + 0.04 * part / sum(parts)) for g, part in zip(near, parts)]


def admitted(epsilon, delta, divergences):
    """Whether a grant admits a total: condition (1) of Filter.cpp, over a fine grid of x."""
    shares = [math.log(w) + (a - 1) * (epsilon - r) for a, w, r in zip(ORDERS, weights(epsilon, delta), divergences)]

    def above(x):
        logs = [share + (a - 1) * x for a, share in zip(ORDERS, shares)]
        most = max(logs)
        return most + math.log(sum(math.exp(log - most) for log in logs)) - math.log(-math.expm1(-x))

    return min(above(math.exp(k / 400)) for k in range(-2900, 100)) >= -math.log(delta)


def test_prices_of_random_lists(fresh):
    lists = [(random_events(fresh), log_uniform(fresh, 1e-8, 1e-4)) for _ in range(LISTS)]
    answers = ask([question_of(events, delta) for events, delta in lists])
    intervals, overheads = {}, []
    for (events, delta), answer in zip(lists, answers):
        price, shown = answer["epsilon"], (events, delta, answer["epsilon"], answer["best"])
        # Never below what the mechanisms really lose.
        interval = below_distributions(events, delta, price)
        assert interval is not None, shown
        intervals[interval] = intervals.get(interval, 0) + 1
        # Costs are the divergences, rounded up.
        exact, counts = divergences_of(events, ORDERS), sum(count for _, _, count in events)
        for ours, theirs in zip(answer["rdp"], exact):
            assert -1e-9 * theirs - 1e-12 <= ours * UNIT - theirs <= 1e-8 * theirs + (counts + 1) * UNIT, shown
        # Not above RDP's best order but by its share of delta; less where neighbours help.
        best, _ = rdp.compute_epsilon(ORDERS, exact, delta)
        plain = [
            r + math.log1p(-1 / a) - math.log(delta * a) / (a - 1) for a, r in zip(ORDERS, exact)
        ]  # without dp-accounting's shortcut for tiny divergences
        k = min(range(len(ORDERS)), key=plain.__getitem__)
        assert best <= plain[k] + 1e-9
        assert 0.97 * plain[k] <= answer["best"] <= plain[k] * (1 + 1e-7) + counts * UNIT, shown
        split = -math.log(weights(price, delta)[k]) / (ORDERS[k] - 1)
        assert answer["best"] <= price <= plain[k] * (1 + 1e-6) + split + (counts + 1) * UNIT + 2**-29, shown
        overheads.append(price / plain[k] - 1)
    for (_, delta), answer in zip(lists[:10], answers):
        price, units = answer["epsilon"], [ours * UNIT for ours in answer["rdp"]]
        assert admitted(price * (1 + 1e-5), delta, units) and not admitted(price * (1 - 1e-5), delta, units)
    overheads.sort()
    middle, most = overheads[LISTS // 2], overheads[-1]
    print(f"grids: {intervals}; above the best of these orders by {middle:.3f} in the middle, {most:.3f} at most")


def test_a_price_too_low_is_noticed():
    """The check from below finds what it is for: half the noise that is charged."""
    events = [("sampled", {"q": 0.05, "sigma": 1.0}, 500)]
    cheap = [("sampled", {"q": 0.05, "sigma": 2.0}, 500)]
    (answer,) = ask([question_of(cheap, 1e-5)])
    assert below_distributions(cheap, 1e-5, answer["epsilon"])
    assert below_distributions(events, 1e-5, answer["epsilon"]) is None


def test_noise_multipliers(fresh):
    """A run of the multiplier for an epsilon loses no more than that, by its loss distribution."""
    for _ in range(20):
        q, steps = log_uniform(fresh, 1e-3, 0.3), int(log_uniform(fresh, 10, 3000))
        epsilon, delta = log_uniform(fresh, 0.3, 8), log_uniform(fresh, 1e-7, 1e-4)
        (answer,) = ask([{"ask": "noise", "epsilon": epsilon, "delta": delta, "q": q, "steps": steps}])
        events = [("sampled", {"q": q, "sigma": answer["value"]}, steps)]
        assert below_distributions(events, delta, epsilon), (events, epsilon, delta)
        (back,) = ask([{"ask": "epsilon", "noise": answer["value"], "delta": delta, "q": q, "steps": steps}])
        assert epsilon * 0.999 <= back["value"] <= epsilon


def test_lists_of_dp_accounting(fresh):
    """The reference run of the notes, and failures that only add to delta."""
    events = [{"kind": "sampled", "q": 256 / 60000, "rho": 0.5 / 1.1**2, "count": 14062}]
    plain, failing, late = ask(
        [
            {"ask": "price", "events": events, "delta": 1e-5},
            {"ask": "price", "events": [*events, {"kind": "failure", "mass": 6.2e-7}], "delta": 1e-5},
            {"ask": "price", "events": [*events, {"kind": "failure", "mass": 6.3e-7}], "delta": 1e-5},
        ]
    )
    assert plain["best"] == pytest.approx(2.596981179, rel=1e-8)
    assert failing["epsilon"] == plain["epsilon"] and failing["delta"] == math.ceil(6.2e-7 * 2**64)
    assert late["epsilon"] is None, "more failures than their share of delta"
