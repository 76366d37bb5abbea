# SPDX-License-Identifier: Apache-2.0
"""Values that a program only keeps, such as the loss of every step, are gathered at the owner; they act as before."""

import copy
import gc
import io
import subprocess
import threading

import pytest
import torch
from owner_process import ROOT
from remote_support import Count, assert_same, shared_owner
from torch import nn

import _sojourn
import sojourn

F64 = torch.float64
FROM, MANY, AGE = 64, 16, 4


@pytest.fixture(autouse=True)
def gathering():
    """Few values are many here, beside those that earlier tests have left."""
    gc.collect()
    sojourn.flush()
    most = max(shared_owner(runtime).counters()["live_handles"] for runtime in ("native", "numpy"))
    _sojourn.set_gathering(most + FROM, MANY, AGE)
    yield most + FROM
    _sojourn.set_gathering()


def live(owner):
    return owner.counters()["live_handles"]


def kept(owner, count, make=lambda i: torch.randn((), dtype=F64)):
    """Values that one step each has computed, with eager's; all but the last few are gathered."""
    values, expected = [], []
    for i in range(count):
        value = make(i)
        with sojourn.step():
            values.append(value.to(owner.device) * 2)
        expected.append(value * 2)
    return values, expected


@pytest.mark.parametrize("kind", ["block", "replayed", "loop", "undeclared"])
def test_kept_losses_are_bounded(owner, seed, gathering, kind):
    model = nn.Linear(3, 1).to(F64)
    twin = copy.deepcopy(model)
    model.to(owner.device)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.01) for m in (model, twin)]
    xs = torch.randn(400, 5, 3, dtype=F64)

    def train(model, optimizer, x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def ours(x):
        return train(model, optimizers[0], x)

    losses, most = [], 0
    if kind == "loop":
        losses = sojourn.loop(ours, [(x,) for x in xs.to(owner.device)], per_trip=8)
        sojourn.flush()
        most = live(owner)
    else:
        step = {"block": sojourn.step(ours), "replayed": sojourn.step(ours, replay=True), "undeclared": ours}[kind]
        for x in xs:
            losses.append(step(x.to(owner.device)))
            if kind == "undeclared":
                sojourn.flush()
            most = max(most, live(owner))
    assert most <= gathering + 3 * MANY + 20
    expected = [train(twin, optimizers[1], x) for x in xs]
    assert_same(torch.stack(losses), torch.stack(expected), rtol=1e-9)
    assert_same(losses[::7], expected[::7], rtol=1e-9)
    assert_same(model.state_dict(), twin.state_dict(), rtol=1e-9)
    assert [round(loss.item(), 6) for loss in losses[3::97]] == [round(loss.item(), 6) for loss in expected[3::97]]
    before = live(owner)
    del losses
    gc.collect()
    sojourn.flush()
    assert live(owner) <= before - FROM + 4 * MANY


def test_shapes_and_dtypes(owner, seed, gathering):
    """Values of several kinds are gathered by kind; large ones stay."""
    forms = [
        lambda: torch.randn((), dtype=torch.float32),
        lambda: torch.randn(2, 3, dtype=F64).t(),
        lambda: torch.randn(1, 2, 4, 3).to(memory_format=torch.channels_last),
        lambda: torch.randint(-9, 9, (5,)),
        lambda: torch.randn(3, dtype=torch.complex64),
        lambda: torch.randn(400, dtype=F64),
    ]
    values, expected = kept(owner, 400, lambda i: forms[i % len(forms)]())
    assert live(owner) <= gathering + len(forms) * MANY + 400 / len(forms)
    assert all(a.stride() == b.stride() for a, b in zip(values, expected))
    assert_same(values, expected)
    assert_same([v.conj() + 1 for v in values[4::6]], [v.conj() + 1 for v in expected[4::6]])
    assert_same([torch.view_as_real(v) for v in values[4::30]], [torch.view_as_real(v) for v in expected[4::30]])


def test_values_that_died_delay_nothing(owner, seed, gathering):
    """The bound holds after a script has kept many values, under another one, and dropped them."""
    _sojourn.set_gathering(gathering + 1000, MANY, AGE)
    values, _ = kept(owner, 900)
    del values
    gc.collect()
    sojourn.flush()
    _sojourn.set_gathering(gathering, MANY, AGE)
    values, expected = kept(owner, 300)
    assert live(owner) <= gathering + 3 * MANY + 20
    assert_same(values, expected)


def test_each_is_a_tensor_of_its_own(owner, seed):
    """Writes, views, addresses and aliases are those of tensors that were never gathered."""
    values, expected = kept(owner, 300, lambda i: torch.randn(3, dtype=F64))
    aliases = [value[1:] for value in values]
    addresses = [value.data_ptr() for value in values]
    assert len(set(addresses)) == 300
    for i in range(0, 300, 11):
        values[i].mul_(3), expected[i].mul_(3)
        aliases[i + 1].fill_(7), expected[i + 1][1:].fill_(7)
    assert_same([values, aliases], [expected, [value[1:] for value in expected]])
    assert [value.data_ptr() for value in values] == addresses
    assert all(a.untyped_storage()._cdata == v.untyped_storage()._cdata for a, v in zip(aliases, values))
    values[5].resize_(2), expected[5].resize_(2)
    values[6].t_(), expected[6].t_()
    values[7].data, expected[7].data = values[8] * 1, expected[8] * 1
    torch.add(values[9], 1, out=values[10]), torch.add(expected[9], 1, out=expected[10])
    assert_same(values, expected)


def test_gradients_and_modules(owner, seed):
    values, expected = kept(owner, 200, lambda i: torch.randn(3, dtype=F64))
    for own, theirs in zip(values[:3], expected[:3]):
        own.requires_grad_(), theirs.requires_grad_()
    (values[0] * values[1] + values[2].exp() * values[5]).sum().backward()
    (expected[0] * expected[1] + expected[2].exp() * expected[5]).sum().backward()
    assert_same([v.grad for v in values[:3]], [v.grad for v in expected[:3]])
    layer, twin = nn.Linear(3, 2).to(F64), nn.Linear(3, 2).to(F64)
    twin.load_state_dict(layer.state_dict())
    layer.to(owner.device)
    layer.bias.data.copy_(values[3][:2]), twin.bias.data.copy_(expected[3][:2])
    assert_same(layer(torch.stack(values[4:30])), twin(torch.stack(expected[4:30])))


def test_a_step_that_fails_returns_them(owner, seed):
    values, expected = kept(owner, 200)
    with pytest.raises(KeyError), sojourn.step():
        values[0].add_(1)
        values[1] * 2
        torch.stack(values).sum()
        raise KeyError
    assert_same(values, expected)
    values[0].add_(1)
    with pytest.raises(sojourn.Unsupported):
        with sojourn.step():
            values[2].add_(1)
            torch.linalg.eig(values[3].reshape(1, 1).expand(4, 4).to_sparse())
    assert_same(values, [expected[0] + 1, *expected[1:]])


def test_calls_that_take_them(owner, seed):
    """As arguments, by closure, in loops: replayed calls see each call's own."""
    values, expected = kept(owner, 200)
    step = sojourn.step(lambda x: x * 3 + values[0], replay=True)
    for value, other in zip(values[1:20], expected[1:20]):
        assert_same(step(value), other * 3 + expected[0])
    assert step.replayed > 8, sojourn.explain()
    kept(owner, 50)
    for value, other in zip(values[30:50], expected[30:50]):
        assert_same(step(value), other * 3 + expected[0])
    kept(owner, 50)
    found = sojourn.loop(lambda x: x + values[1], [(v,) for v in values[60:90]], per_trip=4)
    assert_same(found, [v + expected[1] for v in expected[60:90]])
    kept(owner, 50)

    def stops():
        yield from ((v,) for v in values[100:120])
        raise KeyError

    with pytest.raises(KeyError) as caught:
        sojourn.loop(lambda x: x - 1, stops(), per_trip=64)
    assert caught.value.steps == 20
    assert_same(values, expected)


def test_files_and_copies(owner, seed):
    values, expected = kept(owner, 150)
    file = io.BytesIO()
    torch.save(values, file)
    file.seek(0)
    assert_same(torch.load(file, map_location="cpu"), expected)
    assert_same(copy.deepcopy(values[:20]), expected[:20])
    assert [v.item() for v in values[::10]] == [v.item() for v in expected[::10]]
    assert_same([v.cpu() for v in values[1::10]], expected[1::10])
    before = live(owner)
    with Count(owner) as count:
        assert torch.stack(values).cpu().tolist() == torch.stack(expected).tolist()
    assert count.round_trips == 1 and live(owner) <= before + 1


def test_threads_that_use_them(owner, seed):
    """One thread's steps gather what others read and write at the same time."""
    values, expected = kept(owner, 240)
    stop = threading.Event()
    failures = []

    def gather():
        try:
            while not stop.is_set():
                kept(owner, 20)
        except BaseException as failure:
            failures.append(failure)

    def use(part):
        try:
            for _ in range(6):
                for i in range(part, 240, 3):
                    values[i].add_(1)
                    expected[i].add_(1)
                    if i % 5 == 0:
                        sojourn.flush()
                sojourn.flush()
                assert_same(values[part::3], expected[part::3])
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=use, args=(part,)) for part in range(3)]
    background = threading.Thread(target=gather)
    background.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
    stop.set()
    background.join(60)
    assert not failures, failures
    assert_same(values, expected)


