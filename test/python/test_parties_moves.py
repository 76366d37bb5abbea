# SPDX-License-Identifier: Apache-2.0
"""Tensors that move between a group and its members, and between members: values, gradients, refusals."""

import copy

import pytest
import torch
from parties_support import close, made_hospitals, network, trained
from torch import nn

import sojourn


@pytest.fixture
def hospitals(rng):
    yield from made_hospitals(rng, range(20, 40))


def test_a_copy_is_at_each_member_already(hospitals, rng):
    three = hospitals()
    mean = three.table["age"].mean() * torch.arange(5.0).to(three.parties.device)
    sojourn.flush()
    before = three.parties.counters()
    there = [mean.to(owner.device) for owner in three.owners]
    after = three.parties.counters()
    assert after["round_trips"] == before["round_trips"] and after["steps"] == before["steps"]
    expected = three.all("age").mean() * torch.arange(5.0)
    for owner, value in zip(three.owners, there):
        assert value.device == owner.device
        close(value.cpu(), expected)
    own = there[1] * 2 + three.owners[1].dataset("patients")["age"][0]
    close(own.cpu(), expected * 2 + three.data[1]["age"][0])
    there[0].zero_()
    close(mean.cpu(), expected)  # later writes do not show in the other
    mean.zero_()
    close(there[1].cpu(), expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: torch.randn(3, 4),
        lambda rng: torch.tensor([-0.0, 0.0, float("nan"), -float("inf"), 1e-42]),
        lambda rng: torch.randn(6, dtype=torch.float64),
        lambda rng: torch.randint(-(2**62), 2**62, (7,)),
        lambda rng: torch.rand(9) > 0.5,
        lambda rng: torch.randn(4, dtype=torch.complex64),
        lambda rng: torch.randn(5).bfloat16(),
        lambda rng: torch.randint(0, 255, (3, 3), dtype=torch.uint8),
        lambda rng: torch.zeros(0, 3),
        lambda rng: torch.tensor(2.5),
        lambda rng: torch.randn(4, 6).t()[1:5:2],
    ],
)
def test_values_move_from_owner_to_owner(hospitals, rng, seed, make):
    torch.manual_seed(seed)
    two, value = hospitals(20, 20), make(rng)
    alice, bob = two.owners
    at_alice = value.to(alice.device)
    sojourn.flush()
    at_bob = at_alice.to(bob.device)
    assert at_bob.device == bob.device and at_bob.dtype == value.dtype and at_bob.stride() == at_alice.stride()
    found = at_bob.cpu()
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}.get(value.element_size())
    if value.is_floating_point():  # to the bit: signs of zeros, denormal numbers
        assert torch.equal(found.contiguous().view(integers), value.contiguous().view(integers))
    torch.testing.assert_close(found, value, rtol=0, atol=0, equal_nan=True)


def test_rows_of_one_owner_move_without_this_process(hospitals):
    two = hospitals(4_000, 20)
    alice, bob = two.owners
    age = alice.dataset("patients")["age"] * 1
    sojourn.flush()
    before = [owner.counters() for owner in (alice, bob, two.parties)]
    there = age.to(bob.device)
    total = (there * 2).sum()
    sojourn.flush()
    after = [owner.counters() for owner in (alice, bob, two.parties)]
    for then, now in zip(before, after):
        assert now["bytes_up"] - then["bytes_up"] < 8_000 and now["bytes_down"] - then["bytes_down"] < 8_000
    assert sojourn.publish(total) == pytest.approx(float(2 * two.data[0]["age"].double().sum()), rel=1e-4)


def test_a_value_of_one_member_moves_from_the_group(hospitals):
    three = hospitals()
    own = three.owners[1].dataset("patients")["dose"].to(three.parties.device) * 3
    back = own.to(three.owners[1].device)
    close(back.cpu(), three.data[1]["dose"] * 3)
    close(own.to(three.owners[2].device, torch.float64).cpu(), three.data[1]["dose"].double() * 3)


def test_copies_write_to_other_places(hospitals, rng):
    three = hospitals(20, 24, 28)
    alice, bob, _ = three.owners
    model = network(rng.randrange(1000)).to(three.parties.device)
    at_alice = network(1).to(alice.device)
    at_alice.load_state_dict(model.state_dict())
    at_bob = network(2).to(bob.device)
    with torch.no_grad():
        for to, given in zip(at_bob.parameters(), at_alice.parameters()):
            to.copy_(given)
    for name, value in model.state_dict().items():
        assert torch.equal(at_alice.state_dict()[name].cpu(), value.cpu())
        assert torch.equal(at_bob.state_dict()[name].cpu(), value.cpu())


