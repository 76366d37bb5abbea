# SPDX-License-Identifier: Apache-2.0
"""What a script uses around its steps, on a group as on one owner: loops, reads, strict, explain, profiles."""

import subprocess
import sys
import warnings

import pytest
import torch
from parties_support import COLUMNS, close, columns, network, plain_step, trained
from torch import nn

import sojourn


@pytest.fixture
def data(rng):
    return [columns(rng.randrange(20, 50), rng) for _ in range(3)]


@pytest.fixture
def group(data):
    owners = [sojourn.local() for _ in data]
    for owner, table in zip(owners, data):
        owner.register("patients", table, policy="open")
    for owner in owners:
        owner.share("patients", [other for other in owners if other is not owner])
    with sojourn.parties(*owners) as group:
        yield group
    for owner in owners:
        owner.close()


def training(net, optimizer):
    def train(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return sojourn.publish(loss)

    return train


@pytest.mark.parametrize("per_trip", [1, 4, 50])
def test_a_loop_publishes_what_all_rows_give(group, data, rng, per_trip):
    seed, options = rng.randrange(1000), {"label": "relapse", "size": 20, "epochs": 4, "seed": rng.randrange(99)}
    found = []
    for table, device in (
        (group.rows("patients"), group.device),
        (sojourn.pooled(*(sojourn.plain(each, name="patients") for each in data)), torch.device("cpu")),
    ):
        net = network(seed).to(device)
        train = training(net, torch.optim.SGD(net.parameters(), lr=0.1))
        batches = table.batches(COLUMNS, **options)
        if device.type == "cpu":
            losses = [train(x, y) for x, y in batches]
        else:
            losses = [loss.value for loss in sojourn.loop(sojourn.step(train), batches, per_trip=per_trip)]
        found.append((torch.stack(list(map(torch.as_tensor, losses))).detach(), net.state_dict()))
    (losses, state), (expected, plain) = found
    close(losses, expected, 1e-4)
    for name, value in sojourn.publish(dict(state)).items():
        close(value, plain[name], 1e-4)


def test_reads_are_free_publishes_of_one_trip_to_each(group, data):
    age = group.rows("patients")["age"]
    group.session.flush()
    total = torch.cat([each["age"] for each in data])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = group.counters()["round_trips"]
        assert abs(float(age.mean()) - float(total.mean())) < 1e-5
        assert group.counters()["round_trips"] - before == 3
        close(torch.tensor(age.sum().item()), total.sum(), 1e-4)
        assert bool((age > 0).sum() > 2) == bool((total > 0).sum() > 2)
        assert torch.equal(torch.from_numpy(age.numpy()), total)
        close(torch.tensor((age * 2).tolist()), total * 2)
    with pytest.raises(sojourn.ValueNeeded, match="test_parties_surface.py"), sojourn.step():
        age.sum().item()


def test_strict_refuses_reads_alone(group, data, rng):
    table, seed = group.rows("patients"), rng.randrange(1000)
    with sojourn.strict():
        net, losses = trained(table, group.device, seed)
        with pytest.raises(sojourn.ValueNeeded, match="a value is read at .*test_parties_surface.py"):
            float(losses[-1])
        weights = sojourn.publish(net.state_dict())
    pooled = sojourn.pooled(*(sojourn.plain(each, name="patients") for each in data))
    expected, _ = trained(pooled, "cpu", seed, plain_step)
    for name, value in weights.items():
        close(value, expected.state_dict()[name], 1e-3)


def test_explain_names_the_line_that_compiles_again(group):
    age = group.rows("patients")["age"]
    sojourn.explain()  # what others compiled is told
    for count in (2, 3):
        with sojourn.step():
            total = torch.zeros(count).to(group.device) + age.sum()
        assert sojourn.publish(total).shape == (count,)
    text = sojourn.explain()
    assert "programs compiled" in text and "test_parties_surface.py" in text


def test_a_quote_is_free_and_a_failed_step_leaves_no_trace(group):
    weight = torch.ones(3).to(group.device)
    total = group.rows("patients")["age"].sum() * weight
    quote = sojourn.quote(total, epsilon=1.0)
    assert (quote.epsilon, quote.delta, quote.stderr, quote.noise) == (0, 0, 0, "none")
    with pytest.raises(ZeroDivisionError), sojourn.step():
        weight.zero_()
        raise ZeroDivisionError
    assert torch.equal(sojourn.publish(weight), torch.ones(3))


PROFILED = """
import sys
import torch
import sojourn

owners = [sojourn.local(profile=f"{sys.argv[1]}/{at}") for at in range(3)]
for owner in owners:
    owner.register("t", {"a": torch.randn(40)}, policy="open")
for owner in owners:
    owner.share("t", [other for other in owners if other is not owner])
table = sojourn.parties(*owners).rows("t")
for _ in range(3):
    sojourn.publish((table["a"].exp() * 2).mean())
"""


def test_each_member_profiles_its_part(tmp_path):
    subprocess.run([sys.executable, "-c", PROFILED, tmp_path], check=True, timeout=120)
    for at in range(3):
        texts = [path.read_text() for path in sorted((tmp_path / str(at)).glob("plan-*.txt"))]
        assert len(texts) == 2 and all(": 3 runs, " in text for text in texts), texts  # before and after the exchange
        assert sum("read_rows" in text for text in texts) == 1
        assert (tmp_path / str(at) / "trace.json").exists()


def test_the_logs_of_all_members_as_one_list(group):
    table, alice = group.rows("patients"), group.owners[0]
    assert group.programs() == []
    for _ in range(3):
        table["age"].sum().item()
    (table["age"] * 2).cpu()
    alice.dataset("patients")["dose"].sum().item()  # at one member alone
    with sojourn.parties(*group.owners[:2]) as pair:
        pair.rows("patients")["dose"].sum().item()
        assert [len(each["runs"]) for each in pair.programs()] == [2]
    found = group.programs()
    assert [(set(each), each["runs"]) for each in found] == [
        ({"hash", "client", "ops", "runs"}, [3, 3, 3]),
        ({"hash", "client", "ops", "runs"}, [1, 1, 1]),
    ]
    logs = [{each["hash"]: each["ops"] for each in owner.programs()} for owner in group.owners]
    for each in found:
        assert all(log[each["hash"]] == each["ops"] for log in logs)
    texts = [each["text"] for each in group.programs(with_text=True)]
    assert "// exchange 0, sums over roles 0, 1 and 2: tensor<f32> (" in texts[0]
    assert all("test_parties_surface.py" in text and "parts: " in text for text in texts)
