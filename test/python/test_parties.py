# SPDX-License-Identifier: Apache-2.0
"""Groups of owners: steps over the tables of several owners, compared with plain PyTorch on all rows."""

import re
import threading

import pytest
import torch
from parties_support import COLUMNS, close, made_hospitals, network, plain_step, trained
from torch import nn

import sojourn


@pytest.fixture
def hospitals(rng):
    yield from made_hospitals(rng, range(20, 60))


@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.SGD])
def test_a_model_trains_as_on_all_rows(hospitals, rng, make):
    three, seed = hospitals(), rng.randrange(1000)
    net, losses = trained(three.table, three.parties.device, seed, make=make)
    expected, plain_losses = trained(three.pooled, "cpu", seed, plain_step, make=make)
    for name, value in sojourn.publish(net.state_dict()).items():
        close(value, expected.state_dict()[name], 2e-4)
    close(torch.stack([sojourn.publish(loss) for loss in losses]), torch.stack(plain_losses).detach(), 2e-4)


def test_a_step_is_one_message_to_each_owner(hospitals, rng):
    three = hospitals(48, 48, 48)
    before = three.parties.counters()
    _, losses = trained(three.table, three.parties.device, rng.randrange(1000))
    after = three.parties.counters()
    assert after["round_trips"] - before["round_trips"] == 3 * len(losses)
    assert after["programs_compiled"] - before["programs_compiled"] <= 3


def test_a_batch_normalization_sees_all_rows(hospitals, rng):
    three, seed = hospitals(), rng.randrange(1000)

    def model(seed):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(3, 6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 2))

    net, _ = trained(three.table, three.parties.device, seed, model=model, drop=True)
    expected, _ = trained(three.pooled, "cpu", seed, plain_step, model=model, drop=True)
    for name, value in sojourn.publish(net.state_dict()).items():
        close(value, expected.state_dict()[name], 5e-4)


def test_images_train_a_convolution(hospitals, rng):
    three, seed = hospitals(30, 21), rng.randrange(1000)

    def run(table, device):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2)).to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in table.batches("image", label="relapse", size=17, epochs=2, seed=seed):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[:, None].float() / 255), y).backward()
            optimizer.step()
        return net.state_dict()

    expected = run(three.pooled, "cpu")
    for name, value in run(three.table, three.parties.device).items():
        close(value.cpu(), expected[name], 1e-4)


@pytest.mark.parametrize("replays", [True, False])
def test_loops_and_replays_give_the_same(hospitals, rng, replays):
    three, seed = hospitals(40, 24, 32), rng.randrange(1000)
    steps = sojourn.step(replay=True) if replays else sojourn.step(replay=False)
    net, losses = trained(three.table, three.parties.device, seed, steps, epochs=6)
    expected, plain_losses = trained(three.pooled, "cpu", seed, plain_step, epochs=6)
    close(torch.stack([sojourn.publish(loss) for loss in losses]), torch.stack(plain_losses).detach(), 1e-3)
    for name, value in sojourn.publish(net.state_dict()).items():
        close(value, expected.state_dict()[name], 1e-3)