def test_another_thread_has_one_unsent(owner, seed):
    values, expected = kept(owner, 150)
    made, sent = threading.Event(), threading.Event()
    found = []

    def use():
        own = values[0] + 1  # unpacked in this thread's trace
        values[1].add_(1)
        made.set()
        assert sent.wait(60)
        found.append(sojourn.publish(own))

    thread = threading.Thread(target=use)
    thread.start()
    assert made.wait(60)
    assert_same(values[0] * 2, expected[0] * 2)  # a window of the pack
    with pytest.raises(sojourn.Error, match="another thread has"):
        values[0].add_(1)
    with pytest.raises(sojourn.Error, match="another thread has written"):
        values[1] * 2
    sent.set()
    thread.join(60)
    assert_same(found[0], expected[0] + 1)
    values[0].add_(1)
    assert_same(values, [expected[0] + 1, expected[1] + 1, *expected[2:]])


def counted(owner, make):
    """Growth of live values while 200 more are kept."""
    before = live(owner)
    values = [make() for _ in range(200)]
    sojourn.flush()
    return live(owner) - before, values


def test_what_private_tables_give_stays_apart(seed):
    """What may be published, and for how much, is the same for each value; those of open tables are gathered."""
    owner = sojourn.local()
    x = torch.randn(64, dtype=F64)
    secret = owner.register("secret", {"x": x}, policy="private", bounds={"x": (-5.0, 5.0)})
    shown = owner.register("shown", {"x": x}, policy="open", bounds={"x": (-5.0, 5.0)})
    owner.grant("secret", epsilon=10, delta=1e-5)
    _sojourn.set_gathering(30, MANY, AGE)

    def private():
        with sojourn.step():
            return secret.rows("x").sum()

    def open_():
        with sojourn.step():
            return shown.rows("x").sum()

    grown, sums = counted(owner, open_)
    assert grown < 100
    grown, own = counted(owner, lambda: kept(owner, 1)[0][0])
    assert grown < 100
    with pytest.warns(UserWarning, match=r"keeps \d+ values at local.*private tables, are not gathered: delete"):
        grown, hidden = counted(owner, private)
    assert grown >= 200
    grown, derived = counted(owner, lambda: hidden[0] + len(hidden))
    with pytest.raises(sojourn.Refused):
        sojourn.publish(derived[3])
    assert_same(sums[::9], [x.float().sum()] * len(sums[::9]), rtol=1e-4, atol=1e-4)
    assert_same(own[3], sojourn.publish(own)[3])
    assert owner.budget("secret").epsilon_left == 10
    owner.close()


