# SPDX-License-Identifier: Apache-2.0
"""What publish returns: the tree as it was, whose leaves act as CPU tensors and know their noise and their receipt.

The oracle is eager PyTorch on the same values; files are read in a process that has no Sojourn.
"""

import collections
import copy
import dataclasses
import gc
import importlib.util
import io
import pathlib
import pickle
import subprocess
import sys
import weakref

import numpy as np
import pytest
import torch
from private_support import make_table
from remote_support import assert_same
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils import _pytree as pytree

import sojourn

Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Pair:
    first: object
    second: object = 2


pytree.register_dataclass(Pair)


def tree_of(t):
    return {
        "list": [t, (t + 1, t * 2)],
        "point": Point(t.sum(), "kept"),
        "ordered": collections.OrderedDict(a=t[1:]),
        "pair": Pair(t.flip(0), None),
        "counts": collections.defaultdict(int, {"n": t > 0}),
        "limits": torch.max(t, 0),
        "number": 3,
    }


WITHOUT_SOJOURN = """
import pathlib, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("sojourn", "_sojourn"):
            raise ImportError("there is no Sojourn here")
sys.meta_path.insert(0, Refuse())
import pickle, torch
path = sys.argv[1]
found = torch.load(path) if path.endswith(".pt") else pickle.loads(pathlib.Path(path).read_bytes())
assert not any(name.startswith("sojourn") for name in sys.modules)
kinds = lambda t: (type(t).__name__, [kinds(e) for e in (t.values() if isinstance(t, dict) else t)]) if isinstance(t, (dict, list, tuple)) else (type(t).__name__, t.tolist() if isinstance(t, torch.Tensor) else t)
print(repr(kinds(found)))
"""


