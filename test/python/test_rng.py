# SPDX-License-Identifier: Apache-2.0
"""Random numbers: reproducible from torch's seeds, equal on both runtimes, of the right distribution.

Each test of a distribution has a bound that a right sampler misses once in about 10^9 runs; the
seed is fresh per run and printed.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from remote_support import fresh_seed, shared_owner

import sojourn

SIGMAS = 6.5


@pytest.fixture(params=["native", "numpy"])
def device(request):
    return shared_owner(request.param).device


DRAWS = {
    "rand": lambda d: torch.rand(3, 5, device=d),
    "rand double": lambda d: torch.rand(7, dtype=torch.float64, device=d),
    "randn": lambda d: torch.randn(4, 3, device=d),
    "randn double": lambda d: torch.randn(5, dtype=torch.float64, device=d),
    "randint": lambda d: torch.randint(-3, 9, (6,), device=d),
    "randperm": lambda d: torch.randperm(13, device=d),
    "bernoulli": lambda d: torch.bernoulli(torch.full((9,), 0.3, device=d)),
    "dropout": lambda d: F.dropout(torch.ones(11, device=d), 0.4),
    "normal_": lambda d: torch.empty(5, device=d).normal_(2, 3),
    "uniform_": lambda d: torch.empty(5, device=d).uniform_(-1, 4),
    "bernoulli_": lambda d: torch.empty(8, device=d).bernoulli_(0.7),
    "random_": lambda d: torch.empty(5, dtype=torch.int64, device=d).random_(0, 50),
    "exponential_": lambda d: torch.empty(5, device=d).exponential_(1.5),
    "rand_like": lambda d: torch.rand_like(torch.empty(4, device=d)),
    "randn_like": lambda d: torch.randn_like(torch.empty(4, 2, device=d)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_manual_seed_repeats(device, name):
    draw = DRAWS[name]
    seed = fresh_seed(name)
    torch.manual_seed(seed)
    first, second = sojourn.publish([draw(device), draw(device)])
    torch.manual_seed(seed)
    # Another cut into programs draws the same.
    again = [sojourn.publish(draw(device)) for _ in range(2)]
    assert torch.equal(first, again[0]) and torch.equal(second, again[1])
    torch.manual_seed(seed + 1)
    other = sojourn.publish([draw(device) for _ in range(6)])
    assert not all(torch.equal(first, o) for o in other)


@pytest.mark.parametrize("name", DRAWS)
def test_both_runtimes_draw_the_same(name):
    seed = fresh_seed(name)
    drawn = []
    for runtime in ("native", "numpy"):
        torch.manual_seed(seed)
        drawn.append(sojourn.publish(DRAWS[name](shared_owner(runtime).device)))
    assert drawn[0].dtype == drawn[1].dtype
    # 3 z + 2 in f32: the angle of a normal draw is rounded at 2 pi, its error grows by 3 sqrt(-2 ln u).
    torch.testing.assert_close(drawn[0], drawn[1], rtol=2e-6, atol=6e-6 if name == "normal_" else 1e-6)


def test_draws_differ(device):
    """Within one program every draw has its own seed, also of the same call."""
    torch.manual_seed(fresh_seed("draws"))
    draws = sojourn.publish([torch.rand(8, device=device) for _ in range(6)])
    assert len({tuple(d.tolist()) for d in draws}) == 6

    @sojourn.step
    def step():
        return sojourn.publish(F.dropout(torch.ones(64, device=device)))

    masks = [tuple(step().value.tolist()) for _ in range(5)]
    assert len(set(masks)) == 5


def test_fork_rng(device):
    torch.manual_seed(fresh_seed("fork"))
    state = torch.get_rng_state()
    plain = sojourn.publish([torch.rand(3, device=device) for _ in range(2)])
    torch.set_rng_state(state)
    first = torch.rand(3, device=device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        torch.rand(3, device=device)
    second = torch.rand(3, device=device)
    assert all(torch.equal(a, b) for a, b in zip(plain, sojourn.publish([first, second])))


def test_fork_rng_of_the_device_type(device):
    torch.manual_seed(fresh_seed("fork type"))
    with torch.random.fork_rng(device_type="owner", devices=[device.index]):
        a = torch.rand(3, device=device)
    b = torch.rand(3, device=device)
    a, b = sojourn.publish([a, b])
    assert torch.equal(a, b)


def test_generator_of_the_owner(device):
    seed = fresh_seed("generator")
    generator = torch.Generator(device)
    assert generator.device == device
    generator.manual_seed(seed)
    assert generator.initial_seed() == seed
    draw = lambda: torch.randn(4, device=device, generator=generator)
    before = torch.get_rng_state()
    first, second = draw(), draw()
    assert torch.equal(before, torch.get_rng_state()), "torch's own stream is not touched"
    state = generator.get_state()
    third = draw()
    generator.set_state(state)
    third_again = draw()
    generator.manual_seed(seed)
    first_again = draw()
    twin = torch.Generator("owner")
    twin.set_state(state)
    third_twin = torch.randn(4, device=device, generator=twin)
    copied = generator.clone_state() if hasattr(generator, "clone_state") else generator
    values = sojourn.publish([first, second, third, third_again, first_again, third_twin])
    assert copied is not None
    assert torch.equal(values[0], values[4]) and torch.equal(values[2], values[3]) and torch.equal(values[2], values[5])
    assert not torch.equal(values[0], values[1]) and not torch.equal(values[1], values[2])
    with pytest.raises(RuntimeError, match="16"):
        generator.set_state(torch.zeros(5, dtype=torch.uint8))


def test_a_cpu_generator_may_be_given(device):
    generator = torch.Generator().manual_seed(fresh_seed("cpu generator"))
    state = generator.get_state()
    a = torch.empty(5, device=device).normal_(generator=generator)
    generator.set_state(state)
    b = torch.empty(5, device=device).normal_(generator=generator)
    a, b = sojourn.publish([a, b])
    assert torch.equal(a, b)


def test_a_dropped_step_draws_and_goes_on(device):
    """Seeds come from torch's stream at record time; a dropped step has used its share, as in eager."""
    seed = fresh_seed("dropped")
    torch.manual_seed(seed)
    with pytest.raises(KeyError):
        with sojourn.step():
            torch.rand(3, device=device)
            raise KeyError
    after = sojourn.publish(torch.rand(3, device=device))
    torch.manual_seed(seed)
    kept = sojourn.publish([torch.rand(3, device=device), torch.rand(3, device=device)])
    assert torch.equal(after, kept[1])