def test_gradients_pass_between_a_member_and_the_group(hospitals, rng):
    """A layer at one owner, the next one on the group's device."""
    two, seed = hospitals(30, 26), rng.randrange(1000)
    alice = two.owners[0]

    def run(place, group):
        torch.manual_seed(seed)
        first, second = nn.Linear(3, 6), nn.Linear(6, 1)
        first, second = first.to(place), second.to(group)
        x = torch.randn(12, 3).to(place)
        scale = torch.rand(6).to(group).requires_grad_()
        optimizer = torch.optim.SGD([*first.parameters(), *second.parameters(), scale], lr=0.1)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            hidden = torch.tanh(first(x)).to(group) * scale
            loss = second(hidden).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return [value.detach().cpu() for value in [*losses, *first.parameters(), *second.parameters(), scale]]

    for found, expected in zip(run(alice.device, two.parties.device), run("cpu", "cpu")):
        close(found, expected)


def test_gradients_pass_to_another_owner(hospitals, rng, seed):
    two = hospitals(20, 20)
    alice, bob = two.owners
    torch.manual_seed(seed)
    x, weight = torch.randn(5, 3), torch.randn(3, 2)

    def run(first, second):
        at_first = x.to(first).requires_grad_()
        at_second = weight.to(second).requires_grad_()
        (torch.sin(at_first).to(second) @ at_second).square().sum().backward()
        return at_first.grad, at_second.grad

    (a, b), (expected_a, expected_b) = run(alice.device, bob.device), run("cpu", "cpu")
    assert a.device == alice.device and b.device == bob.device
    close(a.cpu(), expected_a)
    close(b.cpu(), expected_b)


def test_copies_train_apart_and_meet_again(hospitals, rng):
    """Federated averaging from weights of the group."""
    three, seed = hospitals(24, 12, 36), rng.randrange(1000)
    shared, plain = network(seed).to(three.parties.device), network(seed)

    def rounds(model, places, average):
        for _ in range(2):
            copies = {place: copy.deepcopy(model).to(device) for place, device, _ in places}
            for place, device, table in places:
                trained(table, device, seed, make=torch.optim.SGD, size=12, model=copies[place])
            average(copies)

    def average(copies):
        sojourn.average(shared, copies)

    def plain_average(copies):
        with torch.no_grad():
            for name, value in plain.state_dict().items():
                value.copy_(torch.stack([net.state_dict()[name] for net in copies.values()]).mean(0))

    rounds(shared, [(owner, owner.device, owner.dataset("patients")) for owner in three.owners], average)
    tables = [sojourn.plain(data, name="p") for data in three.data]
    rounds(plain, [(at, "cpu", table) for at, table in enumerate(tables)], plain_average)
    for name, value in sojourn.publish(shared.state_dict()).items():
        close(value, plain.state_dict()[name], 1e-3)


def test_moves_that_are_refused(hospitals, owner):
    three = hospitals(20, 24, 28)
    alice, bob, carol = three.owners
    rows = three.table["age"] * 2
    with pytest.raises(
        sojourn.Unsupported, match="rows of several members of the group of .* would move to local as one"
    ):
        rows.to(alice.device)
    with pytest.raises(sojourn.Error, match="moves to one of its members before its value is computed"), sojourn.step():
        (rows.sum() * 2).to(alice.device)
    own = alice.dataset("patients")["age"] * 1
    sojourn.flush()
    with pytest.raises(sojourn.Error, match="inside a step; move it before the step"), sojourn.step():
        own.to(bob.device)
    joined = own.to(three.parties.device)
    with pytest.raises(sojourn.Error, match="inside a step; move it before the step"), sojourn.step():
        joined.to(bob.device)
    alice.share("patients", [carol], "none")
    with pytest.raises(sojourn.Refused, match="does not share it with member 2"):
        own.to(bob.device)  # all members of the group would have it
    pair = sojourn.parties(alice, bob)
    close(own.to(bob.device).cpu(), three.data[0]["age"])  # by the smaller group
    pair.close()
    with pytest.raises(sojourn.Refused, match="does not share it with member 2"):
        own.to(bob.device)
    assert torch.equal(own.to(owner.device).cpu(), three.data[0]["age"]), "in no group together: a read and an upload"