def read_elsewhere(path):
    done = subprocess.run([sys.executable, "-c", WITHOUT_SOJOURN, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return eval(done.stdout)


def kinds(tree):
    """Kinds and values of a tree as `read_elsewhere` gives them."""
    if isinstance(tree, (dict, list, tuple)):
        return type(tree).__name__, [kinds(each) for each in (tree.values() if isinstance(tree, dict) else tree)]
    return type(tree).__name__, tree.tolist() if isinstance(tree, torch.Tensor) else tree


def inside(make):
    """Published in a step of its own, filled."""
    with sojourn.step():
        return sojourn.publish(make())


@pytest.fixture(params=["outside", "inside", "cpu"])
def published(request, seed, owner):
    """Publishes a CPU tree at an owner outside or inside a step, or on the CPU inside one."""

    def publish(tree):
        there = (
            tree if request.param == "cpu" else pytree.tree_map_only(torch.Tensor, lambda t: t.to(owner.device), tree)
        )
        if hasattr(tree, "_metadata"):
            there._metadata = tree._metadata
        return sojourn.publish(there) if request.param == "outside" else inside(lambda: there)

    return publish


@pytest.mark.parametrize("where", ["owner", "cpu"])
def test_structure_outside_of_steps(device, seed, where):
    x = torch.randn(5)
    found = sojourn.publish(tree_of(x.to(device if where == "owner" else "cpu")))
    assert type(found) is dict and type(found["list"][1]) is tuple and type(found["point"]) is Point
    assert type(found["ordered"]) is collections.OrderedDict and type(found["pair"]) is Pair
    assert type(found["counts"]) is collections.defaultdict and found["counts"]["another"] == 0
    del found["counts"]["another"]
    assert type(found["limits"]) is type(torch.max(x, 0)) and found["number"] == 3 and found["point"].y == "kept"
    assert_same(found, tree_of(x), atol=1e-6)  # a sum may cancel
    leaves = [leaf for leaf in pytree.tree_leaves(found) if isinstance(leaf, torch.Tensor)]
    assert len(leaves) == 9
    for leaf in leaves:
        assert type(leaf) is torch.Tensor and leaf.device.type == "cpu"
        assert torch.equal(leaf.value, leaf) and leaf.stderr == 0 and leaf.receipt is None and leaf.ready


@pytest.mark.parametrize("where", ["owner", "cpu"])
def test_structure_inside_of_steps(device, seed, where):
    x = torch.randn(5, dtype=torch.float64)
    with sojourn.step():
        found = sojourn.publish(tree_of(x.to(device if where == "owner" else "cpu")))
        assert isinstance(found, dict) and isinstance(found["list"][0], sojourn.Published) and not found.ready
        with pytest.raises(sojourn.ValueNeeded, match="after the step has ended"):
            found["list"][0].shape
        for read in (lambda: found.value, lambda: found.stderr, lambda: found["point"].x.item()):
            with pytest.raises(sojourn.ValueNeeded, match="after the step has ended"):
                read()
        assert "filled when the step ends" in repr(found)
    assert found.ready and type(found["point"]) is Point and type(found["pair"]) is Pair and found["number"] == 3
    assert type(found.value) is dict and type(found.value["ordered"]) is collections.OrderedDict
    assert_same(found.value, tree_of(x), atol=1e-6)  # a sum may cancel
    for leaf, expected in zip(pytree.tree_leaves(found), pytree.tree_leaves(tree_of(x)), strict=True):
        if isinstance(expected, torch.Tensor):
            assert leaf.shape == expected.shape and leaf.dtype == expected.dtype
            assert leaf.tolist() == pytest.approx(expected.tolist(), rel=1e-5, abs=1e-6)
    assert found.receipt is None and found.stderr["list"][1] == (0, 0) and found.stderr["number"] == 0


@pytest.mark.parametrize(
    "container", [list, tuple, dict, collections.OrderedDict, lambda t: collections.defaultdict(list, t)]
)
def test_the_outermost_container_answers_for_all(device, seed, container):
    x = torch.randn(3)
    pairs = {"a": x, "b": [x * 2]}
    plain = container(pairs) if isinstance(container(pairs), dict) else container(pairs.values())
    there = pytree.tree_map_only(torch.Tensor, lambda t: t.to(device), plain)
    found = inside(lambda: there)
    assert isinstance(found, type(plain)) and len(found) == 2 and repr(found) == repr(found.__copy__())
    assert type(found.value) is type(plain) and kinds(found.value) == kinds(plain)
    assert kinds(found.stderr)[1] == [("float", 0.0), ("list", [("float", 0.0)])]
    for again in (copy.copy(found), copy.deepcopy(found), pytree.tree_map(lambda leaf: leaf, found)):
        assert type(again) is type(found) and kinds(again.value) == kinds(plain)
    assert pickle.loads(pickle.dumps(found)).__class__ is type(plain)
    doubled = pytree.tree_map(lambda leaf: leaf * 2, found)  # of plain tensors
    assert kinds(doubled.value) == kinds(pytree.tree_map(lambda t: t * 2, plain))
    if isinstance(found, dict):
        assert next(iter(found.items()))[0] == "a" and "b" in found
        found["c"] = 1
        assert found.value["c"] == 1


def test_a_filled_one_acts_as_its_tensor(published, seed, rng):
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    a, n, k, flags = published([x, x[0, 0], torch.tensor(rng.randrange(4)), x > 0])
    number = x[0, 0]
    cases = [
        (lambda t: t.shape, None), (lambda t: t.dtype, None), (lambda t: t.device.type, None), (lambda t: t.ndim, None),
        (lambda t: t.numpy().tolist(), None), (lambda t: t.tolist(), None), (lambda t: len(t), None),
        (lambda t: t.mean(0, keepdim=True), None), (lambda t: t.T @ y, None), (lambda t: y.T @ t, None),
        (lambda t: t[1:, ::2], None), (lambda t: t[:, -1].sum(), None), (lambda t: list(t)[1], None),
        (lambda t: (t + y) * 2 - 1 / (t - 9), None), (lambda t: t > y, None), (lambda t: -t, None), (lambda t: abs(t), None),
        (lambda t: torch.cat([t, y]), None), (lambda t: torch.nn.functional.relu(t), None), (lambda t: t.size(1), None),
        (lambda t: torch.where(t > 0, t, y), None), (lambda t: np.asarray(t).sum(), None), (lambda t: np.sin(t), None),
        (lambda t: 2**t, None), (lambda t: np.float32(2) * t, None), (lambda t: y.copy_(t), None),
        (lambda t: torch.tensor(t.tolist()), None), (lambda t: t.double().std().item(), None),
    ]  # fmt: skip
    for case, _ in cases:
        found, expected = case(a), case(x)
        if isinstance(expected, torch.Tensor):
            assert type(found) is torch.Tensor and torch.equal(found, expected)
            assert not hasattr(found, "stderr")
        else:
            assert found == expected
    assert float(n) == float(number) and n.item() == number.item() and f"{n:.3f}" == f"{number:.3f}"
    assert f"{n}" == f"{number}" and round(float(n), 2) == round(float(number), 2) and bool(n > 0) == bool(number > 0)
    assert (
        [10, 11, 12, 13][k] == 10 + int(k) and torch.arange(9)[k] == int(k) and torch.zeros(int(k)).shape == (int(k),)
    )
    assert torch.equal(flags & ~flags, torch.zeros(4, 3, dtype=torch.bool)) and torch.equal(True ^ flags, ~(x > 0))
    assert torch.equal(x[flags.value], x[x > 0]) and (number in a)
    with pytest.raises(AttributeError, match="no_such_thing"):
        a.no_such_thing
    a[0] = 7.0
    assert a[0].tolist() == [7.0] * 3 and a.value[0].tolist() == [7.0] * 3


def test_copies_keep_what_files_drop(published, seed):
    x = torch.randn(6)
    (found,) = published([x])
    for again in (copy.copy(found), copy.deepcopy(found)):
        assert torch.equal(torch.as_tensor(np.asarray(again)), x)
    deep = copy.deepcopy(found)
    assert deep.stderr == 0 and deep.receipt is None and deep.data_ptr() != found.data_ptr()
    assert deep.value.data_ptr() == deep.data_ptr()
    stored = pickle.loads(pickle.dumps(found))
    assert type(stored) is torch.Tensor and torch.equal(stored, x) and not vars(stored)
    file = io.BytesIO()
    torch.save({"found": found, "twice": [found]}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert type(loaded["found"]) is torch.Tensor and torch.equal(loaded["found"], x) and not vars(loaded["found"])
    assert loaded["twice"][0].data_ptr() == loaded["found"].data_ptr()


def test_a_tensor_keeps_what_a_script_attached(device, seed):
    found = sojourn.publish(torch.randn(3).to(device))
    found.note = "mine"
    stored = pickle.loads(pickle.dumps(found))
    assert vars(stored) == {"note": "mine"} and torch.equal(stored, found)
    plain = torch.randn(3)
    plain.value = "a script's own"
    assert vars(pickle.loads(pickle.dumps(plain))) == {"value": "a script's own"}


def test_what_was_published_is_freed_at_once(device, seed):
    """No circle of references holds its memory."""
    gc.collect()
    gc.disable()
    try:
        for make in (
            lambda: sojourn.publish(torch.randn(3).to(device)),
            lambda: inside(lambda: torch.ones(2, device=device)),
        ):
            found = make()
            gone = weakref.ref(found)
            del found
            assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", ["state_dict", "checkpoint", "tuple"])
def test_files_for_a_process_without_sojourn(published, seed, tmp_path, kind):
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    tree = {
        "state_dict": lambda: model.state_dict(),
        "checkpoint": lambda: {"model": model.state_dict(), "epoch": 3, "losses": [torch.randn(()), torch.randn(2)]},
        "tuple": lambda: (torch.randn(2), [torch.arange(3)]),
    }[kind]()
    found = published(tree)
    torch.save(found, tmp_path / "file.pt")
    assert read_elsewhere(tmp_path / "file.pt") == kinds(tree)
    (tmp_path / "file.pickle").write_bytes(pickle.dumps(found))
    assert read_elsewhere(tmp_path / "file.pickle") == kinds(tree)
    torch.save({"nested": [found, 1]}, tmp_path / "nested.pt")
    assert read_elsewhere(tmp_path / "nested.pt") == kinds({"nested": [tree, 1]})


def test_state_dicts_load(published, seed):
    model, fresh = (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)) for _ in range(2))
    model(torch.randn(5, 3))
    found = published(model.state_dict())
    assert isinstance(found, collections.OrderedDict) and next(iter(found.items()))[0] == "0.weight"
    assert found._metadata == model.state_dict()._metadata  # by which modules know old files
    assert fresh.load_state_dict(found) == ([], [])
    assert_same(dict(fresh.state_dict()), dict(model.state_dict()))
    partial = {name: value for name, value in found.items() if "weight" in name}
    assert set(fresh.load_state_dict(partial, strict=False).missing_keys) == {
        "0.bias",
        "1.bias",
        "1.running_mean",
        "1.running_var",
    }
    wrong = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        wrong.load_state_dict({"weight": found["0.weight"].T, "bias": found["0.bias"]})


def test_outside_of_steps_leaves_are_assigned(device, seed):
    """As parameters of a module, without a copy."""
    model, fresh = nn.Linear(3, 2), nn.Linear(3, 2)
    found = sojourn.publish(nn.Linear(3, 2).to(device).state_dict())
    fresh.load_state_dict(found, assign=True)
    assert type(fresh.weight) is nn.Parameter and torch.equal(fresh.weight, found["weight"])
    assert fresh.weight.data_ptr() == found["weight"].data_ptr()
    model.weight = nn.Parameter(found["weight"])
    model.weight.sum().backward()
    assert model.weight.grad is not None and found["weight"].grad is None


def test_averaged_models(published, seed):
    """An average over published weights is the average over the same weights on the CPU."""
    model, averaged = nn.Linear(4, 3), []
    states = [{name: torch.randn_like(value) for name, value in model.state_dict().items()} for _ in range(4)]
    for given in (states, [published(state) for state in states]):
        average = AveragedModel(copy.deepcopy(model), multi_avg_fn=get_ema_multi_avg_fn(0.8))
        for state in given:
            model.load_state_dict(state)
            average.update_parameters(model)
        averaged.append(average.module.state_dict())
    assert_same(dict(averaged[1]), dict(averaged[0]), rtol=0, atol=0)


def test_averaged_models_at_an_owner(device, seed):
    found = []
    first, data = nn.Linear(4, 2), [torch.randn(8, 4) for _ in range(5)]
    for place in ("cpu", device):
        model = copy.deepcopy(first).to(place)
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.7))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in data:
            with sojourn.step():
                optimizer.zero_grad()
                model(x.to(place)).square().mean().backward()
                optimizer.step()
                average.update_parameters(model)
        found.append(sojourn.publish(average.state_dict()))
    assert_same(dict(found[1]), dict(found[0]), rtol=1e-5, atol=1e-6)
    other = AveragedModel(copy.deepcopy(first))
    other.load_state_dict(found[1])
    assert other.n_averaged == 5


