# SPDX-License-Identifier: Apache-2.0
"""Replayed steps draw on from each generator that they use, as traced ones do."""

import copy

import numpy
import pytest
import torch

import sojourn
import sojourn.numpy as np

CALLS = 12


def owners(device):
    return torch.Generator(device).manual_seed(5)


def hosts(device):
    return torch.Generator().manual_seed(5)


class Bits:
    """The generator of torch's that one of NumPy's draws its seeds from."""

    def __init__(self, kind):
        self.kind = kind

    def __call__(self, device):
        return np.random.Generator(self.kind(7), device=device)


KINDS = {
    "an owner's": owners, "a host's": hosts, "PCG64": Bits(numpy.random.PCG64), "MT19937": Bits(numpy.random.MT19937),
    "SFC64": Bits(numpy.random.SFC64), "Philox": Bits(numpy.random.Philox),
}  # fmt: skip


def normal(generator, like):
    """As many numbers as `like` has elements, at its place."""
    if isinstance(generator, np.random.Generator):
        return generator.normal(size=tuple(like.shape)).tensor
    if generator is None:
        return torch.randn(like.shape, device=like.device)
    return torch.empty_like(like).normal_(generator=generator)


def runs(function, device, generators, calls=CALLS, between=lambda at, generators: None, **options):
    """The values of all calls, and the step."""
    step = sojourn.step(function, **options)
    found = []
    for at in range(calls):
        between(at, generators)
        found.append(sojourn.publish(step(torch.full((3,), float(at), device=device), *generators)).value)
    return found, step


def same(device, function, make, between=lambda at, generators: None):
    """A traced run, a replayed one that equals it, and the number of replays."""
    torch.manual_seed(3)
    expected, _ = runs(function, device, make(), between=between)
    torch.manual_seed(3)
    found, step = runs(function, device, make(), between=between, replay=True)
    for at, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert torch.equal(one, other), (at, step.explain())
    assert len({tuple(each.tolist()) for each in found}) == len(found)
    return step.replayed


@pytest.mark.parametrize("kind", KINDS)
def test_a_generator_of_its_own(device, kind):
    generator = KINDS[kind](device)
    start = copy.deepcopy(generator.bit_generator.state) if kind[0].isupper() else generator.get_state()

    def make():
        if kind[0].isupper():
            generator.bit_generator.state = copy.deepcopy(start)
        else:
            generator.set_state(start)
        return ()

    assert same(device, lambda x: x + normal(generator, x) * normal(generator, x), make) == CALLS - 2
    after = generator.bit_generator.random_raw() if kind[0].isupper() else generator.get_state()
    make()
    runs(lambda x: x + normal(generator, x) * normal(generator, x), device, ())
    again = generator.bit_generator.random_raw() if kind[0].isupper() else generator.get_state()
    assert after == again if kind[0].isupper() else torch.equal(after, again)


@pytest.mark.parametrize("other", KINDS)
def test_several_generators(device, other):
    """Each gives its own numbers, in turn with torch's."""

    def run(replay):
        torch.manual_seed(11)
        one, two = owners(device), KINDS[other](device)
        function = lambda x: x + normal(one, x) + 2 * normal(two, x) + 3 * normal(None, x) + 4 * normal(one, x)
        return runs(function, device, (), replay=replay)

    (found, step), (expected, _) = run(True), run(False)
    assert all(map(torch.equal, found, expected)) and step.replayed == CALLS - 2


def test_a_user_who_draws_between_calls(device):
    generator = np.random.default_rng(5, device=device)

    def make():
        generator.bit_generator.state = numpy.random.PCG64(5).state
        return ()

    def between(at, _):
        for _ in range(at % 3):
            generator.bit_generator.random_raw()

    assert same(device, lambda x: x + normal(generator, x), make, between) == CALLS - 2


def test_a_generator_seeded_between_calls(device):
    generator = owners(device)

    def between(at, _):
        if at in (1, 4, 8):
            generator.manual_seed(at)

    def make():
        generator.manual_seed(99)
        return ()

    assert same(device, lambda x: x + normal(generator, x), make, between) == CALLS - 2


SEEDED_INSIDE = {
    "torch's generator": lambda kept, x: x + normal(kept[0].manual_seed(3), x),
    "a new one": lambda kept, x: x + normal(owners(x.device), x),
    "a new one of NumPy's": lambda kept, x: x + normal(np.random.default_rng(3, device=x.device), x),
    "its state": lambda kept, x: x + normal(kept[0].set_state(kept[1]), x),
    "NumPy's state": lambda kept, x: x + normal(set_bits(kept[2], kept[3]), x),
    "a draw on the host": lambda kept, x: x + normal(kept[2], x) + (kept[2].bit_generator.random_raw() >= 0),
}  # fmt: skip


def set_bits(generator, state):
    generator.bit_generator.state = copy.deepcopy(state)
    return generator


@pytest.mark.filterwarnings("ignore:.* is traced, not replayed")
@pytest.mark.parametrize("name", SEEDED_INSIDE)
def test_a_call_that_seeds_is_traced(device, name):
    def run(replay):
        one, two = owners(device), np.random.default_rng(9, device=device)
        kept = one, one.get_state(), two, copy.deepcopy(two.bit_generator.state)
        return runs(lambda x: SEEDED_INSIDE[name](kept, x), device, (), replay=replay)

    (found, step), (expected, _) = run(True), run(False)
    assert all(map(torch.equal, found, expected)) and step.replayed == 0, step.explain()


def test_it_tells_of_a_generator_made_inside(device):
    step = sojourn.step(lambda x: x + normal(np.random.default_rng(3, device=x.device), x), replay=True)
    with pytest.warns(UserWarning, match="it draws from a generator that the previous call did not use"):
        for _ in range(3):
            step(torch.zeros(3, device=device))


def test_loops(device):
    def run(looped):
        generator = np.random.default_rng(5, device=device)
        step = sojourn.step(lambda x: sojourn.publish(x + normal(generator, x)), replay=True)
        batches = [(torch.full((3,), float(at), device=device),) for at in range(17)]
        results = sojourn.loop(step, batches, per_trip=4) if looped else [step(*batch) for batch in batches]
        return [result.value for result in results], generator.bit_generator.random_raw()

    (found, next_found), (expected, next_expected) = run(True), run(False)
    assert all(map(torch.equal, found, expected)) and next_found == next_expected


def test_its_seed_is_set_at_the_bits(device):
    generator = np.random.default_rng(5, device=device)
    normal(generator, torch.zeros(3, device=device))
    (inner,) = generator._seeds.values()
    for call in (
        lambda: inner.manual_seed(3),
        inner.initial_seed,
        inner.seed,
        lambda: inner.set_state(inner.get_state()),
    ):
        with pytest.raises(sojourn.Error, match="set the state of that one"):
            call()
