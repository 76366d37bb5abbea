# SPDX-License-Identifier: Apache-2.0
"""Goal: tools that save or count weights see which remote tensors share memory, and never a byte of it.

Method: windows of a tensor, and the ends of tensors, beside eager: sizes, distances of addresses and which are equal;
every way to the bytes of a storage; an owner's counters, which stay as they are.
"""

import copy
import gc
import io
import itertools
import json
import pickle
import subprocess
import sys
import threading

import pytest
import torch
from private_support import make_table
from remote_support import Count
from torch import nn

import sojourn

WINDOWS = {
    "itself": lambda x: x,
    "detached": lambda x: x.detach(),
    "data": lambda x: x.data,
    "row": lambda x: x[2],
    "column": lambda x: x[:, 1],
    "part": lambda x: x[1:3, 2:],
    "strided": lambda x: x[::2, 1::2],
    "transposed": lambda x: x.t(),
    "number": lambda x: x[1, 3],
    "flat": lambda x: x.view(-1),
    "expanded": lambda x: x[0].expand(3, -1),
    "bytes": lambda x: x.view(torch.int16)[1:],
    "nothing": lambda x: x[2:2],
    "window": lambda x: x.as_strided((2, 2), (3, 2), 4),
    "copy": lambda x: x.clone(),
    "computed": lambda x: x + 1,
    "contiguous": lambda x: x.contiguous(),
    "transposed copy": lambda x: x.t().contiguous(),
    "empty": lambda x: torch.empty_like(x[:0]),
    "parameter": lambda x: nn.Parameter(x),
}


def base(tensor):
    return tensor.untyped_storage().data_ptr()


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_windows_as_in_eager(device, seed):
    here = torch.randn(4, 6)
    there = here.to(device)
    mine = {name: window(there) for name, window in WINDOWS.items()}
    theirs = {name: window(here) for name, window in WINDOWS.items()}
    for name, ours in mine.items():
        eager = theirs[name]
        storage, expected = ours.untyped_storage(), eager.untyped_storage()
        assert type(storage) is torch.UntypedStorage and storage.device == device, name
        assert storage.nbytes() == storage.size() == len(storage) == expected.nbytes(), name
        assert (storage.data_ptr() == 0) == (expected.data_ptr() == 0), name
        assert (ours.data_ptr() == 0) == (eager.data_ptr() == 0), name
        if eager.data_ptr():
            assert ours.data_ptr() - storage.data_ptr() == eager.data_ptr() - expected.data_ptr(), name
        typed, eager_typed = ours.storage(), eager.storage()
        assert typed.dtype == eager_typed.dtype and typed.size() == eager_typed.size(), name
        assert typed.data_ptr() == storage.data_ptr(), name
    for (one, a), (other, b) in itertools.combinations(mine.items(), 2):
        c, d = theirs[one], theirs[other]
        if c.untyped_storage().nbytes() and d.untyped_storage().nbytes():
            assert (base(a) == base(b)) == (base(c) == base(d)), (one, other)
        for same in (
            lambda p, q: p.untyped_storage()._cdata == q.untyped_storage()._cdata,
            lambda p, q: p.untyped_storage() is q.untyped_storage(),
        ):
            assert same(a, b) == same(c, d), (one, other)


def test_an_address_stays_while_values_change(owner, seed, rng):
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).to(owner.device)
    optimizer = rng.choice([torch.optim.SGD, torch.optim.Adam])(model.parameters(), lr=0.1)
    addresses = [parameter.data_ptr() for parameter in model.parameters()]
    assert len(set(addresses)) == len(addresses)

    @sojourn.step
    def declared():
        assert [parameter.data_ptr() for parameter in model.parameters()] == addresses
        update()

    def update():
        optimizer.zero_grad()
        model(torch.randn(5, 3).to(owner.device)).square().sum().backward()
        optimizer.step()

    def rewrite():
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.5)
                parameter.copy_(parameter.detach() + 1)

    def fail():
        with pytest.raises(KeyError), sojourn.step():
            rewrite()
            raise KeyError

    for change in rng.sample([declared, update, rewrite, fail, sojourn.flush, gc.collect] * 3, 18):
        change()
        assert [parameter.data_ptr() for parameter in model.parameters()] == addresses, change
        assert [base(value) for value in model.state_dict().values()] == addresses, change
    other = torch.randn(4, 3).to(owner.device)
    model[0].weight.data = other
    assert model[0].weight.data_ptr() == other.data_ptr() != addresses[0]


