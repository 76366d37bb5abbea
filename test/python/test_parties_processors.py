# SPDX-License-Identifier: Apache-2.0
"""Groups whose members' processors round otherwise: all have the first one's bits."""

import re
import warnings

import pytest
import torch
from owner_process import OwnerProcess
from parties_support import COLUMNS, close, network, trained
from test_parties_served import ServedHospitals

import sojourn


class MixedHospitals(ServedHospitals):
    """One of them computes without vector instructions."""

    def __init__(self, folder, rows, rng, plain: int | None, **options):
        self._plain = plain
        super().__init__(folder, rows, rng, **options)

    def serve(self, at):
        environment = {"ATEN_CPU_CAPABILITY": "default" if at == self._plain else "avx2"}
        self.processes[at] = OwnerProcess(
            self.folders[at], self.addresses[at], "--peers", self.peers[at], environment=environment
        )

    def taken_over(self) -> list[tuple[int, int]]:
        found = []
        for at in range(len(self.owners)):
            text = self.command(at, "status")
            found.append(tuple(map(int, re.search(r"(\d+) steps took over bits of a .*, (\d+) bytes", text).groups())))
        return found


@pytest.fixture
def mixed(tmp_path, rng):
    made = []

    def make(plain, **options):
        made.append(MixedHospitals(tmp_path, [60, 50, 40], rng, plain, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def rooted(values):
    """Powers, of which libm and vector instructions have other last bits."""
    return (values.abs() + 0.1).pow(0.3)


def regularized(table, device, seed, steps, epochs=3):
    net = network(seed).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)

    @steps
    def train(x, y):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss = loss + 0.05 * sum(rooted(each).sum() for each in net.parameters())
        loss.backward()
        optimizer.step()
        return loss

    return net, [
        train(x, y)
        for x, y in table.batches(COLUMNS, label="relapse", size=60, epochs=epochs, seed=seed, drop_last=True)
    ]


def bits_of(value: torch.Tensor) -> list[int]:
    return value.contiguous().view(torch.int32).flatten().tolist()


def at_each(three, parties, value) -> list[torch.Tensor]:
    """A value that all members have, as each of them has it: added to zeros of one member, it lies there."""
    found = []
    for owner in three.owners:
        zeros = torch.zeros(value.shape).to(owner.device)
        own = value + zeros.to(parties.device)
        found.append(sojourn.publish(own))
        assert "copies" not in parties.where(own)
    return found


@pytest.mark.parametrize(("plain", "share"), [(0, "clear"), (1, "clear"), (1, "sums")])
def test_weights_are_equal_to_the_bit(mixed, rng, plain, share):
    three, seed = mixed(plain, share=share), rng.randrange(1000)
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randn(4096, generator=generator)
    own = [bits_of(sojourn.publish(rooted(numbers.to(owner.device)))) for owner in three.owners]
    if own[0] == own[1]:
        pytest.skip("this processor rounds alike with and without vector instructions")
    parties = sojourn.parties(*three.owners)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        net, losses = regularized(parties.rows("patients"), parties.device, seed, sojourn.step)
        sojourn.flush()
    notes = [str(each.message) for each in told if "computed other bits than" in str(each.message)]
    assert len(notes) == 1, "once for a group"
    assert re.search(r"member 1 \(the owner with key [0-9a-f]+\).* computed other bits than member 0 \(", notes[0])
    taken = three.taken_over()
    expected, plain_losses = regularized(three.pooled, "cpu", seed, lambda function: function)
    for name, value in net.state_dict().items():
        if share == "clear":
            found = [bits_of(each) for each in at_each(three, parties, value)]
            assert found[0] == found[1] == found[2], name
        close(sojourn.publish(value), expected.state_dict()[name], 5e-4)
    close(torch.stack([sojourn.publish(loss) for loss in losses]), torch.stack(plain_losses).detach(), 5e-4)
    assert taken[0] == (0, 0)
    for at in (1, 2):
        steps, size = taken[at]
        assert (steps > 0 and size > 4 * steps) == (at == plain or plain == 0), taken


def test_equal_processors_take_nothing_over(mixed, rng):
    three, seed = mixed(None), rng.randrange(1000)
    parties = sojourn.parties(*three.owners)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regularized(parties.rows("patients"), parties.device, seed, sojourn.step)
        trained(parties.rows("patients"), parties.device, seed)
        sojourn.flush()
    assert three.taken_over() == [(0, 0)] * 3
