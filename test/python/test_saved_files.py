# SPDX-License-Identifier: Apache-2.0
"""Goal: files of tensors at an owner. Plain PyTorch loads them onto the CPU, and Sojourn where they were.

Method: both formats of torch, with and without `weights_only`; values, classes and shared memory beside eager's own
file; processes without this package; owners that are closed, or open elsewhere.
"""

import copy
import functools
import io
import pickle
import subprocess
import sys
import warnings

import pytest
import torch
from remote_support import Count
from torch import nn

import sojourn


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 4)
        self.out = nn.Linear(4, 7)
        self.out.weight = self.words.weight
        self.norm = nn.BatchNorm1d(7)
        self.register_buffer("table", torch.randn(3, 2).t().half())

    def forward(self, x):
        return self.norm(self.out(self.words(x)))


FORMATS = {"zip": True, "old": False}


def file_of(tree, format="zip"):
    file = io.BytesIO()
    torch.save(tree, file, _use_new_zipfile_serialization=FORMATS[format])
    file.seek(0)
    return file


def leaves(tree):
    return [leaf for leaf in torch.utils._pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def shared(tensors):
    """Which tensors have one storage, and where in it they lie."""
    storages = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    return [
        (storages.index(storage), tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad)
        for storage, tensor in zip(storages, tensors)
    ]


def assert_back(found, eager, device):
    """`found` is `eager` at the device: values, layouts, what shares memory."""
    found, eager = leaves(found), leaves(eager)
    assert len(found) == len(eager) and {tensor.device for tensor in found} == {device}
    assert shared(found) == shared(eager)
    for ours, theirs in zip(found, eager):
        assert type(ours) is type(theirs) and torch.equal(ours.detach().cpu(), theirs.detach())


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.filterwarnings("ignore:a value is read here")
def test_state_comes_back_where_it_was(owner, seed, format, weights_only):
    here = Tied()
    there = copy.deepcopy(here).to(owner.device)
    whole = torch.randn(4, 6)
    moved = whole.to(owner.device)
    trees = [
        {
            "state": module.state_dict(),
            "windows": [x[:2], x[1:], x.t(), x],
            "one": x.clone(),
            "leaf": nn.Parameter(x.clone()),
            "wants a gradient": x.clone().requires_grad_(),
            "other": [1, "text", (x[0] * 2).to(torch.complex64)],
        }
        for module, x in ((here, whole), (there, moved))
    ]
    sojourn.flush()
    with Count(owner) as count:
        file = file_of(trees[1], format)
    assert count.round_trips == 1
    found = torch.load(file, weights_only=weights_only)
    eager = torch.load(file_of(trees[0], format), weights_only=weights_only)
    assert_back(found, eager, owner.device)
    found["windows"][0].zero_()
    eager["windows"][0].zero_()
    assert torch.equal(found["windows"][1].cpu(), eager["windows"][1]), "what shares memory goes on sharing it"
    there.load_state_dict(found["state"])
    assert all(torch.equal(p.cpu(), q) for p, q in zip(there.state_dict().values(), here.state_dict().values()))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.filterwarnings("ignore:a value is read here")
def test_modules_come_back_and_train(owner, seed, format):
    here = Tied()
    there = torch.load(file_of(copy.deepcopy(here).to(owner.device), format), weights_only=False)
    assert all(type(p) is nn.Parameter and p.device == owner.device for p in there.parameters())
    assert there.out.weight is there.words.weight
    x, fixed = torch.randperm(7)[:5], torch.randn(5, 7)
    for module, device in ((here, "cpu"), (there, owner.device)):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        (module(x.to(device)) * fixed.to(device)).sum().backward()
        optimizer.step()
    for ours, theirs in zip(there.state_dict().values(), here.state_dict().values()):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-5, atol=1e-5)


class Named(torch.Tensor):
    """A class of some library."""


def test_classes_and_mapped_files(owner, seed, tmp_path):
    x = torch.randn(3)
    there = x.to(owner.device)
    torch.save([there.as_subclass(Named), there[1:], there, (there * 1j).conj()], tmp_path / "kept")
    torch.save([x.as_subclass(Named), x[1:], x, (x * 1j).conj()], tmp_path / "here")
    found = torch.load(tmp_path / "kept", weights_only=False, mmap=True)
    eager = torch.load(tmp_path / "here", weights_only=False)
    for ours, theirs in zip(found, eager, strict=True):
        assert type(ours) is type(theirs) and ours.device == owner.device
        assert torch.equal(ours.cpu().resolve_conj(), theirs.resolve_conj())


def test_other_ways_to_copy(device, seed):
    """As on any device: pickle and copy keep it."""
    x = torch.randn(3)
    for way in (lambda t: pickle.loads(pickle.dumps(t)), copy.copy, copy.deepcopy):
        found = way(x.to(device))
        assert found.device == device and torch.equal(found.cpu(), way(x))


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("format", FORMATS)
def test_the_given_location_wins(owner, seed, format, weights_only):
    x = torch.randn(2, 3)
    file = file_of([x.to(owner.device)], format)
    load = functools.partial(torch.load, file, weights_only=weights_only)
    with sojourn.local() as other:
        for location, device in (
            ("cpu", "cpu"),
            (torch.device("cpu"), "cpu"),
            ({}, "cpu"),
            (lambda storage, name: storage, "cpu"),
            (lambda storage, name: None, "cpu"),
            ("meta", "meta"),
            (other.device, other.device),
            (str(other.device), other.device),
            ({"cpu": str(other.device)}, other.device),
            (None, owner.device),
        ):
            file.seek(0)
            (found,) = load(map_location=location)
            assert found.device == torch.device(device), location
            assert device == "meta" or torch.equal(found.cpu(), x)
        there = x.to(other.device)
        file = file_of([there, x.to(owner.device), x], format)
        assert [t.device for t in torch.load(file, weights_only=weights_only)] == [
            other.device,
            owner.device,
            torch.device("cpu"),
        ]