def private_table(owner, seed):
    generator = np.random.default_rng(seed)
    columns = {"age": generator.uniform(0, 50, 400), "ill": generator.integers(0, 2, 400)}
    return columns, make_table(owner, columns, {"age": (0, 50), "ill": (0, 1)}, epsilon=20.0)


def test_paid_values_know_their_noise(seed, tmp_path):
    with sojourn.local() as owner:
        columns, table = private_table(owner, seed)
        mean = sojourn.publish(table["age"].mean(), epsilon=2.0)
        assert type(mean) is torch.Tensor and mean.stderr > 0 and mean.receipt.verify(owner.key) and mean.value == mean
        assert abs(float(mean) - columns["age"].mean()) < 15 * mean.stderr
        found = sojourn.publish({"mean": table["age"].mean(), "more": [table["ill"].sum(), 3]}, epsilon=2.0)
        assert isinstance(found, dict) and type(found["mean"]) is torch.Tensor and found["more"][1] == 3
        assert found.stderr == {"mean": found["mean"].stderr, "more": [found["more"][0].stderr, 0.0]}
        assert found.receipt == found["mean"].receipt and found.receipt.verify(owner.key)
        assert [name for name, _ in found.value.items()] == ["mean", "more"]
        assert abs(float(found["more"][0]) - columns["ill"].sum()) < 15 * found["more"][0].stderr
        again = copy.deepcopy(found)
        assert again.stderr == found.stderr and again.receipt == found.receipt and bytes(again["mean"].receipt)
        torch.save(found, tmp_path / "found.pt")
        assert read_elsewhere(tmp_path / "found.pt") == kinds(found.value)
        with sojourn.step():
            step = sojourn.publish({"mean": table["age"].mean(), "none": None}, epsilon=2.0)
        assert step["mean"].stderr == step.stderr["mean"] > 0 and step.receipt.verify(owner.key)
        assert "stderr=" in repr(step["mean"]) and step["none"] is None
        assert copy.deepcopy(step["mean"]).stderr == step["mean"].stderr


