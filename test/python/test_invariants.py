# SPDX-License-Identifier: Apache-2.0
"""Goal: what broke without a test turning red, once (test/mutants plants these bugs again).

Labels that meet, states that rotate in an artifact, handles at an owner after messages were lost, windows that overlap what
was written, version counters, default dtypes, NaN in pools, reductions of what was reversed, dropout of everything.
"""

import gc

import pytest
import torch
import torch.nn.functional as F
from private_support import make_table
from remote_support import assert_same, shared_owner
from torch import nn
from wire_support import wired_owner  # noqa: F401 (the fixture `wire`)

import sojourn


@pytest.mark.parametrize("order", ["open first", "private first"])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_what_meets_private_rows_is_private(order, steps, seed):
    """Whichever operand comes first, and however many steps lie between."""
    with sojourn.local() as owner:
        free = owner.register("free", {"a": torch.rand(50)}, policy="open", bounds={"a": (0, 1)})
        secret = make_table(owner, {"a": torch.rand(60)}, {"a": (0, 1)}, name="secret")
        first, second = (free["a"].sum(), secret["a"].sum())[:: 1 if order == "open first" else -1]
        if steps > 1:
            sojourn.flush()  # both are values at the owner now
        total = first + second
        if steps > 2:
            sojourn.flush()
        before = str(owner.budget("secret"))
        with pytest.raises(sojourn.Refused):
            sojourn.publish(total)
        with pytest.raises(sojourn.Refused):
            total.item()
        assert str(owner.budget("secret")) == before
        assert float(sojourn.publish(free["a"].sum())) > 0


class Ring(nn.Module):
    """Three states; each turn moves them one place on, and one of them grows."""

    def __init__(self, first, device="cpu"):
        super().__init__()
        for name, tensor in zip("abc", first):
            self.register_buffer(name, torch.tensor(tensor, dtype=torch.float64, device=device))

    def turn(self, x):
        kept = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(self.c + x)
        self.c.copy_(kept)
        return self.a * 1, self.b * 1, self.c * 1


class Exchange(nn.Module):
    """Two states, each of which is the other one after a turn; a third one shows their order."""

    def __init__(self, first, device="cpu"):
        super().__init__()
        self.a, self.b, self.c = (torch.tensor(each, dtype=torch.float64, device=device) for each in first)

    def turn(self, x):
        self.a, self.b = self.b, self.a
        self.c = self.c + x * self.a
        return self.a * 1, self.b * 1, self.c * 1


@pytest.mark.parametrize("kind", ["native", "numpy"])
@pytest.mark.parametrize("Ring", [Ring, Exchange])
@pytest.mark.parametrize("way", ["traced", "replayed", "artifact", "artifact, many in a trip"])
def test_states_rotate(kind, way, Ring, seed):
    first, x = torch.randn(3, 3).tolist(), torch.randn(9, 3).double()
    here = Ring(first)
    expected = [here.turn(each) for each in x]
    owner = shared_owner(kind)
    if way.startswith("artifact"):
        with sojourn.offline() as device:
            ring = []
            program = sojourn.compile(
                lambda x: ring[0].turn(x),
                lambda: ring.append(Ring(first, device)),
                [sojourn.spec((3,), torch.float64)],
            )
        found = program.run(owner, [(each,) for each in x], per_trip=4 if "many" in way else 1)
    else:
        there = Ring(first, owner.device)
        step = sojourn.step(lambda x: sojourn.publish(there.turn(x)), replay=way == "replayed")
        found = [step(each.to(owner.device)).value for each in x]
    for number, (ours, theirs) in enumerate(zip(found, expected)):
        assert_same(list(ours), list(theirs), f"turn {number}", rtol=1e-12, atol=1e-12)


def handles_at(owner):
    """Values that a NumPy owner keeps, over all sessions."""
    return sum(len(session.handles) for session in owner._sessions.values())