def test_several_steps_travel_in_one_message(hospitals, rng):
    three, seed = hospitals(48, 24), rng.randrange(1000)
    net = network(seed).to(three.parties.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    @sojourn.step
    def train(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    before = three.parties.counters()["round_trips"]
    batches = three.table.batches(COLUMNS, label="relapse", size=24, epochs=5, seed=seed)
    sojourn.loop(train, batches, per_trip=5)
    trips = three.parties.counters()["round_trips"] - before
    assert trips < 15, "less than one trip to each owner for two steps"
    reference = network(seed)
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    for x, y in three.pooled.batches(COLUMNS, label="relapse", size=24, epochs=5, seed=seed):
        optimizer.zero_grad()
        nn.functional.cross_entropy(reference(x), y).backward()
        optimizer.step()
    for name, value in sojourn.publish(net.state_dict()).items():
        close(value, reference.state_dict()[name], 1e-3)


def test_statistics_and_columns_are_those_of_all_rows(hospitals):
    three = hospitals()
    age = three.table["age"]
    close(sojourn.publish(age.mean()), three.all("age").mean())
    close(sojourn.publish(age.var(unbiased=False)), three.all("age").var(unbiased=False), 1e-4)
    assert sojourn.publish((age > 1).sum()) == (three.all("age") > 1).sum()
    values = three.table.rows(["age", "dose"])
    close(sojourn.publish(values), torch.stack([three.all("age"), three.all("dose")], 1))
    close(sojourn.publish(values.t() * 2), 2 * torch.stack([three.all("age"), three.all("dose")]))
    close(values[:, 1].cpu(), three.all("dose"))
    assert torch.equal(three.table["image"].cpu(), three.all("image"))
    scaled = three.table.scaled(three.table.rows(["age", "dose"]))
    close(scaled.cpu(), three.pooled.scaled(three.pooled.rows(["age", "dose"])))


def test_values_say_where_they_are(hospitals):
    three = hospitals()
    parties = three.parties
    age = three.table["age"] * 1
    mean = age.mean()
    weight = torch.ones(3).to(parties.device)
    assert parties.where(weight) == "copies at all members"
    parties.session.flush()
    assert parties.where(age) == "a part at each of local, local, local"
    assert parties.where(mean) == "copies at all members"
    with sojourn.step():
        shown = repr(age)
    assert "a part at each of local, local, local" in shown
    one = hospitals(9, 12).parties.rows("patients").split(0.5)[0]
    first = one.rows("age")[:2] * 1
    one.session.flush()
    assert sojourn.parties.__module__ == "sojourn.parties"
    assert "at local" in repr(first) or "tensor(" in repr(first)


def test_splits_are_those_of_each_table(hospitals, rng):
    three, seed = hospitals(), rng.randrange(1000)
    for remote, plain in zip(three.table.split(0.7, seed), three.pooled.split(0.7, seed)):
        assert len(remote) == len(plain)
        close(remote["age"].cpu(), plain["age"])
        for (x, y), (expected, label) in zip(
            remote.batches(COLUMNS, label="relapse", size=10, seed=seed),
            plain.batches(COLUMNS, label="relapse", size=10, seed=seed),
        ):
            close(x.cpu(), expected)
            assert torch.equal(y.cpu(), label)


@pytest.mark.parametrize("shuffle", [True, False])
def test_each_row_is_in_one_batch(rng, shuffle):
    for _ in range(30):
        rows = [rng.choice([1, 2, rng.randrange(1, 40), rng.randrange(1, 400)]) for _ in range(rng.randrange(2, 6))]
        numbers = torch.arange(sum(rows)).split(rows)
        table = sojourn.pooled(*(sojourn.plain({"row": part}, name="t") for part in numbers))
        size = rng.randrange(1, 80)
        batches = list(table.batches("row", size=size, shuffle=shuffle, seed=rng.randrange(99)))
        assert [len(batch) for batch in batches[:-1]] == [size] * (len(batches) - 1)
        assert torch.equal(torch.cat(batches).sort().values, torch.arange(sum(rows))), (rows, size)
        bounds = [0]
        for count in rows:
            bounds.append(bounds[-1] + count)
        shares = {
            tuple(int(((batch >= low) & (batch < high)).sum()) for low, high in zip(bounds, bounds[1:]))
            for batch in batches
        }
        assert len(shares) <= 2 * len(rows) + 2, (rows, size, shares)  # few kinds of batches, so few programs
        quotas = [size * count / sum(rows) for count in rows]
        first = [int(((batches[0] >= low) & (batches[0] < high)).sum()) for low, high in zip(bounds, bounds[1:])]
        if sum(rows) >= size:
            assert all(abs(share - quota) < 1 for share, quota in zip(first, quotas)), (rows, size, first)


def test_a_table_that_is_not_shared_is_refused(hospitals):
    three = hospitals(share=None)
    told = r"does not share it with member 1 .*owner.share\('patients'"
    with pytest.raises(sojourn.Refused, match=told):
        sojourn.publish(three.table["age"].mean())
    values = sojourn.publish(three.table["age"] * 2)  # nobody else sees them
    close(values, 2 * three.all("age"))
    three.share("clear")
    close(sojourn.publish(three.table["age"].mean()), three.all("age").mean())
    three.owners[1].share("patients", [three.owners[2]], "none")
    with pytest.raises(sojourn.Refused, match="at local: .*does not share it with member 2"):
        sojourn.publish(three.table["age"].mean())


def test_a_step_is_committed_by_all_or_by_none(hospitals, rng):
    three, seed = hospitals(30, 30, 30), rng.randrange(1000)
    net = network(seed).to(three.parties.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    @sojourn.step
    def train(x, y):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()

    batches = iter(three.table.batches(COLUMNS, label="relapse", size=30, epochs=4, seed=seed))
    train(*next(batches))
    before = sojourn.publish(net.state_dict())
    three.owners[2].share("patients", three.owners[:2], "none")
    with pytest.raises(sojourn.Refused, match="does not share it with"):
        train(*next(batches))
    for name, value in sojourn.publish(net.state_dict()).items():
        assert torch.equal(value, before[name]), name
    three.owners[2].share("patients", three.owners[:2], "clear")
    train(*next(batches))
    assert any(not torch.equal(value, before[name]) for name, value in sojourn.publish(net.state_dict()).items())


@pytest.mark.parametrize(
    "compute, reason",
    [
        (lambda x: x.median(), "median|sort|owners can only add up sums over rows"),
        (lambda x: x.sort().values, "owners can only add up sums over rows"),
        (lambda x: x.cumsum(0), "owners can only add up sums over rows"),
        (lambda x: x.flip(0), "owners can only add up sums over rows"),
        (lambda x: x.max(), "owners can only add up sums over rows"),
    ],
)
def test_what_is_no_sum_over_rows_is_refused_with_its_line(hospitals, compute, reason):
    three = hospitals()
    with pytest.raises(sojourn.Unsupported, match=reason) as refused:
        sojourn.publish(compute(three.table["age"]))
    assert "test_parties.py" in str(refused.value)
    close(sojourn.publish(three.table["age"].sum()), three.all("age").sum(), 1e-4)  # the group goes on


def test_groups_that_cannot_be(hospitals, rng):
    alice, bob = sojourn.local(), sojourn.local()
    with pytest.raises(sojourn.Error, match="2 to 16 owners, got 1"):
        sojourn.parties(alice)
    with pytest.raises(sojourn.Error, match="more than once"):
        sojourn.parties(alice, bob, alice)
    with pytest.raises(sojourn.Error, match="2 to 16 owners, got 17"):
        sojourn.parties(*[alice] * 17)
    with pytest.raises(sojourn.Unsupported, match="takes part in no groups"):
        sojourn.parties(alice, sojourn.local(runtime="numpy"))
    alice.register("t", {"a": torch.ones(3)}, policy="open")
    bob.register("t", {"b": torch.ones(3)}, policy="open")
    bob.register("hidden", {"a": torch.ones(3)}, policy="private", bounds={"a": (0, 2)})
    both = sojourn.parties(alice, bob)
    with pytest.raises(sojourn.Error, match="same columns; 't' has a float32, and 't' has b float32"):
        both.rows("t")
    with pytest.raises(sojourn.Refused, match="'hidden' is private"):
        both.rows(alice.dataset("t"), bob.dataset("hidden"))
    with pytest.raises(sojourn.Error, match="expected a table at local; give one table of each member"):
        both.rows(alice.dataset("t"), alice.dataset("t"))
    with pytest.raises(sojourn.Error, match="has no dataset 'none'"):
        both.rows("none")
    with pytest.raises(sojourn.Error, match="is a part of a table"):
        both.rows(alice.dataset("t").split(0.5)[0], bob.dataset("hidden"))


def test_two_owners_without_a_group_are_told_of_one(owner):
    other = sojourn.local()
    with pytest.raises(sojourn.Error, match=re.escape("parties = sojourn.parties(a, b)")):
        torch.ones(2).to(owner.device) + torch.ones(2).to(other.device)


def test_a_member_that_leaves_ends_the_group(hospitals):
    three = hospitals()
    weight = torch.ones(2).to(three.parties.device)
    three.parties.session.flush()
    group = sojourn.parties(*three.owners)
    table = group.rows("patients")
    close(sojourn.publish(table["age"].mean()), three.all("age").mean())
    three.owners.pop().close()
    del weight


def test_threads_train_over_groups_at_once(hospitals, rng):
    """Steps of groups whose members begin them in different orders."""
    groups = [hospitals(20, 16), hospitals(12, 18, 9)]
    shared = groups[0].owners
    third = sojourn.parties(*reversed(shared))
    seed = rng.randrange(1000)
    tables = [
        (groups[0].table, groups[0].parties, groups[0].pooled),
        (groups[1].table, groups[1].parties, groups[1].pooled),
        (third.rows("patients"), third, sojourn.pooled(*[
            sojourn.plain(data, name="patients", bounds={"age": (-9, 9), "dose": (-20, 9)})
            for data in reversed(groups[0].data)
        ])),
    ]  # fmt: skip
    failures = []
    models = [(network(seed), network(seed)) for _ in tables]

    def run(table, parties, pooled, models):
        try:
            options = {"make": torch.optim.SGD, "epochs": 4, "size": 8}
            net, _ = trained(table, parties.device, seed, model=models[0], **options)
            values = sojourn.publish(net.state_dict())
            expected, _ = trained(pooled, "cpu", seed, plain_step, model=models[1], **options)
            for name, value in values.items():
                close(value, expected.state_dict()[name], 1e-3)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=[*each, pair]) for each, pair in zip(tables, models)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_tensors_of_members_join_their_group(hospitals, rng):
    three = hospitals(12, 9, 15)
    parties = three.parties
    own = [owner.dataset("patients")["age"] * 2 for owner in three.owners]
    joined = [tensor.to(parties.device) for tensor in own]
    assert [parties.where(tensor) for tensor in joined] == ["at local"] * 3
    close(sojourn.publish(torch.cat(joined)), 2 * three.all("age"))
    close(sojourn.publish(torch.cat(joined).mean()), 2 * three.all("age").mean())
    means = torch.stack([tensor.mean() for tensor in joined])
    close(sojourn.publish(means), torch.stack([2 * table["age"].mean() for table in three.data]))
    close(sojourn.publish(means.sum()), sum(2 * table["age"].mean() for table in three.data))
    weight = torch.tensor(rng.random()).to(parties.device)
    expected = 2 * three.data[1]["age"] * weight.cpu()
    close(sojourn.publish(own[1] * weight), expected)  # meets one of the group
    close(sojourn.publish(torch.cat([own[0], own[2][3:].flip(0), joined[1]])), 2 * torch.cat(
        [three.data[0]["age"], three.data[2]["age"][3:].flip(0), three.data[1]["age"]]))  # fmt: skip
    before = own[0][:3].to(parties.device)
    own[0].zero_()
    assert sojourn.publish(own[0]).abs().sum() == 0
    close(sojourn.publish(before), 2 * three.data[0]["age"][:3])  # what it was


def test_joins_that_are_refused(hospitals, owner):
    three = hospitals(8, 8)
    age = three.owners[0].dataset("patients")["age"]
    group = torch.ones(8).to(three.parties.device)
    with pytest.raises(sojourn.Error, match="compute it in a step before this one"), sojourn.step():
        (age * 2).to(three.parties.device)
    with pytest.raises(sojourn.Error, match=re.escape("move it to the group first: tensor.to(parties.device)")):
        torch.ones(8, device=three.owners[0].device, requires_grad=True) * group
    with pytest.raises(sojourn.Error, match=re.escape("parties = sojourn.parties(a, b)")):
        torch.ones(8).to(owner.device) + group
    hidden = sojourn.local()
    hidden.register("p", {"a": torch.ones(8)}, policy="private", bounds={"a": (0, 2)})
    other = sojourn.parties(hidden, three.owners[0])
    with pytest.raises(sojourn.Refused, match="read from a private table"):
        hidden.dataset("p")["a"].to(other.device)
    with sojourn.step():
        computed = hidden.dataset("p")["a"] * 2
    with pytest.raises(sojourn.Refused, match="dataset 'p' is private"):
        sojourn.publish(computed.to(other.device).sum())
    other.close()
    hidden.close()


def test_federated_averaging(hospitals, rng):
    """Copies of a model trained at each owner for some steps, then the mean of their weights by rows."""
    three, seed = hospitals(24, 12, 36), rng.randrange(1000)
    nets = [
        trained(owner.dataset("patients"), owner.device, seed, make=torch.optim.SGD, size=12)[0]
        for owner in three.owners
    ]
    plain = [
        trained(sojourn.plain(data, name="p"), "cpu", seed, plain_step, make=torch.optim.SGD, size=12)[0]
        for data in three.data
    ]
    model = network(seed + 1).to(three.parties.device)
    before = three.parties.counters()["steps"]
    sojourn.average(model, dict(zip(three.owners, nets)), weights=dict(zip(three.owners, [24, 12, 36])))
    assert three.parties.counters()["steps"] == before + 1
    for name, value in sojourn.publish(model.state_dict()).items():
        close(value, sum(net.state_dict()[name] * share for net, share in zip(plain, [2 / 6, 1 / 6, 3 / 6])), 1e-3)
    sojourn.average(model, dict(zip(three.owners[:2], nets)))
    for name, value in sojourn.publish(model.state_dict()).items():
        close(value, (plain[0].state_dict()[name] + plain[1].state_dict()[name]) / 2, 1e-3)


class Sequences(nn.Module):
    """A recurrent network, or attention, over the rows of an image as steps of a sequence."""

    def __init__(self, kind):
        super().__init__()
        if kind == "lstm":
            self.inner = nn.LSTM(4, 6, batch_first=True)
        else:
            self.inner = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
        self.outer = nn.Linear(6 if kind == "lstm" else 4, 2)

    def forward(self, x):
        found = self.inner(x)
        return self.outer((found[0] if isinstance(found, tuple) else found).mean(1))


NETWORKS = {
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.GELU(), nn.Linear(12, 2)),
    "cnn": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 4)), nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16, 2),
    ),
    "lstm": lambda: Sequences("lstm"),
    "transformer": lambda: Sequences("transformer"),
}  # fmt: skip
OPTIMIZERS = {
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, amsgrad=True),
}


