# SPDX-License-Identifier: Apache-2.0
"""Functions of complex numbers where formulas by parts matter: infinities, numbers near zero and far away."""

import itertools

import mpmath
import numpy
import pytest
import torch

import sojourn

SPECIAL = [
    0j,
    complex(float("inf"), 0),
    complex(0, float("-inf")),
    complex(float("nan"), 1),
    1e300 + 1e300j,
    1 + 2j,
    -0.5 - 0.25j,
]


@pytest.mark.parametrize("name", ["isinf", "isfinite", "isnan"])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_questions_about_parts(name, dtype):
    x = torch.tensor(SPECIAL, dtype=dtype)
    with sojourn.local() as owner:
        assert getattr(torch, name)(x.to(owner.device)).tolist() == getattr(torch, name)(x).tolist()


@pytest.mark.parametrize("name", ["sinh", "cosh", "tan", "log2", "log10", "expm1"])
def test_functions_near_zero_and_far_away(name):
    torch.manual_seed(torch.seed())
    sizes = 10.0 ** torch.empty(200, dtype=torch.float64).uniform_(-9, 2)
    x = torch.polar(sizes, torch.empty(200, dtype=torch.float64).uniform_(-3.1, 3.1))
    with sojourn.local() as owner:
        found = getattr(torch, name)(x.to(owner.device)).cpu()
    expected = torch.from_numpy(getattr(numpy, name)(x.numpy()))
    torch.testing.assert_close(found.real, expected.real, rtol=1e-12, atol=1e-14 * float(expected.abs().min()))
    torch.testing.assert_close(found.imag, expected.imag, rtol=1e-12, atol=1e-14 * float(expected.abs().min()))


def test_zero_to_the_power_of_zero():
    x = torch.zeros(2, dtype=torch.complex128)
    with sojourn.local() as owner:
        assert (x.to(owner.device) ** x.to(owner.device)).tolist() == [1, 1]


INVERSE = ["asin", "acos", "asinh", "acosh", "atan", "atanh", "log1p"]
#: Where a branch cut ends, and where nothing does.
CENTRES = numpy.array([1, -1, 1j, -1j, 0])


def _joined(re, im):
    z = numpy.empty(re.shape, numpy.complex128)
    z.real, z.imag = re, im
    return z


def _plane(generator, count, least=-300.0, most=300.0):
    """Points of all sizes and of moderate ones, near the ends of the cuts, beside their lines, and around -1."""
    exponents = generator.uniform(least, most, (4, count))
    exponents[1:3] = generator.uniform(-3, 3, (2, count))
    sizes = 10.0**exponents * generator.choice([-1, 1], (4, count))
    near = 10.0 ** generator.uniform(least, -0.5, (2, count)) * generator.choice([-1, 0, 1], (2, count))
    centres = generator.choice(CENTRES, count)
    beside = numpy.where(generator.random(count) < 0.5, 0.0, -0.0)
    angles = generator.uniform(-numpy.pi, numpy.pi, count)
    around = (numpy.exp(1j * angles) - 1) * (1 + 10.0 ** generator.uniform(-8, -2, count))
    return numpy.concatenate([
        _joined(sizes[0], sizes[3]), _joined(sizes[1], sizes[2]), _joined(sizes[0], sizes[1]),
        _joined(centres.real + near[0], centres.imag + near[1]), _joined(sizes[1], beside), _joined(beside, sizes[2]),
        around,
    ])  # fmt: skip


def _exact_log1p(x):
    """NumPy's and torch's lose digits of the real part around 0 and around the circle where |1 + x| is 1."""
    real = []
    with mpmath.workprec(2200):
        for z in x.tolist():
            real.append(float(mpmath.log(abs(mpmath.mpc(z) + 1))))
    return _joined(numpy.array(real), numpy.log1p(x).imag)


def _expected(name, x):
    with numpy.errstate(all="ignore"):
        return _exact_log1p(x) if name == "log1p" else getattr(numpy, name)(x)


def _computed(name, x, device):
    return getattr(torch, name)(torch.from_numpy(x).to(device)).cpu().numpy()


def _distance(found, expected):
    """Units in the last place between two real arrays; 0 for the same infinity, NaN or signed zero, else infinity."""
    same = (found == expected) & (numpy.signbit(found) == numpy.signbit(expected))
    same |= numpy.isnan(found) & numpy.isnan(expected)
    comparable = numpy.isfinite(found) & numpy.isfinite(expected) & ((found != 0) | (expected != 0))
    with numpy.errstate(all="ignore"):
        units = numpy.abs(found - expected) / numpy.spacing(numpy.abs(expected))
    return numpy.where(same, 0, numpy.where(comparable, units, numpy.inf))


def _check(name, x, found, expected, ulps):
    for part in ("real", "imag"):
        units = _distance(getattr(found, part), getattr(expected, part))
        worst = int(units.argmax())
        print(name, found.dtype, part, units[worst], "units at", x[worst])
        assert units[worst] <= ulps, (name, part, x[worst], found[worst], expected[worst])


@pytest.mark.parametrize("name", INVERSE)
def test_inverse_functions_over_the_plane(name, device, generator):
    x = _plane(generator, 150)
    _check(name, x, _computed(name, x, device), _expected(name, x), ulps=8)


@pytest.mark.parametrize("name", INVERSE)
def test_inverse_functions_of_single_precision(name, device, generator):
    x = _plane(generator, 100, -37, 37).astype(numpy.complex64)
    expected = _expected(name, x.astype(numpy.complex128)).astype(numpy.complex64)
    _check(name, x, _computed(name, x, device), expected, ulps=1)


@pytest.mark.parametrize("name", INVERSE)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_inverse_functions_of_special_numbers(name, dtype, device):
    """Infinities, zeros of both signs on both sides of the cuts, their ends, and the smallest and largest numbers."""
    limits = numpy.finfo(dtype)
    ends = [limits.smallest_subnormal, limits.tiny, 1 + limits.eps, limits.max / 2, limits.max]
    sizes = [0.0, 0.5, 1.0, 2.0, *map(float, ends), numpy.inf]
    values = sizes + [-each for each in sizes] + [numpy.nan]
    x = numpy.array([complex(a, b) for a, b in itertools.product(values, values)], dtype)
    found = _computed(name, x, device)
    wide = x.astype(numpy.complex128)
    with numpy.errstate(all="ignore"):
        expected = getattr(numpy, name)(wide)
        if name == "log1p":
            isPlain = numpy.isfinite(expected)  # NumPy's is infinite where |1 + x| overflows, and so is ours
            expected[isPlain] = _exact_log1p(wide[isPlain])
        expected = expected.astype(dtype)
    # C99 leaves the signs of parts open where one of the argument is NaN.
    for each in (found, expected):
        open_ = numpy.isnan(x)
        each[open_] = _joined(numpy.abs(each.real), numpy.abs(each.imag))[open_]
    _check(name, x, found, expected, ulps=8)


@pytest.mark.parametrize("name", INVERSE)
def test_gradients_of_inverse_functions(name, device, generator):
    x = torch.from_numpy(_joined(*generator.normal(0, 2, (2, 40))))
    gradients = []
    for there in (x.to(device), x):
        leaf = there.detach().requires_grad_()
        getattr(torch, name)(leaf).abs().square().sum().backward()
        gradients.append(leaf.grad.cpu())
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-13)
