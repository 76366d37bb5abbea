# SPDX-License-Identifier: Apache-2.0
"""Publish, the only exit: what may leave, what may not, in which form, and at whose line."""

import collections

import numpy as np
import pytest
import torch
from remote_support import assert_same, here, shared_owner

import sojourn

Point = collections.namedtuple("Point", "x y")


@pytest.fixture(params=["native", "numpy"])
def device(request):
    return shared_owner(request.param).device


@pytest.fixture
def hospital():
    """An owner with a private and an open table."""
    with sojourn.local() as owner:
        bounds = {"a": (0, 10), "y": (0, 5)}
        owner.register("private", {"a": np.arange(6.0), "y": np.arange(6)}, policy="private", bounds=bounds)
        owner.register("open", {"b": np.arange(6.0) + 1, "z": np.arange(6)}, policy="open")
        yield owner


DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
]  # fmt: skip


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4)], ids=str)
def test_every_dtype_bit_for_bit(device, shape):
    tensors = [
        (torch.randn(shape) * 5).to(dtype) if dtype != torch.uint8 else torch.randint(0, 256, shape).to(dtype)
        for dtype in DTYPES
    ]
    for sent, back in zip(tensors, sojourn.publish([t.to(device) for t in tensors])):
        assert back.dtype == sent.dtype and back.shape == sent.shape and torch.equal(back, sent)
        assert back.device.type == "cpu" and back.is_contiguous()


def test_special_values_survive(device):
    special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-45, 3.4e38])
    back = sojourn.publish(special.to(device))
    assert torch.equal(back.view(torch.int32), special.view(torch.int32))
    integers = torch.tensor([-(2**63), 2**63 - 1, 0, -1])
    assert torch.equal(sojourn.publish(integers.to(device)), integers)


def test_memory_formats(device):
    for x in (
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(3, 4).t(),
        torch.randn(6)[::2],
        torch.randn(1, 3).expand(4, 3),
    ):
        assert torch.equal(sojourn.publish(x.to(device)), x)


def test_a_tree_without_one_value_publishes_none(hospital):
    table, kept = hospital.dataset("private"), torch.ones(2).to(hospital.device)
    with pytest.raises(ZeroDivisionError):
        with sojourn.step():
            lost = kept * 2
            raise ZeroDivisionError
    with pytest.raises(sojourn.Error, match="has no value"):
        sojourn.publish([table["a"], lost])
    assert sojourn.publish(kept).tolist() == [1, 1]


@pytest.mark.parametrize("where", ["cpu", "owner"])
def test_a_value_can_be_read_within_a_later_step(device, where):
    x = torch.arange(3.0).to(device if where == "owner" else "cpu")
    with sojourn.step():
        first = sojourn.publish(x + 1)
        with pytest.raises(sojourn.ValueNeeded):
            first.value
    with sojourn.step():
        second = sojourn.publish(x + 2)
        assert first.ready and not second.ready
        assert first.value.tolist() == [1, 2, 3]
    assert second.value.tolist() == [2, 3, 4]


def test_trees(device):
    x = torch.arange(4.0)
    r = x.to(device)
    tree = lambda t: {
        "list": [t, (t + 1, t * 2)],
        "point": Point(t.sum(), "kept"),
        "ordered": collections.OrderedDict(a=t[1:]),
        "number": 3,
        "none": None,
        "text": "t",
    }
    expected = tree(x)
    assert_same(tree(r), expected)
    with sojourn.step():
        inside = sojourn.publish(tree(r))
    value = inside.value
    assert isinstance(value["point"], Point) and isinstance(value["ordered"], collections.OrderedDict)
    assert_same(value, expected)
    # The tree that was given is not changed.
    given = [r, {"a": r}]
    sojourn.publish(given)
    assert given[0] is r and given[1]["a"] is r
    assert sojourn.publish([]) == [] and sojourn.publish(None) is None and sojourn.publish(3) == 3


def test_one_round_trip_for_many(device):
    owner = shared_owner("native" if device == shared_owner("native").device else "numpy")
    sojourn.flush()
    before = owner.counters()["round_trips"]
    values = sojourn.publish([torch.full((2,), float(i)).to(device) for i in range(100)])
    assert owner.counters()["round_trips"] == before + 1
    assert [float(v[0]) for v in values] == list(range(100))


def test_the_same_tensor_twice(device):
    x = torch.ones(2).to(device)
    first, second = sojourn.publish([x, x])
    assert first.data_ptr() != second.data_ptr() and torch.equal(first, second)


def test_parameters_and_state_dicts(device):
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    remote = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    remote.load_state_dict(model.state_dict())
    remote.to(device)
    values = sojourn.publish(remote.state_dict())
    assert list(values) == list(model.state_dict())
    assert_same(dict(values), dict(model.state_dict()))
    model.load_state_dict(values)
    assert all(not value.requires_grad for value in values.values())


