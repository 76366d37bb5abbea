# SPDX-License-Identifier: Apache-2.0
"""Steps that nobody declared and no optimizer ends, what is left when a private run fails, and files that are loaded
onto an owner."""

import gc
import io

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from private_support import make_table
from torch import nn

import sojourn


@pytest.fixture
def owner(runtime="native"):
    with sojourn.local() as owner:
        yield owner


def test_weights_that_are_updated_by_hand(owner, seed):
    """More ops than an owner takes in one program, and no optimizer: sent in parts that are alike."""
    x, y = torch.randn(16, 5), torch.randint(0, 3, (16,))
    model = nn.Linear(5, 3)
    copy = nn.Linear(5, 3)
    copy.load_state_dict(model.state_dict())
    model.to(owner.device)

    def train(model, x, y, steps):
        for _ in range(steps):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.01 * p.grad
                    p.grad = None
        return loss.item()

    before = sojourn.counters()["programs_compiled"]
    ours, theirs = train(model, x.to(owner.device), y.to(owner.device), 1500), train(copy, x, y, 1500)
    assert ours == pytest.approx(theirs, rel=1e-3)
    torch.testing.assert_close(model.weight.detach().cpu(), copy.weight.detach(), rtol=1e-3, atol=1e-4)
    assert sojourn.counters()["programs_compiled"] - before <= 5, "its parts are alike"


def test_weights_that_are_made_at_the_owner(owner, seed):
    """What is recorded before the loop does not come again; the loop does."""
    d = owner.device
    x, y = torch.randn(32, 8).to(d), torch.randint(0, 3, (32,)).to(d)
    w, v = ((torch.randn(*shape, device=d) * 0.1).requires_grad_() for shape in ((8, 16), (16, 3)))
    losses = []
    for i in range(2500):
        loss = F.cross_entropy(F.layer_norm(F.gelu(x @ w), (16,)) @ v, y)
        loss.backward()
        with torch.no_grad():
            for p in (w, v):
                p -= 0.1 * p.grad
                p.grad = None
        if i in (0, 2499):
            losses.append(loss.detach())
    first, last = (loss.item() for loss in losses)
    assert last < first / 2


def test_a_read_beside_work_at_two_owners(seed):
    """A read does not send what is open while it holds what sending needs."""
    with sojourn.local() as first, sojourn.local() as second:
        u, s = torch.ones(3).to(first.device), torch.ones(()).to(second.device)
        kept = u * 2

        def call(function, *arguments):
            return function(*arguments)

        w = call(torch.mul, s, 2.0)
        for _ in range(4200):
            w = w + 1.0
        assert call(torch.Tensor.item, w) == 4202
        assert kept.tolist() == [2, 2, 2]


def test_a_recurrence_without_end(owner, seed):
    h, w = torch.randn(4, 4), torch.randn(4, 4) / 4
    ours, there = h.to(owner.device), w.to(owner.device)
    for _ in range(20_000):
        ours = torch.tanh(ours @ there + 1)
    for _ in range(20_000):
        h = torch.tanh(h @ w + 1)
    torch.testing.assert_close(ours.cpu(), h, rtol=1e-4, atol=1e-4)


def test_counters_never_fall_when_a_connection_ends():
    """A difference of two counts holds whatever is collected in between."""
    with sojourn.local() as owner:
        x = torch.ones(3).to(owner.device)
        assert (x + 1).tolist() == [2, 2, 2]
        own, before = owner.counters(), sojourn.counters()
        assert own["steps"] >= 1 and own["round_trips"] >= 1 and own["live_handles"] >= 1
    del owner, x
    gc.collect()
    after = sojourn.counters()
    assert all(after[name] >= count for name, count in before.items() if name != "live_handles"), (before, after)
    assert after["live_handles"] <= before["live_handles"] - own["live_handles"]


def test_batches_that_nobody_reads(owner, seed):
    """Predictions over many uploads do not wait for each other without bound."""
    model = nn.Linear(8, 3)
    batches = [torch.randn(6, 8) for _ in range(1300)]
    wanted = torch.cat([model(x).argmax(1) for x in batches])
    model.to(owner.device)
    before = sojourn.counters()["steps"]
    with torch.no_grad():
        found = [model(x.to(owner.device)).argmax(1) for x in batches]
    assert sojourn.counters()["steps"] - before >= 2
    assert torch.equal(torch.cat(found).cpu(), wanted)


def test_a_private_run_that_fails_spends_its_own_budget(owner, seed):
    """What its last step left pending belongs to it, not to whoever reads next."""
    n = 200
    columns = {"a": torch.randn(n).clamp(-3, 3), "b": torch.randn(n).clamp(-3, 3), "y": torch.randint(0, 2, (n,))}
    bounds = {"a": (-3.0, 3.0), "b": (-3.0, 3.0), "y": (0, 1)}
    table = owner.register("people", columns, policy="private", bounds=bounds)
    owner.grant("people", epsilon=40, delta=1e-5)
    model = nn.Linear(2, 2).to(owner.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(KeyError):
        with sojourn.privacy(table, epsilon=0.5, delta=1e-5, clip=1.0):
            for i, (x, y) in enumerate(table.batches(["a", "b"], label="y", size=20, epochs=1)):
                optimizer.zero_grad()
                F.cross_entropy(model(table.scaled(x)), y).backward()
                optimizer.step()
                if i == 3:
                    raise KeyError
    spent = owner.budget("people").epsilon_left
    assert 40 - spent <= 0.5 + 1e-9
    model.weight.sum().item()
    assert owner.budget("people").epsilon_left == spent


def test_loads_onto_an_owner(owner, seed):
    device = owner.device
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3, bias=False))
    model[2].weight = nn.Parameter(model[0].weight.detach().t().contiguous())
    state = model.state_dict()
    shared = torch.randn(6)
    for saved in (state, {"state": state, "epoch": 3, "views": [shared[:4], shared[2:]], "half": shared.half()}):
        for location in (device, str(device), {"cpu": str(device)}, lambda storage, _: storage):
            file = io.BytesIO()
            torch.save(saved, file)
            file.seek(0)
            found = torch.load(file, map_location=location)
            here, there = (torch.utils._pytree.tree_leaves(tree) for tree in (saved, found))
            for mine, theirs in zip(there, here, strict=True):
                if isinstance(theirs, torch.Tensor):
                    assert callable(location) or mine.device == device
                    assert mine.stride() == theirs.stride() and torch.equal(mine.cpu(), theirs)
                else:
                    assert mine == theirs
    there = torch.load(_file([shared[:4], shared[2:]]), map_location=device)
    there[0].zero_()
    assert there[1][:2].tolist() == [0, 0] and there[1][2] == shared[4], "what shares memory goes on sharing it"
    whole = torch.load(_file(model), map_location=device, weights_only=False)
    x = torch.randn(5, 3)
    torch.testing.assert_close(whole(x.to(device)).cpu(), model(x))