def test_no_address_is_given_out_twice(device, seed, rng):
    """Neither to storages that live at one time, nor to later ones; also from several threads."""
    spans, kept, lock = [], [], threading.Lock()

    def ask():
        for _ in range(100):
            x = torch.empty([rng.randrange(1, 5) for _ in range(rng.randrange(4))], device=device)
            span = (x.data_ptr(), x.data_ptr() + x.nbytes)
            with lock:
                spans.append(span)
                if rng.random() < 0.5:
                    kept.append(x)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spans.sort()
    assert len(spans) == 400 and all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    assert all(0 < start < 2**63 for start, _ in spans)
    assert {x.data_ptr() for x in kept} <= {start for start, _ in spans}
    storage = kept[0].untyped_storage()
    address, size = storage.data_ptr(), storage.nbytes()
    kept.clear()
    gc.collect()
    assert (storage.data_ptr(), storage.nbytes(), storage.device) == (address, size, device), "it outlives its tensors"


def test_a_weak_reference_ends_with_the_last_tensor(device):
    from torch.multiprocessing.reductions import StorageWeakRef

    for where in ("cpu", device):
        x = torch.ones(3, device=where)
        view, weak = x[1:], StorageWeakRef(x.untyped_storage())
        assert not weak.expired() and weak == StorageWeakRef(view.untyped_storage())
        del x
        assert not weak.expired()
        del view
        gc.collect()
        assert weak.expired(), where


def to_queue(x):
    from multiprocessing.reduction import ForkingPickler

    ForkingPickler.dumps(x)


BYTES = {
    "index": lambda s: s[0],
    "slice": lambda s: s[1:3],
    "write": lambda s: s.__setitem__(0, 1),
    "fill_": lambda s: s.fill_(0),
    "tolist": lambda s: s.tolist(),
    "list": list,
    "iterate": lambda s: next(iter(s)),
    "cpu": lambda s: s.cpu(),
    "to": lambda s: s.to(device="cpu"),
    "cuda": lambda s: s.cuda(),
    "float": lambda s: s.float(),
    "clone": lambda s: s.clone(),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "copy_ from": lambda s: torch.UntypedStorage(s.nbytes()).copy_(s),
    "copy_ to": lambda s: s.copy_(torch.UntypedStorage(s.nbytes())),
    "resize_": lambda s: s.resize_(0),
    "byteswap": lambda s: s.byteswap(torch.float32),
    "pickle": pickle.dumps,
    "save": lambda s: torch.save(s, io.BytesIO()),
    "save in the old format": lambda s: torch.save(s, io.BytesIO(), _use_new_zipfile_serialization=False),
    "send": to_queue,
    "share": lambda s: s.share_memory_(),
    "pin": lambda s: s.pin_memory(),
    "new": lambda s: s.new(),
}
TYPED = ("index", "write", "fill_", "tolist", "list", "cpu", "clone", "copy", "deepcopy", "resize_", "pickle", "save")


@pytest.mark.parametrize("name", BYTES)
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_bytes_stay(owner, name, seed):
    x = torch.randn(2, 3).to(owner.device)
    with Count(owner) as count:
        with pytest.raises(sojourn.Unsupported, match="owner") as caught:
            BYTES[name](x.untyped_storage())
        print(caught.value)
        if name in TYPED:
            with pytest.raises(sojourn.Unsupported, match="owner|remote tensor"):
                BYTES[name](x.storage())
    assert count.round_trips == 0


@pytest.mark.parametrize("where", ["cpu", "owner"])
def test_a_storage_makes_no_tensor(device, where, seed):
    x = torch.randn(2, 3).to(device)
    with pytest.raises(RuntimeError, match="(?i)storage"):
        torch.empty(0, device=device if where == "owner" else "cpu").set_(x.untyped_storage(), 0, (6,), (1,))
    with pytest.raises(sojourn.Unsupported, match="another process.*send tensor.cpu"):
        to_queue(x)


def test_storages_show_their_size_alone(device, seed):
    x = torch.randn(2, 3).to(device)
    assert str(x.untyped_storage()) == repr(x.untyped_storage())
    assert repr(x.untyped_storage()) == f"[torch.storage.UntypedStorage(device={device}) of size 24, at the owner]"
    assert not x.untyped_storage().resizable() and not x.is_shared()