def test_a_table_that_becomes_private(owner_process, tmp_path, seed):
    """What never met the table may leave as before, though it was gathered beside what was computed from it."""
    x = torch.randn(32, dtype=F64)
    file = tmp_path / "x.csv"
    file.write_text("x\n" + "\n".join(f"{value!r}" for value in x.tolist()))
    name = f"kept{seed}"

    def command(verb, *options):
        told = [ROOT / "build/bin/sojourn-owner", verb, "--store", owner_process.store, *options]
        subprocess.run(told, check=True, capture_output=True)

    command("import", "--name", name, "--policy", "open", "--anyone", "--bound", "x=-9:9", file)
    owner = sojourn.connect(owner_process.address)
    table = owner.dataset(name)
    _sojourn.set_gathering(10, MANY, AGE)
    sums, own = [], []
    for i in range(120):
        with sojourn.step():
            sums.append(table.rows("x").sum() + i)
        own += kept(owner, 1, lambda _: torch.tensor(i / 2, dtype=F64))[0]
    assert live(owner) < 100
    assert_same(sums, [x.float().sum() + i for i in range(120)], rtol=1e-4, atol=1e-4)
    command("policy", "--rows-are-subjects", name, "private")
    assert_same(own, [torch.tensor(float(i), dtype=F64) for i in range(120)])
    with pytest.raises(sojourn.Refused):
        sojourn.publish(sums[60] * 2)
    owner.close()


def test_gathering_that_fails_is_no_failure_of_a_step(seed):
    embedded = _sojourn.EmbeddedOwner()
    state = {"asked": 0, "failed": 0}

    def handle(request):
        state["asked"] += 1
        if (
            state["asked"] > 1 and state["failed"] < 2
        ):  # the step is answered, the message after it and its repetition not
            state["failed"] += 1
            raise sojourn.ConnectionLost("the cable is out")
        return embedded.handle(request)

    session = _sojourn.Session(handle, "far")
    device = torch.device("owner", session.index)
    _sojourn.set_gathering(32, MANY, 0)
    values, most = [], 0
    for i in range(148):
        state["asked"] = 0
        with sojourn.step():
            values.append(torch.full((), float(i)).to(device) + 1)
        most = max(most, session.counters()["live_handles"])
    assert state["failed"] == 2
    assert most <= 32 + 3 * MANY
    assert [v.item() for v in values] == [i + 1 for i in range(148)]
    session.close()


@pytest.mark.slow
def test_more_losses_than_an_owner_holds_values(seed):
    """140,000 live losses with the limits of the product."""
    _sojourn.set_gathering()
    owner = sojourn.local()
    step = sojourn.step(lambda x: (x * x).sum(), replay=True)
    x = torch.arange(3.0).to(owner.device)
    losses = []
    for _ in range(140_000):
        losses.append(step(x))
    assert live(owner) < 20_000
    assert torch.stack(losses[::1000]).tolist() == [5.0] * 140
    assert torch.stack(losses[5:3005]).sum().item() == 15_000
    del losses
    owner.close()
