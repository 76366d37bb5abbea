# SPDX-License-Identifier: Apache-2.0
"""What texts say and to whom: the cause of a refusal, the user's line, the tables concerned, and the next step."""

import re
import signal
import subprocess
import sysconfig
import time
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from owner_process import ROOT, OwnerProcess
from private_support import DELTA, PLENTY, make_table, numpy_rng, own_owner  # noqa: F401

import sojourn

BOUNDS = {"a": (-1.0, 1.0), "y": (0, 1)}


def people(owner, rng, name="people", rows=96, epsilon=PLENTY, **terms):
    columns = {"a": rng.uniform(-1, 1, rows), "y": rng.integers(0, 2, rows)}
    return make_table(owner, columns, BOUNDS, epsilon, name, **terms)


def descend(table, weight, around):
    """Gradient descent by hand."""
    for x, y in table.batches(["a"], label="y", size=16):
        with around():
            loss = F.cross_entropy(x @ weight, y)
            (gradient,) = torch.autograd.grad(loss, weight)
            with torch.no_grad():
                weight -= 0.1 * gradient


def test_updates_by_hand_outside_of_steps_are_told_of_steps(owner, rng):
    table = people(owner, rng)
    weight = torch.zeros(1, 2, device=owner.device, requires_grad=True)
    with pytest.raises(sojourn.Refused, match="updated by hand") as failure:
        descend(table, weight, around=torch.enable_grad)
        sojourn.flush()
    text = str(failure.value)
    assert "sojourn.step" in text and "6 batches" in text and "normalization" not in text
    assert f"{__file__}:" in text
    # What it says helps: the same loop, each update a step.
    weight = torch.zeros(1, 2, device=owner.device, requires_grad=True)
    with sojourn.privacy(table, noise_multiplier=0.01, delta=DELTA, clip=10.0):
        descend(table, weight, around=sojourn.step)
    assert weight.abs().max().item() > 0