def test_open_tables_give_the_same_tree_for_a_price(device, seed):
    x = torch.randn(4)
    found = sojourn.publish([x.to(device)], epsilon=1.0)
    assert (
        found.stderr == [0] and found.receipt is None and torch.equal(found[0], x) and kinds(found.value) == kinds([x])
    )


def test_replayed_steps_give_the_tree_again(device, seed):
    @sojourn.step(replay=True)
    def step(x):
        return sojourn.publish({"sum": x.sum(), "both": Point([x * 2], 1)})

    for _ in range(6):
        x = torch.randn(5)
        found = step(x.to(device))
        assert isinstance(found["sum"], sojourn.Published) and type(found["both"]) is Point
        torch.testing.assert_close(found["sum"].value, x.sum())
        torch.testing.assert_close(found.value["both"].x[0], x * 2)
        assert found.ready and found.stderr["sum"] == 0
    assert step.replayed >= 3


def test_loops_return_trees(device, seed):
    data = [torch.randn(3) for _ in range(7)]
    found = sojourn.loop(lambda x: sojourn.publish({"sum": x.sum()}), [x.to(device) for x in data], per_trip=3)
    torch.testing.assert_close(torch.stack([each["sum"] for each in found]), torch.stack([x.sum() for x in data]))
    assert all(each.ready and each.value["sum"] == each["sum"] for each in found)