@pytest.mark.parametrize("wire", ["numpy"], indirect=True)  # the native owner shows no count of its handles
@pytest.mark.parametrize("fates", [["lost"], ["dropped"], ["lost", "dropped"], ["dropped", "dropped"]])
def test_nothing_stays_at_an_owner_after_lost_messages(wire, fates, seed):
    """What died while messages were lost is released with a later one: as many values there as here."""
    kept = torch.randn(3).to(wire.device)
    sojourn.flush()
    for _ in range(3):
        wire.fates = list(fates)
        passing = [kept + k for k in range(4)]
        try:
            sojourn.flush()
        except sojourn.ConnectionLost:
            pass
        wire.fates = ["dropped", "dropped"]
        try:
            kept.add_(1)
            del passing
            sojourn.flush()
        except sojourn.ConnectionLost:
            kept = torch.randn(3).to(wire.device)
        wire.fates = []
        sojourn.flush()
    gc.collect()
    for _ in range(3):  # what died rides along with the next step, and what that shows with the one after
        sojourn.publish(kept.sum())
    assert wire.session.counters()["live_handles"] == 1
    assert handles_at(wire.owner) <= 2  # the last sum is released with the next step


def test_windows_that_overlap_see_what_was_written(device, seed):
    """Views of views, some of whose elements are in several windows."""

    def run(x):
        windows = x.unfold(0, 3, 1)
        before = windows.sum(1)
        x[2] = 7.0
        x[4:6].mul_(2)
        strided = x.as_strided((3, 4), (2, 1), 1)
        x.add_(x.flip(0))
        return before, windows.clone(), windows.sum(1), strided.amax(1), windows[2] * strided[1, :3]

    x = torch.randn(9).double()
    expected = run(x.clone())
    with sojourn.step():
        found = run(x.to(device))
    assert_same(list(found), list(expected), rtol=1e-12, atol=1e-12)