def test_a_model_that_mixes_rows_is_still_told_so(owner, rng):
    table = people(owner, rng)
    model = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)).to(owner.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = next(iter(table.batches(["a"], label="y", size=16)))
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    with pytest.raises(sojourn.Refused, match="GroupNorm") as failure:
        sojourn.flush()
    assert "by hand" not in str(failure.value)


READS = {
    "item": lambda: torch.ones(1).item(),
    "branch": lambda: 1 if torch.ones(1) > 0 else 0,
    "float": lambda: float(torch.ones(1)),
    "full": lambda: torch.full((2,), torch.ones(1)[0]),
    "bincount": lambda: torch.bincount(torch.ones(3, dtype=torch.int64)),
    "unique": lambda: torch.unique(torch.ones(3)),
    "sparse": lambda: torch.ones(3).to_sparse(),
}


@pytest.mark.parametrize("name", READS)
def test_refusals_are_the_same_under_a_default_device(name, owner):
    """`torch.set_default_device` puts a frame of torch around each call, at which no refusal may stop."""

    def refusal(call):
        with pytest.raises(sojourn.Error) as failure, sojourn.step():
            call()
        return str(failure.value)

    device = owner.device
    plain = {
        "item": lambda: torch.ones(1, device=device).item(),
        "branch": lambda: 1 if torch.ones(1, device=device) > 0 else 0,
        "float": lambda: float(torch.ones(1, device=device)),
        "full": lambda: torch.full((2,), torch.ones(1, device=device)[0], device=device),
        "bincount": lambda: torch.bincount(torch.ones(3, dtype=torch.int64, device=device)),
        "unique": lambda: torch.unique(torch.ones(3, device=device)),
        "sparse": lambda: torch.ones(3, device=device).to_sparse(),
    }
    expected = refusal(plain[name])
    torch.set_default_device(device)
    try:
        found = refusal(READS[name])
    finally:
        torch.set_default_device(None)
    assert f"{__file__}:" in found and "_device.py" not in found
    line = re.compile(re.escape(__file__) + r":\d+")
    assert line.sub("LINE", found) == line.sub("LINE", expected)


def installed(source: str, name: str = "run"):
    """A function of a library that seems to be installed."""
    found: dict = {}
    file = f"{sysconfig.get_path('purelib')}/some_library/loops.py"
    exec(compile(source, file, "exec"), found)
    return found[name], file


def test_hints_and_refusals_name_the_script_not_a_library(owner):
    run, file = installed("def run(call):\n    return call()\n")
    read, _ = installed("def run(x):\n    return (x * 2).sum().item()\n")
    x = torch.ones(3, device=owner.device)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert read(x) == 6.0
    (hint,) = [each for each in caught if "separate round trip" in str(each.message)]
    assert hint.filename == __file__
    with pytest.raises(sojourn.Error, match=re.escape(__file__)) as failure, sojourn.step():
        run(x.nonzero)
    assert "some_library" not in str(failure.value)
    unique, _ = installed("def run(x):\n    return x.unique()\n")
    with pytest.raises(sojourn.Error, match=re.escape(__file__)) as failure, sojourn.step():
        unique(x)
    assert "some_library" not in str(failure.value)
    assert file not in str(failure.value)


def test_hints_name_a_library_that_reads(owner):
    """A library's lines that read once are not worth a word, though one line of the script reaches them all."""
    twice, _ = installed("def run(x):\n    x.sum().item()\n    return x.prod().item()\n")
    x = torch.ones(3, device=owner.device)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        twice(x), twice(x)
        assert not caught
        for _ in range(3):
            twice(x)
        for _ in range(3):
            x.sum().item()
    library, script = (str(each.message) for each in caught)
    assert library.startswith("some_library reads values here") and "separate round trip" in library
    assert "fewer logs" in library and script.startswith("a value is read here")


def test_a_read_that_is_refused_gets_no_hint(owner, rng):
    table = people(owner, rng)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            with pytest.raises(sojourn.Refused):
                table["a"].mean().item()
    assert not [each for each in caught if "round trip" in str(each.message)]
    assert torch.ones(2, device=owner.device).sum().item() == 2


def test_a_refusal_names_the_tables_of_its_value(owner, rng):
    first, other = (people(owner, rng, name) for name in ("first", "other"))
    pending = first["a"] * 2  # waits, and has nothing to do with what is refused
    with pytest.raises(sojourn.Refused, match="'other'") as failure:
        sojourn.publish(other["a"].max(), epsilon=0.1)
    assert "'first'" not in str(failure.value)
    with pytest.raises(sojourn.Refused, match="'first'") as failure:
        sojourn.publish((first["a"] * other["a"].mean()).max() + pending.max(), epsilon=0.1)


CSV = {
    "semicolons.csv": ("a;b\n1;2\n3;4\n", "';', expected ','"),
    "decimal-commas.csv": ("a;b\n1,5;2\n3,5;4\n", "';', expected ','"),
    "tabs.csv": ("a\tb\n1\t2\n3\t4\n", ", expected ','"),
    "bars.csv": ('"a, first"|b\n1|2\n3|4\n', "'|', expected ','"),
    "quoted.csv": ('"a;b",c\n1,2\n3,4\n', None),
    "one.csv": ("a\n1\n3\n", None),
    "commas.csv": ("a,b\n1,2\n3,4\n", None),
}


@pytest.mark.parametrize("runtime", ["native", "numpy"])
@pytest.mark.parametrize("name", CSV)
def test_a_csv_file_with_another_delimiter(name, runtime, tmp_path):
    content, problem = CSV[name]
    (tmp_path / name).write_text(content)
    with sojourn.local(runtime=runtime) as owner:
        if problem is None:
            table = owner.register("t", str(tmp_path / name), policy="open")
            assert table[table.columns[0].name].tolist() == [1, 3]
        else:
            with pytest.raises(sojourn.Error, match="delimited by") as failure:
                owner.register("t", str(tmp_path / name), policy="open")
            assert problem in str(failure.value)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_an_owner_that_is_gone_refuses_at_once(how, tmp_path):
    process = OwnerProcess(tmp_path)
    with sojourn.connect(process.address, timeout=30) as owner:
        x = torch.ones(3).to(owner.device)
        assert x.sum().item() == 3
        process._process.send_signal(how)
        process._process.wait(20)
        for call in (lambda: (x * 2).sum().item(), owner.datasets, lambda: (x * 3).sum().item()):
            begin = time.monotonic()
            with pytest.raises(sojourn.ConnectionLost, match="[Cc]onnection refused|closed|reset"):
                call()
            assert time.monotonic() - begin < 10
        with pytest.raises(sojourn.ConnectionLost, match="Connection refused"):
            owner.datasets()
        with pytest.raises(sojourn.ConnectionLost):
            owner.close()
        owner.close = lambda: None


@pytest.mark.parametrize("address", ["http://localhost:80", "localhost:80", "ws://localhost:80"])
def test_addresses_of_other_schemes(address, tmp_path):
    command = [ROOT / "build/bin/sojourn-owner", "serve", "--store", tmp_path, "--listen", address]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2  # wrong usage
    with pytest.raises(sojourn.ConnectionLost) as failure:
        sojourn.connect(address)
    for text in (ended.stderr, str(failure.value)):
        assert f"'{address}' is not an address; expected ipc:///path/to/socket or tls+tcp://host:port" in text


def test_a_budget_shows_what_the_common_cap_leaves(owner, rng):
    visits, labs = (people(owner, rng, name, 96, 1.0, population="patients") for name in ("visits", "labs"))
    assert owner.budget("labs").common_left is None and "common" not in repr(labs)
    sojourn.publish(visits["a"].mean(), epsilon=0.75)
    budget = owner.budget("labs")
    assert budget.epsilon_left == pytest.approx(1.0)
    # All of the people's cap, epsilon 1, less what the release from the other table cost.
    spent = 1.0 - owner.budget("visits").epsilon_left
    assert budget.common_left == pytest.approx(1.0 - spent, rel=1e-9)
    assert f"{budget.common_left:.4g}" in repr(budget) and "all clients" in repr(budget)
    assert "common cap" in repr(labs) and f"{budget.common_left:.4g}" in repr(labs)
    assert owner.budget("visits").common_left is None  # its own grant leaves no more
    with pytest.raises(sojourn.BudgetExhausted, match="cap on the people of 'patients'"):
        sojourn.publish(labs["a"].mean(), epsilon=0.75)


def test_numbers_of_a_served_owner_arrive(tmp_path, rng):
    np.savez(tmp_path / "people.npz", a=rng.uniform(-1, 1, 96))
    command = ROOT / "build/bin/sojourn-owner"
    store = ["--store", tmp_path / "store"]
    terms = ["--policy=private", "--rows-are-subjects", "--bound=a=-1:1", "--population=patients", *store]
    for name in ("visits", "labs"):
        subprocess.run([command, "import", tmp_path / "people.npz", f"--name={name}", *terms], check=True)
    subprocess.run([ROOT / "build/bin/sojourn", "keygen", tmp_path / "ada.key"], check=True)
    subprocess.run([command, "client", "add", "ada", "--key", tmp_path / "ada.key.pub", *store], check=True)
    cap = ["--epsilon=1", "--delta=1e-5", *store]
    subprocess.run([command, "budget", "cap", "visits", *cap], check=True)
    for name in ("visits", "labs"):
        subprocess.run([command, "budget", "grant", "ada", name, *cap], check=True)
    process = OwnerProcess(tmp_path)
    try:
        with sojourn.connect(process.address, identity=tmp_path / "ada.key") as owner:
            sojourn.publish(owner.dataset("visits")["a"].mean(), epsilon=0.5)
            assert owner.budget("labs").common_left == pytest.approx(owner.budget("visits").epsilon_left, rel=1e-9)
    finally:
        process.close()