def test_compiled_steps_return_trees_of_published_values(owner, seed):
    """In any form, if each published value is returned, in the order of publishing."""
    steps = {
        "one publish": lambda x: sojourn.publish(collections.OrderedDict(sum=x.sum(), both=[x * 2, x > 0])),
        "several": lambda x: {"sum": sojourn.publish(x.sum()), "both": sojourn.publish([x * 2, x > 0])},
        "tensors": lambda x: {"sum": x.sum(), "both": [x * 2, x > 0]},
    }
    data = [torch.randn(4) for _ in range(3)]
    for name, step in steps.items():
        with sojourn.offline():
            program = sojourn.compile(step, inputs=[sojourn.spec((4,))])
        for found, x in zip(program.run(owner, [(x,) for x in data]), data, strict=True):
            kind = collections.OrderedDict if name == "one publish" else dict
            assert type(found) is kind and type(found["both"]) is list
            torch.testing.assert_close(dict(found), {"sum": x.sum(), "both": [x * 2, x > 0]})


class Tag(torch.Tensor):
    pass


class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return cls(function(*[each.inner if isinstance(each, cls) else each for each in args], **(kwargs or {})))

    def __repr__(self):
        return "Wrapped"


@pytest.mark.parametrize("where", ["owner", "cpu"])
def test_subclasses(device, seed, where):
    """Those that are tensors themselves are published as such; those with their values elsewhere are refused."""
    x = torch.randn(3)
    there = x.to(device if where == "owner" else "cpu")
    found = sojourn.publish(there.clone().as_subclass(Tag))
    assert type(found) is torch.Tensor and torch.equal(found, x)
    assert torch.equal(sojourn.publish(nn.Parameter(there)), x)
    for tree in (Wrapped(there), {"a": [Wrapped(there)]}):
        with pytest.raises(
            sojourn.Error, match="test_published.Wrapped, a tensor subclass that has its values in other"
        ):
            sojourn.publish(tree)
    with pytest.raises(sojourn.Error, match="inside a function of torch.func"):
        torch.func.vmap(lambda row: sojourn.publish(row * 2))(there)