def test_values_of_a_group_stay_among_its_members(hospitals):
    """Bob shares with Alice; what she knows of that does not reach Carol by a group of those two."""
    three = hospitals(20, 24, 28, share=None)
    alice, bob, carol = three.owners
    for owner, others in ((alice, [bob, carol]), (bob, [alice]), (carol, [alice])):
        owner.share("patients", others, "clear")
    first, second = sojourn.parties(alice, bob), sojourn.parties(alice, carol)
    mean = first.rows("patients")["age"].mean()
    known = mean.to(alice.device)
    expected = torch.cat([three.data[0]["age"], three.data[1]["age"]]).mean()
    close(known.cpu(), expected)
    refused = "what members of another group showed each other, and member 1 .* is none of them"
    for value in (known, known * 2 + alice.dataset("patients")["age"][0], torch.stack([known, known])):
        with pytest.raises(sojourn.Refused, match=refused):
            value.to(second.device)
        with pytest.raises(sojourn.Refused, match=refused):
            value.to(carol.device)
    close(known.to(bob.device).cpu(), expected)
    again = sojourn.parties(bob, alice)
    close((known.to(again.device) * 2).cpu(), 2 * expected)
    sojourn.name(known, "known")
    with pytest.raises(sojourn.Refused, match=refused):
        alice.value("known").to(second.device)
    close((alice.dataset("patients")["age"].to(second.device).sum()).cpu(), three.data[0]["age"].sum())
    for group in (first, second, again):
        group.close()


def test_what_noise_releases_stays_among_the_members(hospitals):
    """Weights trained on a private table and a value of a group: open, and of the group's members."""
    three = hospitals(20, 24, 28)
    alice, bob, _ = three.owners
    first, second = sojourn.parties(alice, bob), three.parties
    alice.register("p", {"dose": torch.rand(200), "y": torch.rand(200)}, policy="private",
                   bounds={"dose": (0, 1), "y": (0, 1)})  # fmt: skip
    alice.grant("p", epsilon=100, delta=1e-5)
    scale = first.rows("patients")["age"].mean().to(alice.device)
    for factor, is_refused in ((torch.ones((), device=alice.device), False), (scale, True)):
        model = nn.Linear(1, 1).to(alice.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        hidden = torch.zeros(1, 1, device=alice.device) * factor
        for x, y in alice.dataset("p").batches(["dose"], label="y", size=50):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x + hidden), y[:, None]).backward()
            optimizer.step()
        assert sojourn.publish(model.weight).shape == (1, 1)
        if is_refused:
            with pytest.raises(sojourn.Refused, match="what members of another group showed each other"):
                model.weight.detach().to(second.device)
        else:
            assert model.weight.detach().to(second.device).device == second.device
    first.close()


def test_a_step_replays_with_moved_values(hospitals, rng):
    two = hospitals(20, 20)
    alice = two.owners[0]
    weight = torch.ones(4).to(two.parties.device)

    @sojourn.step(replay=True)
    def scale(by):
        weight.mul_(by)
        return weight * 1

    expected = torch.ones(4)
    at_alice = torch.zeros(4).to(alice.device)
    for at in range(5):
        value = scale(torch.tensor(float(at + 1)))
        at_alice += value.to(alice.device)
        expected = expected * (at + 1)
    total = sum(float(torch.tensor([float(n) for n in range(1, k + 2)]).prod()) for k in range(5))
    close(at_alice.cpu(), torch.full((4,), total))


def test_a_replayed_step_takes_what_moves_into_it_anew(hospitals, rng):
    two = hospitals(20, 20)
    alice = two.owners[0]
    at_alice, weight = torch.zeros(3).to(alice.device), torch.ones(3).to(two.parties.device)

    @sojourn.step(replay=True)
    def scaled():
        return at_alice.to(two.parties.device) * weight

    @sojourn.step(replay=True)
    def back():
        return weight.to(alice.device) * 2

    for at in range(5):
        at_alice.fill_(at)
        weight.fill_(at + 1)
        sojourn.flush()
        assert sojourn.publish(scaled()).tolist() == [at * (at + 1)] * 3
        assert sojourn.publish(back()).tolist() == [2 * (at + 1)] * 3


def test_a_group_of_sixteen(hospitals):
    many = hospitals(*range(2, 18))
    close(many.table["age"].sum().cpu(), many.all("age").sum(), 1e-4)
    weight = (torch.ones(3).to(many.parties.device) * 2).to(many.owners[15].device)
    assert sojourn.publish(weight).tolist() == [2, 2, 2]