#: Each network and optimizer with uneven shares, and two of them with others.
SHARES = [
    *((kind, optimizer, rows) for kind in NETWORKS for optimizer in OPTIMIZERS for rows in [(24, 2, 30), (7, 49)]),
    *((*each, rows) for each in [("cnn", "momentum"), ("lstm", "adam")] for rows in [(30, 30), (12, 20, 8, 16, 10)]),
]


@pytest.mark.parametrize("kind, optimizer, rows", SHARES, ids=str)
def test_networks_of_many_kinds_train_as_on_all_rows(hospitals, rng, kind, optimizer, rows):
    """20 steps in float64: parameters, buffers, state of the optimizer and losses."""
    several, seed = hospitals(*rows), rng.randrange(1000)

    def run(table, device):
        torch.manual_seed(seed)
        net = NETWORKS[kind]().double().to(device)
        stepping = OPTIMIZERS[optimizer](net.parameters())
        losses = []
        batches = table.batches("image", label="relapse", size=16, epochs=9, seed=seed, drop_last=True)
        for (x, y), _ in zip(batches, range(20)):
            stepping.zero_grad()
            loss = nn.functional.cross_entropy(net(x.double() / 255), y)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            stepping.step()
            losses.append(loss.detach())
        state = {
            f"{name} {at}": value
            for at, each in enumerate(stepping.state.values())
            for name, value in each.items()
            if isinstance(value, torch.Tensor)
        }
        return {name: value.cpu() for name, value in (net.state_dict() | state).items()}, torch.stack(losses).cpu()

    (found, losses), (expected, plain) = run(several.table, several.parties.device), run(several.pooled, "cpu")
    torch.testing.assert_close(losses, plain, rtol=1e-11, atol=1e-11)
    assert found.keys() == expected.keys()
    for name, value in found.items():
        torch.testing.assert_close(
            value, expected[name], rtol=1e-8, atol=1e-10, msg=lambda text, name=name: name + text
        )


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
@pytest.mark.parametrize("steps", [sojourn.step, sojourn.step(replay=True), None], ids=["step", "replay", "undeclared"])
def test_the_first_batches_may_lie_at_one_member(hospitals, rng, make, steps):
    """A large table beside small ones: weights and optimizer are made in steps on rows of one member."""
    three, seed = hospitals(200, 3, 2), rng.randrange(1000)

    def linear(seed):
        torch.manual_seed(seed)
        return nn.Linear(3, 2)

    options = {"make": make, "size": 16, "model": linear}
    net, losses = trained(three.table, three.parties.device, seed, steps or plain_step, **options)
    expected, plain = trained(three.pooled, "cpu", seed, plain_step, **options)
    assert three.parties.where(losses[0]) == "copies at all members"
    close(torch.stack([sojourn.publish(loss) for loss in losses]), torch.stack(plain).detach(), 1e-4)
    for name, value in sojourn.publish(net.state_dict()).items():
        close(value, expected.state_dict()[name], 1e-4)