def test_wrappers_have_no_storage_of_their_own(device, seed):
    """As in eager, where torch says that it cannot reach it."""
    for where in ("cpu", device):
        x = torch.randn(4, 3).to(where)
        for transform in (torch.vmap, torch.func.grad):
            for ask in (torch.Tensor.data_ptr, torch.Tensor.untyped_storage):
                with pytest.raises((RuntimeError, NotImplementedError)) as caught:
                    transform(lambda row, ask=ask: (ask(row), row.sum())[1])(
                        x[0] if transform is torch.func.grad else x
                    )
                assert where == "cpu" or isinstance(caught.value, sojourn.Unsupported)


def test_sizes_have_an_end(tmp_path):
    """The addresses of tensors that no machine could hold; in a process of its own, which uses them up."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, sojourn\n"
        "owner = sojourn.local()\n"
        "addresses = {torch.empty(1 << 50, device=owner.device).data_ptr() for _ in range(9)}\n"
        "assert len(addresses) == 9\n"
        "large = [torch.empty(1 << 59, device=owner.device) for _ in range(4)]\n"
        "try:\n"
        "    print([x.data_ptr() for x in large])\n"
        "except sojourn.Unsupported as failure:\n"
        "    print(failure)\n"
        "assert torch.ones(3, device=owner.device).data_ptr() > max(addresses)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "too few" in done.stdout and str(1 << 61) in done.stdout


def test_storages_at_the_end_of_the_process(tmp_path):
    """Their objects may be the last that the interpreter drops."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, sojourn\n"
        "owner = sojourn.local()\n"
        "x = torch.ones(3, device=owner.device)\n"
        "storage, other = x.untyped_storage(), torch.ones(2, device=owner.device).untyped_storage()\n"
        "storage.note = other\n"
        "torch.note = [x.untyped_storage(), x]\n"
        "x.untyped_storage().back = x\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_private_tables_keep_their_budget(seed):
    with sojourn.local() as owner:
        rows = torch.rand(64)
        table = make_table(owner, {"a": rows, "y": (rows > 0.5).long()}, {"a": (0, 1), "y": (0, 1)})
        left = owner.budget("people").epsilon_left
        with Count(owner) as count:
            for x, _ in table.batches(["a"], label="y", size=8, epochs=1):
                storage = x.untyped_storage()
                assert storage.nbytes() == x.nbytes and x.data_ptr() == storage.data_ptr() != 0
                with pytest.raises(sojourn.Unsupported, match="at its owner"):
                    storage.tolist()
                break
        assert count.of["reads"] == 0 and owner.budget("people").epsilon_left == left


class Tied(nn.Module):
    """Weights under several names, parts of one tensor, buffers of other types."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 4)
        self.out = nn.Linear(4, 7, bias=False)
        self.out.weight = self.words.weight
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("same", self.norm.running_mean)


def parts_of(path):
    """The header and the bytes behind it; the package writes the names in the header's metadata in any order."""
    file = path.read_bytes()
    end = 8 + int.from_bytes(file[:8], "little")
    return json.loads(file[8:end]), file[end:]


@pytest.mark.parametrize(
    "make", [Tied, lambda: nn.LSTM(3, 4, 2), lambda: nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))]
)
def test_safetensors_as_in_eager(owner, seed, tmp_path, make):
    """The package finds ties by addresses, and its files are the same."""
    files = pytest.importorskip("safetensors.torch", reason="tools/setup --libraries installs it")
    here = make()
    there = copy.deepcopy(here).to(owner.device)
    files.save_model(here, tmp_path / "here")
    files.save_model(there, tmp_path / "there")
    assert parts_of(tmp_path / "there") == parts_of(tmp_path / "here")
    outcomes = []
    for model in (here, there):
        try:
            outcomes.append(files.save(model.state_dict()))
        except RuntimeError as failure:
            outcomes.append(str(failure))
    assert outcomes[0] == outcomes[1]
    whole = torch.randn(4, 6)
    parts = {"first": whole[:2], "second": whole[2:]}
    moved = whole.to(owner.device)
    assert files.save({"first": moved[:2], "second": moved[2:]}) == files.save(parts)
