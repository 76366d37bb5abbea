# SPDX-License-Identifier: Apache-2.0
"""Groups of served owners: a process each, links between them, commands of their data owners."""

import json
import re
import subprocess
import sys
import threading
import time
import warnings

import pytest
import torch
from owner_process import ROOT, OwnerProcess
from parties_support import COLUMNS, close, network, plain_step, trained
from served_parties_support import ServedHospitals

import sojourn


@pytest.fixture
def served(tmp_path, rng):
    made = []

    def make(*rows, **options):
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(ServedHospitals(folder, rows, rng, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("tls", [False, True], ids=["ipc", "tls"])
def test_a_model_trains_as_on_all_rows(served, rng, tls):
    three, seed = served(40, 23, 31, tls=tls), rng.randrange(1000)
    parties = sojourn.parties(*three.owners)
    net, losses = trained(parties.rows("patients"), parties.device, seed)
    expected, plain_losses = trained(three.pooled, "cpu", seed, plain_step)
    for name, value in sojourn.publish(net.state_dict()).items():
        close(value, expected.state_dict()[name], 2e-4)
    close(torch.stack([sojourn.publish(loss) for loss in losses]), torch.stack(plain_losses).detach(), 2e-4)
    status = three.command(0, "status")
    assert "1 groups with other owners, 0 of them waiting for others; links with 2 of 2 registered owners" in status


def on_processors(served, plain: int | None):
    """Serves all again: with vector instructions, but for one; that one rounds otherwise."""
    for at, process in enumerate(served.processes):
        process.close()
        environment = {"ATEN_CPU_CAPABILITY": "default" if at == plain else "avx2"}
        options = ("--peers", served.peers[at])
        served.processes[at] = OwnerProcess(served.folders[at], served.addresses[at], *options, environment=environment)
    served.owners = [sojourn.connect(address) for address in served.addresses]
    return served


def taken_over(served) -> list[tuple[int, ...]]:
    """Steps and bytes of each member."""
    texts = [served.command(at, "status") for at in range(len(served.owners))]
    found = [re.search(r"(\d+) steps took over bits of a .*, (\d+) bytes", text) for text in texts]
    return [tuple(map(int, each.groups())) for each in found]


def rooted(values):
    """Powers, of which libm and vector instructions have other last bits."""
    return (values.abs() + 0.1).pow(0.3)


def regularized(table, device, seed, steps, epochs=3):
    net = network(seed)
    many = torch.randn(4096, generator=torch.Generator().manual_seed(seed))  # among few, no bit may differ
    net.register_parameter("many", torch.nn.Parameter(many))
    net = net.to(device)
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
def test_weights_are_equal_to_the_bit(served, rng, plain, share):
    three, seed = on_processors(served(60, 50, 40, share=share), plain), rng.randrange(1000)
    numbers = torch.randn(4096, generator=torch.Generator().manual_seed(seed))
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
    taken = taken_over(three)
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


def test_equal_processors_take_nothing_over(served, rng):
    three, seed = on_processors(served(60, 50, 40), None), rng.randrange(1000)
    parties = sojourn.parties(*three.owners)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regularized(parties.rows("patients"), parties.device, seed, sojourn.step)
        trained(parties.rows("patients"), parties.device, seed)
        sojourn.flush()
    assert taken_over(three) == [(0, 0)] * 3


def test_large_values_cross_beside_uploads_of_their_size(served, rng):
    """Terms of more than 64 KiB take memory of the front that an upload of the same step has had."""
    two = served(64, 64)
    parties = sojourn.parties(*two.owners)
    generator = torch.Generator().manual_seed(rng.randrange(1000))
    remote, plain = (
        torch.stack([table[name] for name in COLUMNS], 1) for table in (parties.rows("patients"), two.pooled)
    )
    for size in [30_000, 20_000, 30_000, 40_000]:
        weights, bias = torch.randn(3, size, generator=generator), torch.randn(size, generator=generator)
        with sojourn.step():
            found = sojourn.publish((remote @ weights.to(parties.device) + bias.to(parties.device)).sum(0))
        close(found.value, (plain @ weights + bias).sum(0), 1e-3)


def test_the_demo_of_several_owners(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "tools/demo.py", "--owners", "2", "--epochs", "1", "--out", tmp_path / "demo"],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    reports = {name: json.loads((tmp_path / f"demo/{name}.json").read_text()) for name in ("plain-parts", "group")}
    for name, values in reports["group"]["parameters"].items():
        close(torch.tensor(values), torch.tensor(reports["plain-parts"]["parameters"][name]), 1e-4)
    assert "messages to each owner per step" in done.stdout and "--peers tls+tcp://0.0.0.0:7444" in done.stdout


def test_the_log_shows_what_members_exchange(served, rng):
    three = served(12, 9, 15)
    parties = sojourn.parties(*three.owners)
    table = parties.rows("patients")
    weights = torch.zeros(3, 5, device=parties.device, requires_grad=True)
    with sojourn.step():
        x = torch.stack([table[name] for name in COLUMNS], 1)
        loss = (x @ weights - 1).square().mean()
        loss.backward()
        told = sojourn.publish(weights.grad)
    assert told.value.shape == (3, 5)
    with pytest.raises(sojourn.Refused, match="the data owner reads it with 'sojourn-owner programs'"):
        parties.programs()
    listed = three.command(1, "programs").splitlines()
    texts = [
        three.command(1, "programs", "--text", line.split()[0]) for line in listed if re.match(r"[0-9a-f]{16} ", line)
    ]
    text = next(text for text in texts if "exchange 0" in text)
    assert "// a step of 3 owners" in text
    sent = re.findall(r"// exchange \d+, sums over roles 0, 1 and 2: (.*)", text)
    assert sent and all("test_parties_served.py:" in line for line in sent), text
    assert any("tensor<3x5xf32>" in line for line in sent)
    assert re.search(r"sojourn\.\w+ .*; known to all, from exchange \d+ among roles 0, 1 and 2", text)
    assert re.search(r"; parts: 12 rows at role 0, 9 at role 1, 15 at role 2", text)


def test_average_of_local_steps(served, rng):
    two = served(40, 30)
    parties = sojourn.parties(*two.owners)
    model = network(rng.randrange(1000))
    copies = {owner: network(at).to(owner.device) for at, owner in enumerate(two.owners)}
    expected = {
        name: 0.75 * network(0).state_dict()[name] + 0.25 * network(1).state_dict()[name] for name in model.state_dict()
    }
    model = model.to(parties.device)
    sojourn.average(model, copies, weights=dict(zip(two.owners, [3, 1])))
    for name, value in sojourn.publish(model.state_dict()).items():
        close(value, expected[name])


def test_a_member_that_dies_fails_the_step_at_once_by_name(served, rng):
    three = served(40, 23, 31)
    parties = sojourn.parties(*three.owners)
    table = parties.rows("patients")
    total = sojourn.publish(table["age"].sum())
    three.processes[2]._process.kill()
    three.processes[2]._process.wait()
    begin = time.monotonic()
    with pytest.raises(sojourn.Error) as failed:
        sojourn.publish(table["dose"].sum())
    assert time.monotonic() - begin < 10
    assert re.search("carol|the group has ended|not reachable any more", str(failed.value)), str(failed.value)
    with pytest.raises(sojourn.Error):
        sojourn.publish(table["dose"].sum())
    # The others go on among themselves, and all three once it is back.
    rest = sojourn.parties(*three.owners[:2])
    close(sojourn.publish(rest.rows("patients")["age"].sum()), total - three.data[2]["age"].sum(), 1e-4)
    three.serve(2)
    three.owners[2] = sojourn.connect(three.addresses[2])
    again = sojourn.parties(*three.owners)
    close(sojourn.publish(again.rows("patients")["age"].sum()), total, 1e-4)


def test_who_does_not_know_whom_is_told(served):
    pair = served(20, 20, strangers=[(1, 0)], share=None)
    told = "there is no link between .* sees the reason with: sojourn-owner peer check bob|sojourn-owner peer add NAME"
    with pytest.raises(sojourn.Error, match=told):
        sojourn.parties(*pair.owners)
    assert "does not know this one" in pair.command(0, "peer", "check", fails=True)
    key = pair.command(0, "key").strip()
    pair.command(1, "peer", "add", "alice", "--key", key, "--address", pair.peers[0])
    assert "answers at" in pair.command(0, "peer", "check", "bob")
    parties = sojourn.parties(*pair.owners)
    with pytest.raises(sojourn.Error, match="share"):
        sojourn.publish(parties.rows("patients")["age"].sum())
    for at, other in ((0, "bob"), (1, "alice")):
        shown = pair.command(at, "share", "patients", "--with", other, "--as", "clear")
        assert re.search(rf"{other} +clear", shown), shown
    close(
        sojourn.publish(parties.rows("patients")["age"].sum()),
        torch.cat([each["age"] for each in pair.data]).sum(),
        1e-4,
    )


def test_an_owner_without_an_address_for_others_refuses(served, tmp_path):
    pair = served(20, 20)
    pair.processes[1].close()
    pair.processes[1] = OwnerProcess(pair.folders[1], pair.addresses[1])
    bob = sojourn.connect(pair.addresses[1])
    with pytest.raises(sojourn.Error, match="takes part in no groups: .*sojourn-owner serve --peers ADDRESS"):
        sojourn.parties(bob, pair.owners[0])


def test_commands_about_other_owners(served):
    pair = served(20, 20, share=None)
    assert re.search(r"bob +ipc://.*peers.sock +[0-9a-f]{64}", pair.command(0, "peer", "list"))
    assert "other owners may see nothing" in pair.command(0, "share", "patients")
    assert "is registered already, with this name" in pair.command(
        0, "peer", "add", "bob", "--key", "0" * 64, "--address", "ipc:///x", fails=True
    )
    own = pair.command(0, "key").strip()
    assert "is this owner's own" in pair.command(
        0, "peer", "add", "me", "--key", own, "--address", "ipc:///x", fails=True
    )
    assert "no other owner is registered as 'dave'" in pair.command(
        0, "share", "patients", "--with", "dave", "--as", "clear", fails=True
    )
    assert "bob is removed" in pair.command(0, "peer", "remove", "bob")
    assert "no other owner is registered" in pair.command(0, "peer", "list")


def test_a_compiled_program_runs_at_served_owners(served, rng, tmp_path):
    """Compiled without them, by the parties' roles; each plays one."""
    three, seed = served(30, 18, 24), rng.randrange(1000)
    options = {"label": "relapse", "size": 12, "epochs": 2, "seed": seed}
    kinds = dict.fromkeys(COLUMNS, torch.float32) | {"relapse": torch.int64}
    kept = {}

    def init():
        net = network(seed).to(device)
        kept.update(net=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1))
        return net

    def step(x, y):
        kept["optimizer"].zero_grad()
        loss = torch.nn.functional.cross_entropy(kept["net"](x), y)
        loss.backward()
        kept["optimizer"].step()
        return loss.detach()

    with sojourn.offline() as device:
        program = sojourn.compile(
            step,
            init=init,
            tables={
                name: sojourn.table_spec(len(data["age"]), kinds, party=name) for name, data in zip("abc", three.data)
            },
            batches=lambda a, b, c: sojourn.pooled(a, b, c).batches(COLUMNS, **options),
        )
    program.save(tmp_path / "train.sojourn")
    program = sojourn.load(tmp_path / "train.sojourn")
    found = program.run(dict(zip("abc", three.owners)), tables=dict.fromkeys("abc", "patients"), per_trip=3)
    net = network(seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    expected = []
    for x, y in three.pooled.batches(COLUMNS, **options):
        optimizer.zero_grad()
        expected.append(torch.nn.functional.cross_entropy(net(x), y))
        expected[-1].backward()
        optimizer.step()
    close(torch.stack(found), torch.stack(expected).detach(), 1e-4)
    for name, value in program.state().items():
        close(value, net.state_dict()[name], 1e-4)


def configured(text: str):
    """Served owners with these settings."""

    class Configured(ServedHospitals):
        def serve(self, at):
            settings = self.folders[at] / "owner.toml"
            settings.write_text(text)
            options = ("--peers", self.peers[at], "--config", settings)
            self.processes[at] = OwnerProcess(self.folders[at], self.addresses[at], *options)

    return Configured


def test_steps_exchange_as_much_as_a_data_owner_allows(tmp_path, rng):
    two = configured("[groups]\nexchanged_bytes = 2_399\n")(tmp_path, (20, 30), rng)
    parties = sojourn.parties(*two.owners)
    age = parties.rows("patients")["age"]
    wide = torch.ones(299, device=parties.device)
    assert sojourn.publish(torch.outer(age, wide).sum(0)).shape == (299,)
    with pytest.raises(sojourn.Error, match="2400 bytes exchanged with other owners, expected at most 2399"):
        sojourn.publish(torch.outer(age, torch.ones(300, device=parties.device)).sum(0))
    for owner in two.owners:
        owner.close()
    two.close()


def test_groups_over_served_owners_with_little_memory(tmp_path, rng):
    """The owners have memory for about one of these steps at a time."""

    size = 50_000
    little = configured("[steps]\nall_arena_bytes = 32_000_000\n")  # an eighth for clients without a key
    two = little(tmp_path, (60, 48), rng)
    results, failures, before = {}, [], sojourn.counters()["busy_retries"]

    def run(number):
        try:
            parties = sojourn.parties(*(two.owners if number % 2 else reversed(two.owners)))
            table = parties.rows("patients")
            for step in range(4):
                with sojourn.step():
                    x = torch.stack([table[name] for name in COLUMNS], 1).double().sum(0)
                    big = torch.arange(size, dtype=torch.float64, device=parties.device) * (number + step)
                    found = sojourn.publish(x.sum() + big.cumsum(0).sort().values.cumsum(0)[-1])
                results[number, step] = found.value
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    retries = sojourn.counters()["busy_retries"] - before
    for owner in two.owners:
        owner.close()
    two.close()
    assert not failures, f"{failures}, {retries} retries"
    plain = sum(table[name].double().sum() for table in two.data for name in COLUMNS)
    for (number, step), found in results.items():
        big = torch.arange(size, dtype=torch.float64) * (number + step)
        close(found, plain + big.cumsum(0).cumsum(0)[-1], 1e-9)
    assert len(results) == 16