def test_versions_count_as_eager_s(device, seed):
    """In-place ops, views, and `.data =`, and what backward makes of them."""

    def run(place):
        x, versions = torch.ones(3, device=place), []
        view, note = x[1:], lambda: versions.append((x._version, view._version))
        for change in (
            lambda: x.add_(1),
            lambda: view.mul_(2),
            lambda: setattr(x, "data", torch.zeros(3, device=place)),
            lambda: x.add_(1),
            lambda: x.detach().add_(1),
            lambda: x.data.add_(1),
            lambda: x.fill_(2),
        ):
            change()
            note()
        return versions, x

    expected, ours = run("cpu"), run(device)
    assert ours[0] == expected[0]
    assert_same(ours[1], expected[1])
    slopes = []
    for place in ("cpu", device):
        leaf = torch.ones(3, device=place, requires_grad=True)
        product = (leaf * 2).exp()
        with torch.no_grad():
            product.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()
        leaf = torch.ones(3, device=place, requires_grad=True)
        square = leaf * leaf
        leaf.data = torch.full((3,), 5.0, device=place)  # unseen, as in eager
        square.sum().backward()
        slopes.append(leaf.grad.cpu())
    assert torch.equal(slopes[0], slopes[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_default_dtypes(device, seed, dtype):
    before = torch.get_default_dtype()

    def run(place):
        count = torch.arange(6, device=place)
        made = [torch.ones(2, 3, device=place), torch.full((2,), 1.5, device=place), torch.tensor(0.1, device=place)]
        made += [count / 4, count.float().mean().to(torch.get_default_dtype()) * made[1], count * 0.5, count + made[2]]
        made += [torch.zeros(3, device=place).add_(1.0), torch.linspace(0, 1, 3, device=place), count.sqrt()]
        return made

    torch.set_default_dtype(dtype)
    try:
        expected = run("cpu")
        with sojourn.step():
            found = run(device)
        assert {tensor.dtype for tensor in expected} == {dtype}
        assert_same(found, expected, rtol=1e-2 if dtype != torch.float64 else 1e-12, atol=1e-2)
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nan_in_pools(device, seed, dtype):
    """One in a window is its largest element, and takes its gradient."""
    for size, stride, padding in ((2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 3, 0), (7, 1, 3), (23, 1, 11)):
        x = torch.randn(2, 3, *((40, 40) if size == 23 else (9, 10)), dtype=dtype)  # the last share their work
        x[0, 1, 4, 4] = x[1, 2, 0, 9] = float("nan")
        weights, found = None, []
        for place in ("cpu", device):
            leaf = x.to(place).requires_grad_()
            pooled, where = F.max_pool2d(leaf, size, stride, padding, return_indices=True)
            # Whole numbers, whose sums have one value in any order.
            weights = torch.randint(-9, 10, pooled.shape).to(dtype) if weights is None else weights
            (slope,) = torch.autograd.grad((pooled.nan_to_num() * weights.to(place)).sum(), leaf)
            found.append([pooled.detach(), where, slope])
        assert_same(found[1], found[0], str((size, stride, padding)), rtol=0, atol=0)


def test_reductions_of_what_was_reversed(device, seed):
    x = torch.randn(5, 70).double()
    x[2, 3] = x[2, 60] = x[2].max() + 1  # of equals, which one is first
    functions = {
        "argmax": lambda x: x.flip(1).argmax(1),
        "argmin": lambda x: (-x).flip(1).argmin(1),
        "cumsum": lambda x: x.flip(1).cumsum(1),
        "logcumsumexp": lambda x: x.flip([0, 1]).logcumsumexp(0),
        "max": lambda x: x.flip(0).max(1).indices,
        "sort": lambda x: torch.sort(x.flip(1), dim=1, stable=True).indices,
        "weighted": lambda x: (x.flip(1) * torch.arange(70.0, dtype=x.dtype, device=x.device)).sum(1),
        "twice": lambda x: x.flip(1).cumsum(1).flip(1)[:, ::7],
        "both": lambda x: x.flip(1).flip(0).cumsum(1)[:, ::9],
        "sum": lambda x: (x.flip(1) * 1).sum(1) + x.flip([0, 1]).sum(1),
        "product": lambda x: x.flip(1)[:, ::9].prod(1),
        "largest": lambda x: x.flip([0, 1]).amax(0),
        "first": lambda x: x.flip(0)[0] - x.flip(1)[:, :1].sum(),
    }
    for name, function in functions.items():
        with sojourn.step():
            found = function(x.to(device))
        assert_same(found, function(x), name, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_dropout_of_nothing_and_of_everything(device, seed, probability):
    fused = lambda x, p, train: torch.native_dropout(x, p, train)[0]
    functions = (F.dropout, torch.feature_dropout, F.alpha_dropout, F.dropout2d, fused)
    x = torch.randn(3, 4, 5, 6)
    for function in functions:
        found = []
        for place in ("cpu", device):
            leaf = x.to(place).requires_grad_()
            dropped = function(leaf, probability, True)
            (slope,) = torch.autograd.grad(dropped.sum(), leaf)
            found.append([dropped.detach(), slope])
        assert_same(found[1], found[0], function.__name__, rtol=1e-5, atol=1e-6)


def test_a_step_that_never_ran_gives_nothing_back(wire, seed):
    """Its number is the next one's: what that one makes is not taken for what the first would have made."""
    kept = torch.randn(3).to(wire.device)
    sojourn.flush()
    wire.fates = ["dropped", "dropped"]  # the first never arrives
    first = kept + 1
    with pytest.raises(sojourn.ConnectionLost):
        sojourn.flush()
    wire.fates = ["lost", "lost"]  # the second has its number, and runs unheard
    second = kept + 2
    with pytest.raises(sojourn.ConnectionLost):
        sojourn.flush()
    wire.fates = []
    del first, second
    for _ in range(4):
        assert torch.isfinite(sojourn.publish(kept.sum()))
    if wire.kind == "numpy":
        assert handles_at(wire.owner) <= 2
