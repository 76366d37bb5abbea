# SPDX-License-Identifier: Apache-2.0
"""Results whose size depends on values: outside of steps the size is read, and the values stay at the owner.

Eager is the oracle: values, order, dtypes, sizes, gradients and errors. Inside of steps and on private tables such ops
are refused as before.
"""

import threading
import warnings

import pytest
import torch
import torch.nn.functional as F
from private_support import make_table
from remote_support import Count, assert_same, here, shared_owner

import sojourn

pytestmark = pytest.mark.filterwarnings("ignore:a value is read here")

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8,
    torch.bool,
]  # fmt: skip
SHAPES = [(23,), (5, 7), (2, 3, 4), (), (0,), (0, 3), (1, 1)]


def numbers(shape, dtype, most=4):
    """Few different ones, 0 among them, in no order; of floats some are negative, and both zeros occur."""
    x = torch.randint(0, 2 if dtype == torch.bool else most, shape)
    if dtype.is_floating_point:
        x = (x - 1) * torch.tensor([1.0, -0.5])[torch.randint(0, 2, shape)]
    return x.to(dtype)


OPS = {
    "nonzero": lambda x: x.nonzero(),
    "nonzero, as_tuple": lambda x: x.nonzero(as_tuple=True),
    "argwhere": lambda x: torch.argwhere(x),
    "where": lambda x: torch.where(x > 1),
    "unique": lambda x: x.unique(),
    "unique, all": lambda x: torch.unique(x, return_inverse=True, return_counts=True),
    "unique, counts": lambda x: torch.unique(x, sorted=False, return_counts=True),
    "unique, inverse": lambda x: torch._unique(x, True, True),
    "unique_consecutive": lambda x: x.unique_consecutive(),
    "unique_consecutive, all": lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
    "masked_select": lambda x: x.masked_select(x > 0),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", OPS)
def test_ops_of_one_tensor(device, seed, name, dtype):
    for shape in SHAPES:
        x = numbers(shape, dtype)
        assert_same(OPS[name](x.to(device)), OPS[name](x), f"{name} of {x}", rtol=0, atol=0)
        assert_same(OPS[name](x.to(device) + 0), OPS[name](x + 0), f"{name} of {x}, computed", rtol=0, atol=0)


SLICES = {
    "unique": lambda x, dim: x.unique(dim=dim),
    "unique, all": lambda x, dim: torch.unique(x, dim=dim, return_inverse=True, return_counts=True),
    "unique_consecutive": lambda x, dim: x.unique_consecutive(dim=dim),
    "unique_consecutive, all": lambda x, dim: torch.unique_consecutive(
        x, dim=dim, return_inverse=True, return_counts=True
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("name", SLICES)
def test_slices_of_a_dim(device, seed, name, dtype):
    """In the order of rows: the first elements decide, then the next."""
    for shape in [(30, 2), (12, 3), (3, 9), (40, 1), (9, 2, 2), (17,), (0, 3), (1, 6)]:
        x = numbers(shape, dtype, most=3)
        for dim in range(-1, x.dim()):
            if 0 not in shape or x.shape[dim] == 0:
                assert_same(SLICES[name](x.to(device), dim), SLICES[name](x, dim), f"{name} {dim} of {x}", 0, 0)
    wide = torch.randint(0, 2, (20, 1)).expand(20, 50).clone().to(dtype)
    wide[:, 37] = torch.randint(0, 2, (20,)).to(dtype)
    assert_same(SLICES[name](wide.to(device), 0), SLICES[name](wide, 0), name, 0, 0)


def test_numbers_that_are_not_equal_to_themselves(device, seed):
    x = torch.tensor([torch.nan, 1.0, torch.nan, -0.0, 0.0, torch.inf, 1.0, -torch.inf])[torch.randperm(8)]
    for call in (
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
        lambda x: torch.unique_consecutive(x.repeat_interleave(2)[:, None], dim=0, return_counts=True),
        lambda x: x.nonzero(),
    ):
        found, wanted = call(x.to(device)), call(x)
        assert_same(found, wanted, f"of {x}", 0, 0)
    assert torch.equal(x.to(device).unique().cpu().signbit(), x.unique().signbit())  # which of both zeros it is


def test_masks_of_other_shapes(device, seed):
    x, y = torch.randn(3, 1, 4), numbers((5, 1), torch.bool)
    for dtype in DTYPES:
        z = numbers((3, 5, 4), dtype)
        assert_same(z.to(device).masked_select(y.to(device)), z.masked_select(y), rtol=0, atol=0)
    assert_same(x.to(device).masked_select(y.to(device) ^ False), x.masked_select(y), rtol=0, atol=0)
    for mask in (torch.tensor(True), torch.tensor(False)):
        assert_same(x.to(device).masked_select(mask.to(device)), x.masked_select(mask), rtol=0, atol=0)
        assert_same(x.to(device).masked_select(mask), x.masked_select(mask), rtol=0, atol=0)
    assert_same(x.to(device).T.masked_select(x.to(device).T > 0), x.T.masked_select(x.T > 0), rtol=0, atol=0)


def test_complex_numbers(device, seed):
    x = torch.randn(4, 3, dtype=torch.complex128) * numbers((4, 3), torch.float64)
    for y, there in ((x, x.to(device)), (x.conj(), x.to(device).conj()), (x.T, x.to(device).T)):
        assert_same(there.nonzero(), y.nonzero())
        assert_same(there.masked_select(there.real > 0), y.masked_select(y.real > 0), rtol=0, atol=0)
    for call in (
        lambda x: x.unique(),
        lambda x: x.unique_consecutive(),
        lambda x: x.unique(dim=0),
        lambda x: x.unique_consecutive(dim=1),
    ):
        for there in (x, x.to(device), x.to(device) + 0):
            with pytest.raises(NotImplementedError, match="not implemented for 'ComplexDouble'"):
                call(there)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_repeats(device, seed, dtype):
    times, x = torch.randint(0, 4, (6,)).to(dtype), torch.randn(6, 3, dtype=torch.float64)
    there = times.to(device)
    total = int(times.sum())
    for repeat in (lambda t: t, lambda t: t * 0, lambda t: t + 1, lambda t: t[:0]):
        assert_same(torch.repeat_interleave(repeat(there)), torch.repeat_interleave(repeat(times)))
    for call in (
        lambda x, t: x.repeat_interleave(t, dim=0),
        lambda x, t: torch.repeat_interleave(x.T, t, dim=1),
        lambda x, t: x[:, 0].repeat_interleave(t),
        lambda x, t: x.repeat_interleave(t[:1], dim=1),
        lambda x, t: x.repeat_interleave(t[2] + 1, dim=0),
        lambda x, t: x.repeat_interleave(t, dim=0, output_size=total),
    ):
        results = []
        for each, t in ((x.to(device), there), (x.clone(), times)):
            each.requires_grad_()
            y = call(each, t)
            (y * torch.arange(y.numel(), device=y.device).reshape(y.shape)).sum().backward()
            results.append((y.detach(), each.grad))
        assert_same(*results, rtol=0, atol=0)
    for text, bad in {
        "can not be negative": lambda t: torch.repeat_interleave(t - 2),
        "only accept 1D": lambda t: torch.repeat_interleave(t[None]),
        "same size as input": lambda t: torch.ones(3, device=t.device).repeat_interleave(t),
    }.items():
        for t in (there * 0, times * 0):
            with pytest.raises(RuntimeError, match=text):
                bad(t)


def test_repeats_of_a_given_number_need_no_read(owner, seed):
    """So that they may be recorded in a step, and from counts that are computed."""
    times, x = torch.randint(0, 4, (6,)), torch.randn(6, 3)
    there, inputs = times.to(owner.device), x.to(owner.device)
    sojourn.flush()
    with Count(owner) as count:
        with sojourn.step():
            found = inputs.repeat_interleave(there + 1, dim=0, output_size=int(times.sum()) + 6)
    assert count.round_trips == 1 and count.of["reads"] == 0
    assert_same(found, x.repeat_interleave(times + 1, dim=0), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8], ids=str)
def test_counts_of_classes(device, seed, dtype):
    labels, weights = torch.randint(0, 9, (40,)).to(dtype), torch.randn(40)
    for call in (
        lambda y, w: torch.bincount(y),
        lambda y, w: torch.bincount(y * 0),
        lambda y, w: torch.bincount(y[:0]),
        lambda y, w: torch.bincount(y, weights=w),
        lambda y, w: torch.bincount(y, weights=w.double()),
        lambda y, w: torch.bincount(y[:1], minlength=12),
        lambda y, w: torch.bincount(y, minlength=2),
        lambda y, w: torch.bincount(y, w, minlength=5),
        lambda y, w: torch.bincount(y[:0], minlength=5),
        lambda y, w: torch.bincount(y[:0], w[:0], minlength=2),
        lambda y, w: torch.bincount(y[:0], w[:0]),
        lambda y, w: y.bincount(y),
    ):
        assert_same(call(labels.to(device), weights.to(device)), call(labels, weights), "", 1e-5, 1e-5)
    if dtype == torch.int64:
        assert_same(F.one_hot(labels.to(device)), F.one_hot(labels))
        assert_same(F.one_hot(labels.to(device).reshape(5, 8) % 3), F.one_hot(labels.reshape(5, 8) % 3))
    for text, bad in {
        "1-d non-negative": lambda y: (y.long() - 20).bincount(),
        "only supports 1-d": lambda y: y[None].bincount(),
        "Class values must be non-negative": lambda y: F.one_hot(y.long() - 20),
        "infer total number of classes": lambda y: F.one_hot(y.long()[:0]),
    }.items():
        for y in (labels.to(device), labels):
            with pytest.raises(RuntimeError, match=text):
                bad(y)


def test_parts_of_a_tensor(device, seed):
    """Cuts and sizes at the owner; eager takes them from the CPU."""
    x = torch.randn(9, 4, dtype=torch.float64)
    cuts, size = torch.randint(0, 9, (3,)).sort().values, torch.randint(1, 5, ())
    for call in (
        lambda x, c, s: torch.tensor_split(x, c),
        lambda x, c, s: x.tensor_split(s),
        lambda x, c, s: x.tensor_split(c[:2] // 3, dim=1),
        lambda x, c, s: torch.split(x, s),
        lambda x, c, s: x.split([c[1], 9 - c[1]]),
        lambda x, c, s: x.split([*c.diff(prepend=c[:1] * 0, append=c[:1] * 0 + 9).tolist()]),
        lambda x, c, s: x.split_with_sizes([c[0], 9 - c[0]]),
        lambda x, c, s: x.chunk(s),
    ):
        results = []
        for place in (device, torch.device("cpu")):
            leaf = x.to(place, copy=True).requires_grad_()
            parts = call(leaf, cuts.to(place), size.to(place))
            sum((k + 1) * part.sum() for k, part in enumerate(parts)).backward()
            results.append((parts, leaf.grad))
        assert_same(*results, rtol=0, atol=0)
    assert_same(x.tensor_split(cuts.to(device) + 0), x.tensor_split(cuts), rtol=0, atol=0)
    for y, c in ((x, cuts), (x.to(device), cuts.to(device))):
        with pytest.raises(RuntimeError, match="long"):
            y.tensor_split(c.double())
        with pytest.raises(RuntimeError, match="dimensional"):
            y.tensor_split(c[None])
        with pytest.raises(TypeError, match="split_sizes"):
            y.split(c)


def test_gradients(device, seed):
    """First and second ones, of what eager differentiates; of the others eager's refusal."""
    x, mask = torch.randn(6, 4, dtype=torch.float64), torch.rand(4) > 0.4
    for call in (
        lambda x, m: x.masked_select(x > 0),
        lambda x, m: x.masked_select(m),
        lambda x, m: x[torch.where(m)[0]],
        lambda x, m: x[:, m.nonzero().squeeze(1)],
        lambda x, m: x.repeat_interleave(m.nonzero().sum(0).expand(6), dim=0),
        lambda x, m: torch.index_select(x, 1, torch.argwhere(m)[:, 0]),
    ):
        results = []
        for place in (device, torch.device("cpu")):
            leaf = x.to(place, copy=True).requires_grad_()
            (first,) = torch.autograd.grad((call(leaf, mask.to(place)) ** 3).sum(), leaf, create_graph=True)
            (second,) = torch.autograd.grad(first.sin().sum(), leaf)
            results.append((first.detach(), second))
        assert_same(*results)
    for leaf in (x.to(device).requires_grad_(), x.clone().requires_grad_()):
        with pytest.raises(NotImplementedError, match="_unique2"):
            leaf.unique().sum().backward()


def test_given_results(device, seed):
    x = numbers((5, 4), torch.float32)
    for into in (torch.zeros(0, dtype=torch.long), torch.zeros(x.count_nonzero(), 2, dtype=torch.long)):
        out, there = into.clone(), into.to(device)
        assert torch.nonzero(x.to(device) + 0, out=there) is there
        assert_same(there, torch.nonzero(x, out=out))
    out, there = torch.zeros(0), torch.zeros(0, device=device)
    assert_same(torch.masked_select(x.to(device), x.to(device) > 0, out=there), torch.masked_select(x, x > 0, out=out))
    for place in (device, torch.device("cpu")):
        with pytest.raises(RuntimeError, match="scalar type Long"):
            torch.nonzero(x.to(place), out=torch.zeros(3, device=place))
        with pytest.raises(RuntimeError, match="BoolTensor"):
            x.to(place).masked_select(x.to(place))
        with pytest.raises(RuntimeError, match="must match the size"):
            x.to(place).masked_select(x.to(place)[:, :3] > 0)
        with pytest.raises(RuntimeError, match="0 sized dimensions"):
            torch.zeros(3, 0, device=place).unique(dim=0)
        with pytest.raises(IndexError):
            x.to(place).unique(dim=2)
    with pytest.raises(sojourn.Error, match="move it first"):
        x.to(device).masked_select(x > 0)


ASKED = {
    "nonzero": lambda x: x.nonzero(), "where": lambda x: torch.where(x > 0), "argwhere": torch.argwhere,
    "masked_select": lambda x: x.masked_select(x > 0), "unique": lambda x: x.unique(),
    "unique rows": lambda x: x.unique(dim=0, return_counts=True),
    "unique_consecutive": lambda x: x.unique_consecutive(),
    "unique_consecutive rows": lambda x: x.unique_consecutive(dim=1),
    "repeat_interleave": lambda x: x.repeat_interleave(x[:, 0].abs().long(), dim=0),
    "bincount": lambda x: x[0].abs().long().bincount(),
    "one_hot": lambda x: F.one_hot(x.abs().long()),
    "tensor_split": lambda x: x.tensor_split(x[0, :2].abs().long()),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_one_small_round_trip(owner, seed, name):
    """However large the values are: they stay where they are. What was not to be sent waits."""
    x = torch.randint(-3, 4, (600, 600)).float()
    there, other = x.to(owner.device), torch.randn(4).to(owner.device)
    sojourn.flush()
    waiting = other * 2
    with Count(owner) as count:
        found = ASKED[name](there)
    assert count.of["reads"] == 1 and count.of["bytes_down"] < 4000
    assert count.round_trips <= 2  # of which one is the count's flush
    assert_same(found, ASKED[name](x), rtol=0, atol=0)
    assert_same(waiting, other.cpu() * 2)


@pytest.mark.parametrize("name", ASKED)
def test_strict_refuses_them(device, seed, name):
    x = torch.randint(-3, 4, (4, 4)).float().to(device)
    sojourn.flush()
    with sojourn.strict(), pytest.raises(sojourn.ValueNeeded, match="a separate round trip"):
        ASKED[name](x)
    ASKED[name](x)


REFUSED = {
    "nonzero": "use a mask with torch.where", "where": "use a mask with torch.where",
    "argwhere": "use a mask with torch.where", "masked_select": r"torch.where\(mask, x, 0\)",
    "unique": "use sort or a one-hot sum", "unique rows": "use sort or a one-hot sum",
    "unique_consecutive": "use sort", "unique_consecutive rows": "use sort",
    "repeat_interleave": "pass an integer or output_size", "bincount": "pass minlength=",
    "one_hot": "pass num_classes=", "tensor_split": "pass integers",
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_in_a_step_they_are_refused(device, seed, name):
    """Where nothing has been sent, too."""
    for sent in (False, True):
        x = torch.randint(-3, 4, (4, 4)).float().to(device)
        if sent:
            sojourn.flush()
        with sojourn.step(), pytest.raises(sojourn.ValueNeeded, match=REFUSED[name]) as caught:
            ASKED[name](x)
        assert __file__ in str(caught.value)


@pytest.mark.parametrize("name", ASKED)
def test_offline_they_are_refused(seed, name):
    with sojourn.offline() as device, pytest.raises(sojourn.ValueNeeded, match=REFUSED[name]):
        ASKED[name](torch.ones(4, 4, device=device))


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("of", ["a batch", "a column", "weights beside a batch"])
def test_sizes_of_private_values_stay(seed, name, of):
    """And what was pending still is: the batch reaches its publish."""
    rows = torch.randint(-3, 4, (64, 4), generator=torch.Generator().manual_seed(seed)).double()
    with sojourn.local() as owner:
        table = make_table(owner, {f"c{k}": rows[:, k].numpy() for k in range(4)}, {f"c{k}": (-3, 3) for k in range(4)})
        names = [f"c{k}" for k in range(4)]
        if of == "a column":
            x = torch.stack([table[name] for name in names], 1)
        else:
            x = next(iter(table.batches(names, size=32)))
        asked = torch.randint(-3, 4, (4, 4), device=owner.device).double() if of.startswith("weights") else x
        spent = owner.budget(table.name).spent if hasattr(owner.budget(table.name), "spent") else None
        with pytest.raises(sojourn.ValueNeeded, match=REFUSED[name]):
            ASKED[name](asked)
        mean = sojourn.publish(x.mean(), epsilon=1.0)
        assert spent is None or owner.budget(table.name).spent != spent
        assert abs(float(mean)) < 3


def test_rows_of_open_tables(owner, seed):
    """Batches of open tables may be asked; so may masks of them."""
    rows = torch.randint(-3, 4, (64, 2)).double()
    table = owner.register(f"sized-{seed}", {"a": rows[:, 0].numpy(), "b": rows[:, 1].numpy()}, policy="open")
    for x in table.batches(["a", "b"], size=16):
        here_too = x.cpu()
        assert_same(x.nonzero(), here_too.nonzero())
    for x in table.batches(["a", "b"], size=16):
        found = x.unique(dim=0, return_counts=True), x[x[:, 0] > 0], x.masked_select(x > 1)
        y = x.cpu()
        assert_same(
            found, (y.unique(dim=0, return_counts=True), y[y[:, 0] > 0], y.masked_select(y > 1)), rtol=0, atol=0
        )


def test_masks_that_were_uploaded_need_no_read(counted, seed):
    """As `x[mask]`: in steps, and in each call of a replayed one."""
    x, masks = torch.randn(9, 3), [torch.rand(9) > 0.5 for _ in range(4)]
    there, w = x.to(counted.device), torch.zeros(1, device=counted.device)

    @sojourn.step(replay=True)
    def total(mask):
        w.add_(1)
        return sojourn.publish((there[mask.nonzero().squeeze(1)].sum(), there.masked_select(mask[:, None]).sum()))

    trips = counted.round_trips()
    with pytest.warns(UserWarning, match="traced, not replayed"):
        for k in (0, 0, 0, 0, 1, 2, 3, 0):
            found = total(masks[k].to(counted.device))
            wanted = x[masks[k]].sum()
            assert float(found[0]) == pytest.approx(float(wanted), abs=1e-5)
            assert float(found[1]) == pytest.approx(float(wanted), abs=1e-5)
    assert counted.round_trips() == trips + 8


def test_a_line_that_reads_often_is_named_once(seed):
    x = torch.randn(50).to(shared_owner().device)
    sojourn.flush()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for k in range(4):
            line = here(1)
            (x > k).nonzero()
    told = [w for w in warned if "a value is read here" in str(w.message)]
    assert [f"{w.filename}:{w.lineno}" for w in told] == [line]


def test_a_size_travels_with_a_step_that_has_ended(owner, seed):
    model = torch.nn.Linear(3, 1).to(owner.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(8, 3).to(owner.device)
    sojourn.flush()
    with Count(owner) as count, sojourn.strict():
        for _ in range(3):
            optimizer.zero_grad()
            out = model(x)
            out.square().mean().backward()
            optimizer.step()
            wrong = (out[:, 0] > 0).nonzero()
            assert wrong.shape[0] <= 8
    assert count.of["reads"] == 3 and count.round_trips <= 4
    assert_same(wrong, (out[:, 0] > 0).cpu().nonzero())


def test_other_threads_and_inference(seed):
    device, x = shared_owner().device, torch.randint(-2, 3, (7, 3)).float()
    found = []

    def work():
        with torch.inference_mode():
            there = x.to(device)
            found.append([ASKED[name](there) for name in ASKED])
            sojourn.flush()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert_same(found[0], [ASKED[name](x) for name in ASKED], rtol=0, atol=0)