def _file(tree):
    file = io.BytesIO()
    torch.save(tree, file)
    file.seek(0)
    return file


def test_there_is_no_storage(owner):
    for call in (
        lambda: torch.UntypedStorage(16, device=owner.device),
        lambda: torch.TypedStorage(4, device=owner.device),
    ):
        with pytest.raises((sojourn.Unsupported, RuntimeError), match="storage"):
            call()


def test_owners_that_are_connected():
    first = sojourn.local()
    assert first.device.type == "owner"
    before = torch.owner.device_count()
    second = sojourn.local()
    assert second.device.type == "owner" and torch.owner.device_count() == before + 1
    second.close()
    assert torch.owner.device_count() == before
    first.close()


def test_weights_that_are_registered_anew(owner, seed):
    """Parametrizations point a parameter to another memory (set_)."""
    device = owner.device
    layer = nn.utils.parametrizations.orthogonal(nn.Linear(4, 4).to(device))
    weight = layer.weight.detach().cpu()
    torch.testing.assert_close(weight @ weight.mT, torch.eye(4), rtol=0, atol=1e-5)
    here, there = nn.Linear(4, 3), nn.Linear(4, 3)
    there.load_state_dict(here.state_dict())
    torch.manual_seed(3)
    here = nn.utils.parametrizations.spectral_norm(here, n_power_iterations=20)
    there.to(device)
    there = nn.utils.parametrizations.spectral_norm(there, n_power_iterations=20)
    x = torch.randn(5, 4)
    for _ in range(5):
        wanted, found = here(x), there(x.to(device))
    torch.testing.assert_close(found.detach().cpu(), wanted.detach(), rtol=1e-3, atol=1e-3)
    nn.utils.parametrize.remove_parametrizations(there, "weight")
    assert isinstance(there.weight, nn.Parameter) and there.weight.device == device
    with torch.no_grad():
        layer.weight = torch.eye(4, device=device)
    torch.testing.assert_close(layer.weight.detach().cpu(), torch.eye(4), rtol=0, atol=1e-5)
    with pytest.raises(RuntimeError, match="Could not set tensor of type"):
        torch.zeros(2, device=device).set_(torch.zeros(2, dtype=torch.float64, device=device))
    with sojourn.local() as other, pytest.raises(sojourn.Unsupported, match="move that tensor first"):
        torch.zeros(2, device=device).set_(torch.ones(2, device=other.device))
    x = torch.zeros(2, device=device)
    assert x.set_(torch.ones(3, 2, device=device)[1:]).tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 0, 1), (0, 0, 0, 0, 1), (2, 1, 2, 1)], ids=str)
@pytest.mark.parametrize("keeps", [True, False])
def test_several_optimizers_on_one_private_batch_are_one_step(seed, recwarn, order, keeps):
    """However many, and however often each: the rows stay with all updates that they make, which share the price of the
    draw."""
    rng = np.random.default_rng(seed)
    columns = {name: rng.random(400, dtype=np.float32) for name in ("x", "y")}
    with sojourn.local() as owner:
        table = make_table(owner, columns, {"x": (0, 1), "y": (0, 1)})
        with sojourn.privacy(table, epsilon=4.0, delta=1e-5, epochs=1) as run:
            models = [nn.Linear(1, 1).to(owner.device) for _ in range(3)]
            optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
            before, batches = owner.counters()["steps"], 0
            for x, y in table.batches(["x"], label="y", size=50, epochs=1):
                batches += 1
                for which in order:
                    optimizer = optimizers[which] if keeps else torch.optim.SGD(models[which].parameters(), lr=0.1)
                    optimizer.zero_grad()
                    F.mse_loss(models[which](x)[:, 0], y).backward()
                    optimizer.step()
                    del optimizer
            sojourn.flush()
            assert owner.counters()["steps"] - before == batches == run.taken
        for model in models:  # which may not leave where an update was made without noise
            assert model.weight.detach().cpu().isfinite().all()
    assert not [str(w.message) for w in recwarn if "may not leave" in str(w.message)]


def test_a_mask_is_not_read_between_a_private_batch_and_its_update(seed):
    rng = np.random.default_rng(seed)
    columns = {name: rng.random(400, dtype=np.float32) for name in ("x", "y")}
    with sojourn.local() as owner:
        table = make_table(owner, columns, {"x": (0, 1), "y": (0, 1)})
        x = next(iter(table.batches(["x"], label="y", size=50)))[0]
        mask = torch.rand(x.shape[0], device=owner.device) > 0.5
        with pytest.raises(sojourn.ValueNeeded, match="torch.where"):
            x[mask]
