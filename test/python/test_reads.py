# SPDX-License-Identifier: Apache-2.0
"""Goal: outside of steps a script reads values as it would read those of any device, in one trip with what is pending,
and never for a price.

Method: each way to read beside eager, on both runtimes; training scripts that nobody changed but for the device, with
their trips counted; private tables, whose budgets stay what they are.
"""

import copy
import io
import pickle
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from private_support import make_table
from remote_support import Count, here, shared_owner
from torch import nn

import sojourn

pytestmark = pytest.mark.filterwarnings("ignore:a value is read here")


def saved(tensor):
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    return torch.load(file, map_location="cpu")


WAYS = {
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu"),
    "to with a dtype": lambda x: x.to("cpu", torch.float64),
    "numpy": lambda x: torch.from_numpy(x.detach().numpy()),
    "cpu, numpy": lambda x: torch.from_numpy(x.cpu().numpy()),
    "asarray": lambda x: torch.from_numpy(np.asarray(x)),
    "tolist": lambda x: torch.tensor(x.tolist(), dtype=x.dtype),
    "copy_": lambda x: torch.empty(x.shape, dtype=x.dtype).copy_(x),
    "save": saved,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)).cpu(),
    "torch.tensor": lambda x: torch.tensor([float(each) for each in x.flatten()], dtype=x.dtype).reshape(x.shape),
}
LAYOUTS = {
    "whole": lambda x: x,
    "transposed": lambda x: x.t(),
    "part": lambda x: x[1:, ::2],
    "number": lambda x: x[0, 1],
    "empty": lambda x: x[:0],
    "computed": lambda x: x * 2 + 1,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sent", [False, True])
def test_ways_to_read(device, seed, way, layout, sent):
    for dtype in (torch.float32, torch.int64, torch.bool, torch.bfloat16):
        if dtype == torch.bfloat16 and ("numpy" in way or way in ("asarray", "torch.tensor")):
            continue  # NumPy has no such type
        x = (torch.randn(4, 6) * 3).to(dtype)
        expected = WAYS[way](LAYOUTS[layout](x))
        there = x.to(device)
        if sent:
            sojourn.flush()
        found = WAYS[way](LAYOUTS[layout](there))
        assert found.device.type == "cpu" and found.dtype == expected.dtype
        if way not in ("tolist", "copy_", "torch.tensor") and found.numel() > 0:
            assert found.stride() == torch.empty_like(LAYOUTS[layout](x)).stride()  # as from any other device
        assert torch.equal(found, expected), dtype


def test_numbers_and_texts(device, seed):
    x = torch.tensor(2.75)
    there = x.to(device)
    for read in (float, int, bool, lambda t: t.item(), lambda t: f"{t:.1f}", lambda t: [10, 20, 30][t.int()]):
        assert read(there) == read(x)
    assert torch.allclose(there, there + 1e-9) and not torch.allclose(there, there + 1)
    assert torch.equal(there, there) and not torch.equal(there, there + 1)
    matrix = torch.randn(30, 3)
    for tensor in (x, matrix, matrix[:0], torch.arange(5), torch.randn(2, 2).requires_grad_(), nn.Parameter(matrix)):
        text, shown = repr(tensor), repr(tensor.detach().to(device).requires_grad_(tensor.requires_grad))
        if isinstance(tensor, nn.Parameter):
            shown = repr(nn.Parameter(tensor.detach().to(device)))
        assert shown.replace(f", device='{device}'", "").replace(" ", "").replace("\n", "") == text.replace(
            " ", ""
        ).replace("\n", "")
        assert f"device='{device}'" in shown
    assert str({"loss": there}) == f"{{'loss': tensor(2.7500, device='{device}')}}"
    with sojourn.step():
        assert "at the owner" in repr(there)  # within a step it costs none


def test_a_copy_is_the_reader_s(device, seed):
    x = torch.randn(3).to(device)
    first = x.cpu()
    first.zero_()
    assert x.cpu().abs().sum() > 0 and x.detach().numpy() is not x.detach().numpy()


def test_what_was_read_costs_nothing_again(owner, seed):
    x = torch.randn(5).to(owner.device)
    sojourn.flush()
    with Count(owner) as count:
        total = x.sum()
        values = [total.item() for _ in range(10)] + [float(total), total.tolist()]
        assert len(set(values)) == 1
    assert count.round_trips == 1 and count.of["reads"] == 1
    with Count(owner) as count:
        total.add_(1)
        assert total.item() == pytest.approx(values[0] + 1)
        y = x[2:]
        assert y.tolist() == y.tolist() and x.tolist()[2:] == x[2:].clone().tolist()
        x[3] = 7.0
        assert x.tolist()[3] == x.tolist()[3] == 7.0
    assert count.round_trips == 5


def train(model, optimizer, batches, log):
    """As it stands in many scripts; `log(loss)` after each step."""
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        log(loss)


def make():
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def batches(count, place):
    for _ in range(count):
        x, y = torch.randn(6, 5).double(), torch.randint(0, 3, (6,))
        yield x.to(place), y.to(place)


LOGS = {
    "each": lambda losses: lambda loss: losses.append(loss.item()),
    "printed": lambda losses: lambda loss: losses.append(f"{loss:.6f}"),
    "kept": lambda losses: losses.append,
    "summed": lambda losses: lambda loss: losses.append(losses[-1] + loss.detach() if losses else loss.detach()),
    "none": lambda losses: lambda loss: None,
}


@pytest.mark.parametrize("log", LOGS)
def test_a_script_with_its_device_changed(owner, seed, log):
    """One trip per step, two programs or so, and what the script logs is eager's."""
    first, count, found = make(), 20, []
    for place in ("cpu", owner.device):
        model = copy.deepcopy(first).to(place)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        losses = []
        torch.manual_seed(seed)
        with Count(owner) as counted:
            train(model, optimizer, batches(count, place), LOGS[log](losses))
            sojourn.flush()
        values = [value.item() if isinstance(value, torch.Tensor) else float(value) for value in losses]
        found.append(values + [parameter.sum().item() for parameter in model.parameters()])
    assert found[1] == pytest.approx(found[0], abs=1e-6 if log == "printed" else 1e-12)
    assert counted.round_trips <= count + 4 and counted.of["programs_compiled"] <= 5


def test_a_long_script_that_reads_nothing(seed):
    """What nobody declared travels all the same, and does not grow."""
    owner = shared_owner()
    model = nn.Linear(3, 2).to(owner.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(8, 3).to(owner.device), torch.randint(0, 2, (8,)).to(owner.device)
    with Count(owner) as count:
        train(model, optimizer, ((x, y) for _ in range(500)), lambda loss: None)
        sojourn.flush()
    assert 250 <= count.round_trips <= 501 and count.of["programs_compiled"] <= 4


def test_tables_end_steps(owner, seed):
    table = owner.register(f"reads-{seed}", {"a": torch.randn(40), "b": torch.randint(0, 3, (40,))}, policy="open")
    model = nn.Linear(1, 3).to(owner.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with Count(owner) as count:
        train(model, optimizer, table.batches(["a"], label="b", size=10, epochs=3), losses.append)
        sojourn.flush()
    assert count.round_trips <= 12 + 2
    assert len({loss.item() for loss in losses}) > 1


def test_what_a_step_has_not_changed_is_read_beside_it(owner, seed):
    """In a trip of its own; the step that has begun stays whole."""
    first, found = make(), []
    for place in ("cpu", owner.device):
        torch.manual_seed(seed)
        model = copy.deepcopy(first).to(place)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        values = []
        for x, y in batches(3, place):
            sojourn.flush()
            before = owner.counters()
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            values += model[0].weight.flatten().tolist()
            loss.backward()
            values += model[2].bias.tolist()
            optimizer.step()
            sojourn.flush()
            after = owner.counters()
        found.append(values)
    assert found[1] == pytest.approx(found[0], abs=1e-12)
    assert after["steps"] - before["steps"] == 3 and after["steps_dropped"] == before["steps_dropped"]
    assert after["live_handles"] == before["live_handles"] and after["programs_compiled"] == before["programs_compiled"]


def test_evaluation_and_reads_between(owner, seed):
    """Reads amid of a step split it, with eager's numbers; steps that are declared are left alone."""
    first, found = make(), []
    for place in ("cpu", owner.device):
        torch.manual_seed(seed)
        model = copy.deepcopy(first).to(place)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        values = []
        for x, y in batches(6, place):
            loss = F.cross_entropy(model(x), y)
            values.append(loss.item())
            optimizer.zero_grad()
            loss.backward()
            if nn.utils.clip_grad_norm_(model.parameters(), 0.5) > 0.4:  # a branch on a value
                optimizer.step()
            with torch.no_grad():
                values.append((model(x).argmax(1) == y).sum().item())
            with sojourn.step():
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
        found.append(values)
    assert found[1] == pytest.approx(found[0], abs=1e-12)


def test_graphs_over_the_border(device, seed):
    """A loss on the CPU differentiates into the model at the owner, as from any device."""
    model, x, target = nn.Linear(4, 3).double(), torch.randn(5, 4).double(), torch.randn(5, 3).double()
    ((model(x) - target) ** 2).sum().backward()
    there = nn.Linear(4, 3).double().to(device)
    there.load_state_dict(model.state_dict())
    out = there(x.to(device)).cpu()
    ((out - target) ** 2).sum().backward()
    for ours, theirs in zip(there.parameters(), model.parameters()):
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-12, atol=1e-12)


def test_checkpoints_for_plain_torch(owner, seed, tmp_path):
    """Saved in one trip; read where nobody knows of owners; loaded back."""
    model = make().to(owner.device)
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer, batches(3, owner.device), lambda loss: None)
    sojourn.flush()
    path = tmp_path / "checkpoint.pt"
    with Count(owner) as count:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, path)
    assert count.round_trips == 1
    text = "import sys, torch; c = torch.load(sys.argv[1]); print(sum(float(t.sum()) for t in c['model'].values()))"
    done = subprocess.run([sys.executable, "-c", text, path], capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(sum(t.sum().item() for t in model.state_dict().values()))
    other = make().to(owner.device)
    state = torch.load(path)
    other.load_state_dict(state["model"])
    again = torch.optim.Adam(other.parameters())
    again.load_state_dict(state["optimizer"])
    torch.manual_seed(seed)
    data = list(batches(2, owner.device))
    for module, updates in ((model, optimizer), (other, again)):
        train(module, updates, data, lambda loss: None)
    for ours, theirs in zip(model.parameters(), other.parameters()):
        assert torch.equal(ours.cpu(), theirs.cpu())


@pytest.mark.filterwarnings("default:a value is read here")
def test_hints_and_strictness(owner, seed):
    x = torch.randn(4).to(owner.device)
    model = nn.Linear(4, 1).to(owner.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    sojourn.reads._told.lines.clear()  # by the other owner's run
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            step().item()
            x.sum().item()
    assert [(warning.filename, "a separate round trip to the owner" in str(warning.message)) for warning in told] == [
        (__file__, True)
    ]
    with sojourn.strict():
        assert isinstance(step().item(), float)  # travels with the step
        total = x.sum()
        with pytest.raises(sojourn.ValueNeeded, match="a separate round trip") as caught:
            total.item()
        assert here(-1) in str(caught.value)
        assert "at the owner" in repr(total)
    terms = sojourn.publish(x)
    assert total.item() == pytest.approx(float(terms.sum()), abs=4 * 2**-23 * float(terms.abs().sum()))


def test_within_steps_values_stay(owner, seed):
    x = torch.randn(2, 2).to(owner.device)
    for read in (
        lambda: x.sum().item(),
        x.cpu,
        x.tolist,
        x.numpy,
        lambda: torch.save(x, io.BytesIO()),
        lambda: bool(x[0, 0]),
    ):
        with sojourn.step(), pytest.raises((sojourn.ValueNeeded, sojourn.Refused), match="publish|after the step"):
            read()
    assert x.tolist() == sojourn.publish(x).tolist()


def test_a_lost_value_says_so(owner, seed):
    x = torch.randn(3).to(owner.device)
    with pytest.raises(KeyError), sojourn.step():
        y = x + 1
        raise KeyError
    assert "at the owner" in repr(y)
    with pytest.raises(sojourn.Error, match="dropped"):
        y.tolist()


def test_private_rows_are_not_read(seed):
    """Refused before anything is sent; what is pending stays, and the budget is what it was."""
    with sojourn.local() as owner:
        columns = {"age": torch.rand(200) * 50, "ill": torch.randint(0, 2, (200,))}
        table = make_table(owner, columns, {"age": (0, 50), "ill": (0, 1)}, epsilon=5.0)
        before = str(owner.budget("people"))
        for read in (lambda t: t.item(), float, lambda t: t.cpu(), bool, lambda t: t.tolist(), lambda t: t.numpy()):
            total = table["age"].sum()
            with pytest.raises(sojourn.Refused, match="reads are free|per row"):
                read(total)
            assert "at the owner" in repr(total) and "at the owner" in repr(table["age"])
        assert str(owner.budget("people")) == before
        released = sojourn.publish(total, epsilon=1.0)  # still there, for its price
        assert abs(released.value - columns["age"].sum()) < 50 * released.stderr
        assert str(owner.budget("people")) != before


def test_trained_weights_of_private_tables_are_read(seed):
    """They are released with the step: free and exact; the loss is not."""
    with sojourn.local() as owner:
        columns = {"age": torch.rand(200) * 50, "ill": torch.randint(0, 2, (200,))}
        table = make_table(owner, columns, {"age": (0, 50), "ill": (0, 1)})
        model = nn.Linear(1, 2).to(owner.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with sojourn.privacy(table, epsilon=3, delta=1e-5, clip=1.0):
            for x, y in table.batches(["age"], label="ill", size=20, epochs=1):
                before = model.weight.cpu()
                optimizer.zero_grad()
                loss = F.cross_entropy(model(table.scaled(x)), y)
                loss.backward()
                optimizer.step()
                with pytest.raises(sojourn.Refused, match="reads are free"):
                    loss.item()  # its noise would be paid by the step
                assert not torch.equal(model.weight.cpu(), before)
                with pytest.raises(sojourn.Error):
                    loss.item()


def test_published_values_compute(owner, seed):
    x = torch.tensor([3.0, 1.0]).to(owner.device)
    with sojourn.step():
        a, b, both = sojourn.publish(x[0]), sojourn.publish(x[1]), sojourn.publish(x)
        with pytest.raises(sojourn.ValueNeeded, match="after the step"):
            a + 1
    assert a + b == 4 and a * 2 == 6 and 1 - b == 0 and 2 / b == 2 and a > b and a != b and -a == -3 and a**2 == 9
    assert sum([a, b]) == 4 and np.mean([a, b]) == 2 and np.asarray(both).tolist() == [3.0, 1.0]
    assert f"{a:.2f}" == "3.00" and bool(b) and max(a, b) is a and len(both) == 2 and both[1] == 1
    assert torch.stack([a, b]).tolist() == [3.0, 1.0] and torch.equal(both + torch.ones(2), torch.tensor([4.0, 2.0]))
    assert len({a, b}) == 2


def test_another_thread_s_write_is_seen(seed):
    """A value that is on its way while it is written to is not remembered."""
    x = torch.zeros(4).to(shared_owner().device)
    sojourn.flush()
    stop = threading.Event()

    def read():
        while not stop.is_set():
            try:
                x.cpu()
            except sojourn.Error:
                pass  # the other thread has written and not sent

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for count in range(1, 60):
            while True:
                try:
                    x.add_(1)
                    break
                except sojourn.Error:
                    pass  # the reader has it in a trace
            sojourn.flush()
            assert x[0].item() == count
    finally:
        stop.set()
        reader.join()
    assert x.tolist() == [59.0] * 4


def test_what_is_meant_to_be_one_read_is_one(owner, seed):
    """Several views of a tensor in a file, and a model that comes home: one trip, also when strict."""
    x = torch.arange(6.0).to(owner.device) * 2
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).to(owner.device)
    model(torch.randn(4, 3).to(owner.device)).sum().backward()
    sojourn.flush()
    with sojourn.strict():
        file = io.BytesIO()
        with Count(owner) as count:
            torch.save({"a": x[:3], "b": x[3:], "c": x}, file)
        assert count.round_trips == 1
        file.seek(0)
        assert torch.load(file)["b"].tolist() == [6.0, 8.0, 10.0]
        with Count(owner) as count:
            model.cpu()
        assert count.round_trips == 1 and model[0].weight.grad.device.type == "cpu"


def test_texts_never_fail(seed):
    owner = sojourn.local()
    y = torch.arange(3.0).to(owner.device) * 2
    sojourn.flush()
    assert "4." in repr(y + 0)
    owner.close()
    assert "at the owner" in repr(y)
    with pytest.raises(sojourn.Error, match="closed"):
        y.tolist()