def test_tensors_of_two_owners_in_one_tree(device):
    with sojourn.local() as other:
        mine, theirs = torch.ones(2).to(device), torch.zeros(2).to(other.device)
        values = sojourn.publish([mine, theirs, torch.full((2,), 2.0)])
        assert [v.tolist() for v in values] == [[1, 1], [0, 0], [2, 2]]


def test_open_tables_may_leave(hospital):
    table = hospital.dataset("open")
    assert sojourn.publish(table["b"]).tolist() == [1, 2, 3, 4, 5, 6]


WAYS = {
    "plain": lambda a: a,
    "sum": lambda a: a.sum(),
    "times zero": lambda a: a * 0,
    "view": lambda a: a[1:3],
    "detached": lambda a: a.detach(),
    "compared": lambda a: a > 2,
    "into a fresh tensor": lambda a: torch.zeros_like(a).copy_(a),
    "shape-like randomness": lambda a: torch.bernoulli(a.clamp(0, 1)),
    "index": lambda a: torch.arange(10.0, device=a.device)[a.long()],
    "where": lambda a: torch.where(a > 2, 1.0, 0.0),
    "sorted": lambda a: a.sort()[1],
    "scattered": lambda a: torch.zeros(10, device=a.device, dtype=a.dtype).index_add(0, a.long(), a),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cut", [False, True], ids=["one program", "two programs"])
def test_private_values_may_not(hospital, way, cut):
    a = hospital.dataset("private")["a"]
    if cut:
        sojourn.flush()
    value = WAYS[way](a)
    if cut:
        sojourn.flush()
    with pytest.raises(sojourn.Refused, match="private") as caught:
        asked = here(1)
        sojourn.publish(value)
    text = str(caught.value)
    assert asked in text, text
    # The refusal leaves the session usable.
    assert sojourn.publish(torch.ones(2).to(hospital.device)).tolist() == [1, 1]


def test_the_line_that_publishes_or_computes_is_named(hospital):
    a = hospital.dataset("private")["a"]
    computed = here(1)
    total = (a * a).sum()
    with pytest.raises(sojourn.Refused) as caught:
        published = here(1)
        sojourn.publish(total)
    assert computed in str(caught.value) and f"published at {published}" in str(caught.value), str(caught.value)


def test_a_private_value_laundered_through_state(hospital):
    """Over several steps, through a parameter, a view of it and a copy of that: of what an earlier step has computed."""
    a = hospital.dataset("private")["a"] * 1
    state = torch.zeros(6, dtype=a.dtype).to(hospital.device)
    clean = torch.zeros(6, dtype=a.dtype).to(hospital.device)
    view = state[2:4]
    sojourn.flush()
    with sojourn.step():
        state.add_(a)
    with sojourn.step():
        copied = view * 2
    for make in (lambda: state, lambda: view, lambda: copied, lambda: state.sum(), lambda: copied[0]):
        with pytest.raises(sojourn.Refused):
            sojourn.publish(make())
    assert sojourn.publish(clean).sum() == 0
    # Overwritten as a whole with open data it is open again.
    with sojourn.step():
        state.copy_(clean)
    assert sojourn.publish(state).sum() == 0


def test_a_refused_publish_takes_the_step_back(hospital):
    a, b = hospital.dataset("private")["a"], hospital.dataset("open")["b"]
    kept = torch.ones(6, dtype=torch.float64).to(hospital.device)
    sojourn.flush()
    with pytest.raises(sojourn.Refused):
        with sojourn.step():
            kept.mul_(5)
            allowed = sojourn.publish(b.sum())
            refused = sojourn.publish(a.sum())
    assert sojourn.publish(kept).tolist() == [1] * 6
    for published in (allowed, refused):
        with pytest.raises(sojourn.Error, match="this published value never arrived: the owner did not run the step"):
            published.value


def test_open_and_private_in_one_step(hospital):
    """What depends only on open data may leave, although the step touches private data too."""
    a, b = hospital.dataset("private")["a"], hospital.dataset("open")["b"]
    weight = torch.zeros(6, dtype=a.dtype).to(hospital.device)
    with sojourn.step():
        weight.add_(a)
        value = sojourn.publish(b.sum())
    assert float(value) == 21


def test_batches_of_private_tables(hospital):
    table = hospital.dataset("private")
    with pytest.raises(sojourn.Refused):
        for x, y in table.batches(features=["a"], label="y", size=4, epochs=1, seed=0):
            sojourn.publish(x)


def test_shapes_need_no_publish(hospital):
    a = hospital.dataset("private")["a"]
    assert len(a) == 6 and a.shape == (6,) and a.dtype.is_floating_point and a.numel() == 6
    assert "private" not in repr(a) and "at the owner" in repr(a)