def mean_within(values, mean, deviation, what):
    values = values.double().flatten()
    error = abs(float(values.mean()) - mean) / (deviation / math.sqrt(values.numel()))
    assert error < SIGMAS, f"{what}: mean {float(values.mean())}, expected {mean}: {error:.1f} sigma"


def test_uniform(device):
    torch.manual_seed(fresh_seed("uniform"))
    n = 40000
    draws = [
        torch.rand(n, device=device),
        torch.rand(n, dtype=torch.float64, device=device),
        torch.empty(n, device=device).uniform_(-2, 3),
    ]
    for name, x, low, high in zip(("float", "double", "uniform_"), sojourn.publish(draws), (0, 0, -2), (1, 1, 3)):
        assert float(x.min()) >= low and float(x.max()) < high + (1e-6 if name == "uniform_" else 0)
        unit = (x.double() - low) / (high - low)
        mean_within(unit, 0.5, math.sqrt(1 / 12), name)
        mean_within(unit**2, 1 / 3, math.sqrt(1 / 5 - 1 / 9), name + " squared")
        kolmogorov(unit, lambda u: u, name)
        # Neighbours are independent.
        mean_within((unit[1:] - 0.5) * (unit[:-1] - 0.5), 0, 1 / 12, name + " lag 1")


def kolmogorov(values, cdf, what):
    values = values.double().sort().values
    n = values.numel()
    expected = cdf(values)
    steps = torch.arange(n, dtype=torch.float64)
    distance = torch.maximum((expected - steps / n).abs().max(), (expected - (steps + 1) / n).abs().max())
    # P(sqrt(n) D > t) is about 2 exp(-2 t^2): 3.3 gives 7e-10.
    assert float(distance) * math.sqrt(n) < 3.3, f"{what}: Kolmogorov-Smirnov {float(distance) * math.sqrt(n):.2f}"


def test_normal(device):
    torch.manual_seed(fresh_seed("normal"))
    n = 40000
    draws = [
        torch.randn(n, device=device),
        torch.randn(n, dtype=torch.float64, device=device),
        torch.empty(n, device=device).normal_(1.5, 2.5),
    ]
    for name, x, mean, deviation in zip(
        ("float", "double", "normal_"), sojourn.publish(draws), (0, 0, 1.5), (1, 1, 2.5)
    ):
        z = (x.double() - mean) / deviation
        mean_within(z, 0, 1, name)
        mean_within(z**2, 1, math.sqrt(2), name + " squared")
        mean_within(z**4, 3, math.sqrt(96), name + " fourth power")
        kolmogorov(z, lambda v: 0.5 * (1 + torch.erf(v / math.sqrt(2))), name)
        mean_within(z[1:] * z[:-1], 0, 1, name + " lag 1")