class Bag(dict):
    pass


@dataclasses.dataclass
class Unknown:
    values: object


@pytest.mark.parametrize(
    "hide, text",
    [
        (lambda x: Bag(a=x), "inside a test_published.Bag"),
        (lambda x: [Unknown({"deep": [x]})], r"register_dataclass\(Unknown\)"),
        (lambda x: {x}, "inside a builtins.set"),
        (lambda x: {"a": x}.values(), "inside a builtins.dict_values"),
        (lambda x: collections.deque([x]), None),
        (lambda x: nn.Linear(2, 2, device=x.device), r"publish\(module.state_dict\(\)\)"),
        (lambda x: torch.optim.SGD([nn.Parameter(x)], lr=0.1), r"publish\(optimizer.state_dict\(\)\)"),
        (lambda x: nn.Linear(2, 2, device=x.device).parameters(), "generator, expected tensors"),
        (lambda x: nn.LazyLinear(2, device=x.device).weight, "a lazy parameter"),
        (lambda x: torch.ones(2, device="meta"), "on device meta, which has no values"),
    ],
)
def test_nothing_comes_back_as_it_was_given(device, seed, hide, text):
    x = torch.randn(3).to(device)
    if text is None:  # a pytree of torch
        assert type(sojourn.publish(hide(x))[0]) is torch.Tensor
        return
    for publish in (lambda: sojourn.publish(hide(x)), lambda: inside(lambda: hide(x))):
        with pytest.raises(sojourn.Error, match=text):
            publish()
    assert torch.equal(sojourn.publish(x), x.cpu())  # the session goes on


def test_what_holds_no_remote_tensor_passes(seed):
    for value in (Bag(a=torch.ones(1)), Unknown([1]), {1, 2}, "text", object(), nn.Linear(1, 1)):
        assert sojourn.publish(value) is value


def test_tensorboard_takes_published_numbers(published, seed):
    """torch's conversion for tensorboard, which need not be installed."""
    folder = pathlib.Path(torch.__file__).parent / "utils/tensorboard/_convert_np.py"
    spec = importlib.util.spec_from_file_location("_convert_np", folder)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    value = torch.randn(())
    (found,) = published([value])
    assert float(module.make_np(found).squeeze()) == pytest.approx(float(value)) and module.make_np(found).size == 1
    (many,) = published([torch.arange(3.0)])
    assert module.make_np(many).flatten().tolist() == [0, 1, 2]


def test_tensorboard_writes_published_numbers(published, seed, tmp_path):
    pytest.importorskip("tensorboard", reason="tools/setup --libraries installs it")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    values = torch.randn(3)
    with SummaryWriter(tmp_path) as writer:
        for number, value in enumerate(values):
            writer.add_scalar("loss", published([value])[0], number)
        writer.add_histogram("values", published([values])[0], 0)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [event.value for event in events.Scalars("loss")] == pytest.approx(values.tolist())