@pytest.mark.parametrize("weights_only", [True, False])
def test_files_of_the_old_format(owner, seed, weights_only):
    """Their storages are filled when the tensors have been made. Such a file may hold several objects, one by one."""
    x, y = torch.randn(4), torch.randn(2, 3)
    file = io.BytesIO()
    for tree in ({"x": x, "part": x[1:3]}, [y.to(owner.device)], y):
        torch.save(tree, file, _use_new_zipfile_serialization=False)
    for location in (None, owner.device, "cpu"):
        file.seek(0)
        first, second, third = (torch.load(file, map_location=location, weights_only=weights_only) for _ in range(3))
        where = torch.device(location or "cpu")
        assert [t.device for t in leaves([first, third])] == [where] * 3
        assert second[0].device == (owner.device if location is None else where)
        first["part"].zero_()
        assert first["x"].tolist() == [x[0].item(), 0, 0, x[3].item()]
        assert torch.equal(second[0].cpu(), y) and torch.equal(third.cpu(), y)
        assert file.read() == b""
    for function in (torch._utils._rebuild_tensor, torch._utils._rebuild_tensor_v2):
        assert getattr(torch._utils, function.__name__) is function, "torch allows them by their names"


PLAIN = """
import sys, torch
assert not any("sojourn" in name for name in sys.modules)
found = torch.load(sys.argv[1], weights_only=sys.argv[2] == "True")
assert {str(t.device) for t in found.values()} == {"cpu"}
assert not any("sojourn" in name for name in sys.modules)
torch.save(found, sys.argv[3])
"""


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("format", FORMATS)
def test_plain_torch_loads_it(device, seed, tmp_path, format, weights_only):
    model = Tied()
    (tmp_path / "kept").write_bytes(file_of(copy.deepcopy(model).to(device).state_dict(), format).getvalue())
    call = [sys.executable, "-W", "error", "-c", PLAIN, tmp_path / "kept", str(weights_only), tmp_path / "again"]
    done = subprocess.run(call, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert_back(torch.load(tmp_path / "again"), model.state_dict(), torch.device("cpu"))


@pytest.mark.parametrize("format", FORMATS)
def test_of_an_owner_that_is_not_open(seed, format):
    x, y = torch.randn(2, 3), torch.randn(4)
    owner = sojourn.local()
    file = file_of({"x": x.to(owner.device), "y": y.to(owner.device), "z": y}, format)
    owner.close()
    with sojourn.local() as other:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = torch.load(file)
        assert [(warning.filename, "map_location=owner.device" in str(warning.message)) for warning in told] == [
            (__file__, True)
        ]
        assert_back(found, {"x": x, "y": y, "z": y.clone()}, torch.device("cpu"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for location in ("cpu", other.device):
                file.seek(0)
                assert torch.load(file, map_location=location)["x"].device == torch.device(location)


def test_the_owner_is_known_by_its_key(seed, tmp_path):
    """Its device has another number in another session, and a file goes to no other owner."""
    x = torch.randn(3)
    with sojourn.local(store=tmp_path / "store") as owner:
        key, file = owner.key, file_of(x.to(owner.device))
    with sojourn.local() as first, sojourn.local(store=tmp_path / "store") as again, sojourn.local() as last:
        assert again.key == key and len({first.device, again.device, last.device}) == 3
        found = torch.load(file)
        assert found.device == again.device and torch.equal(found.cpu(), x)
    kept = file.getvalue()
    assert key.encode() in kept and str(tmp_path).encode() not in kept


def test_each_connection_gets_its_own_back(owner_process, seed):
    x = torch.randn(3)
    with sojourn.connect(owner_process.address) as one, sojourn.connect(owner_process.address) as two:
        for owner in (two, one):
            assert torch.load(file_of(x.to(owner.device))).device == owner.device


def test_values_of_steps_stay(owner, seed):
    x = torch.randn(3).to(owner.device)
    with sojourn.step(), pytest.raises(sojourn.Refused, match="save it after the step"):
        torch.save({"x": x}, io.BytesIO())
    assert torch.load(file_of({"x": x}))["x"].tolist() == x.tolist()


@pytest.mark.filterwarnings("ignore:a value is read here")
def test_safetensors_files(owner, seed, tmp_path):
    files = pytest.importorskip("safetensors.torch", reason="tools/setup --libraries installs it")
    model = Tied()
    there = copy.deepcopy(model).to(owner.device)
    sojourn.flush()
    with sojourn.strict(), Count(owner) as count:
        files.save_model(there, tmp_path / "kept.safetensors")
    assert count.round_trips == 1
    found = files.load_file(tmp_path / "kept.safetensors", device=str(owner.device))
    eager = files.load_file(tmp_path / "kept.safetensors")
    assert_back(found, eager, owner.device)
    assert_back(torch.load(tmp_path / "kept.safetensors", map_location=owner.device), eager, owner.device)
    with torch.no_grad():
        for parameter in there.parameters():
            parameter.zero_()
    assert files.load_model(there, tmp_path / "kept.safetensors", device=str(owner.device)) == (set(), [])
    for ours, theirs in zip(there.state_dict().values(), model.state_dict().values()):
        assert torch.equal(ours.cpu(), theirs)