def test_dropout(device):
    torch.manual_seed(fresh_seed("dropout"))
    p, n = 0.3, 30000
    x = torch.ones(n, device=device, requires_grad=True)
    y = F.dropout(x, p)
    y.sum().backward()
    values, gradients, off, all_ = sojourn.publish([y, x.grad, F.dropout(x, p, training=False), F.dropout(x, 1.0)])
    scale = 1 / (1 - p)
    assert torch.all((values == 0) | ((values - scale).abs() < 1e-6))
    assert torch.equal(values, gradients), "the same mask in backward"
    mean_within((values == 0).double(), p, math.sqrt(p * (1 - p)), "dropout")
    assert torch.equal(off, torch.ones(n)) and torch.equal(all_, torch.zeros(n))


def test_bernoulli(device):
    torch.manual_seed(fresh_seed("bernoulli"))
    n = 30000
    chances = torch.tensor([0.0, 0.05, 0.5, 0.9, 1.0])
    draws = sojourn.publish(torch.bernoulli(chances.to(device).unsqueeze(1).expand(5, n)))
    for chance, row in zip(chances.tolist(), draws):
        assert set(row.unique().tolist()) <= {0.0, 1.0}
        if chance in (0.0, 1.0):
            assert torch.all(row == chance)
        else:
            mean_within(row, chance, math.sqrt(chance * (1 - chance)), f"bernoulli {chance}")


def chi_square(counts, what):
    counts = counts.double()
    expected = counts.sum() / counts.numel()
    freedom = counts.numel() - 1
    statistic = float(((counts - expected) ** 2 / expected).sum())
    # Wilson-Hilferty: the cube root of chi^2 / k is nearly normal.
    z = ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    assert z < SIGMAS, f"{what}: chi-square {statistic:.1f} at {freedom} degrees of freedom"


def test_randint(device):
    torch.manual_seed(fresh_seed("randint"))
    x = sojourn.publish(torch.randint(-4, 9, (40000,), device=device))
    assert x.dtype == torch.int64 and int(x.min()) == -4 and int(x.max()) == 8
    chi_square(torch.bincount(x + 4, minlength=13), "randint")
    # A range that no 32-bit word covers.
    wide = sojourn.publish(torch.randint(0, 2**40, (20000,), device=device))
    assert int(wide.min()) >= 0 and int(wide.max()) < 2**40
    kolmogorov(wide.double() / 2**40, lambda u: u, "wide randint")


def test_randperm(device):
    torch.manual_seed(fresh_seed("randperm"))
    for n in (1, 2, 17, 1000):
        x = sojourn.publish(torch.randperm(n, device=device))
        assert torch.equal(x.sort().values, torch.arange(n))
    perms = torch.stack(sojourn.publish([torch.randperm(4, device=device) for _ in range(400)]))
    codes = (perms * torch.tensor([64, 16, 4, 1])).sum(1)
    names, counts = codes.unique(return_counts=True)
    assert len(names) == 24, "every order of four occurs"
    chi_square(counts, "randperm")


def test_exponential(device):
    torch.manual_seed(fresh_seed("exponential"))
    x = sojourn.publish(torch.empty(30000, device=device).exponential_(2.0))
    assert float(x.min()) >= 0 and bool(torch.isfinite(x).all())
    mean_within(x, 0.5, 0.5, "exponential")
    kolmogorov(x, lambda v: 1 - torch.exp(-2 * v), "exponential")


def test_checkpoint_repeats_the_mask(device):
    """Recomputation in backward draws the mask of the forward again."""
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(fresh_seed("checkpoint"))
    x = torch.ones(4000, device=device, requires_grad=True)
    y = checkpoint(lambda v: F.dropout(v, 0.5) * v, x, use_reentrant=False)
    y.sum().backward()
    values, gradient = sojourn.publish([y, x.grad])
    # y = m x^2 at x = 1: the gradient is 2 m.
    assert torch.equal(gradient, 2 * values)


def test_nothing_is_baked_into_the_program(device):
    owner = shared_owner("native" if device == shared_owner("native").device else "numpy")

    @sojourn.step
    def step():
        return torch.rand(4, device=device) + F.dropout(torch.ones(4, device=device))

    step(), step()
    before = owner.counters()["programs_compiled"]
    values = [tuple(sojourn.publish(step()).tolist()) for _ in range(4)]
    assert len(set(values)) == 4
    assert owner.counters()["programs_compiled"] <= before + 1, "one for the step, at most one for the publish"