def test_sums_of_three_members_are_known_to_all(hospitals):
    three = hospitals(9, 12, 15)
    parties = three.parties
    means = [owner.dataset("patients")["age"].mean().to(parties.device) for owner in three.owners]
    total = means[0] + means[1] - means[2]
    close(sojourn.publish(three.table["age"] - total), three.all("age") - sum(
        sign * table["age"].mean() for sign, table in zip((1, 1, -1), three.data)))  # fmt: skip
    assert parties.where(total) == "copies at all members"


def test_tensors_in_parts_are_overwritten(hospitals, rng):
    three = hospitals(9, 12, 15)
    parties = three.parties
    age = three.table["age"] * 1
    parties.session.flush()
    values = torch.arange(36.0)
    age.copy_(values)
    assert torch.equal(sojourn.publish(age), values)
    assert parties.where(age) == "a part at each of local, local, local"
    age.zero_()
    assert sojourn.publish(age).abs().sum() == 0
    flags = torch.zeros(2, dtype=torch.bool).to(parties.device)
    parties.session.flush()
    own = three.owners[1].dataset("patients")["age"][:2].to(parties.device)
    with sojourn.step():
        flags.logical_or_(own > 0)
    assert torch.equal(sojourn.publish(flags), three.data[1]["age"][:2] > 0)
    assert parties.where(flags) == "copies at all members"
