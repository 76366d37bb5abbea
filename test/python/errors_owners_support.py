# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F841 (examples name what they compute)
"""Refusals of owners: connecting, devices, identities, budgets, receipts."""

import contextlib
import os
import pickle

import numpy as np
import torch
from errors_support import example

import sojourn
from sojourn import BudgetExhausted, ConnectionLost, Error, OwnerError, Refused


@example(
    ConnectionLost, "An address without an owner", "no owner answers at ipc://FOLDER/o.sock", "sojourn-owner serve"
)
def _(folder):
    sojourn.connect(f"ipc://{folder}/o.sock")


@example(
    ConnectionLost,
    "Invalid address",
    "'nonsense' is not an address; expected ipc:///path/to/socket or tls+tcp://host:port",
)
def _():
    sojourn.connect("nonsense")


@example(
    ConnectionLost,
    "An address without encryption",
    "'tcp://10.0.0.5:7000' is not encrypted; expected tls+tcp://10.0.0.5:7000 (or, for tests on one machine, "
    "tcp://127.0.0.1:PORT with plain_tcp=True)",
)
def _():
    sojourn.connect("tcp://10.0.0.5:7000", plain_tcp=True)


@example(
    Error, "Registering a table at a served owner", "is not an embedded owner", "sojourn-owner import FILE --name NAME"
)
def _(address):
    with sojourn.connect(address) as owner:
        owner.register("cars", {"age": np.arange(4)}, policy="open")


@example(
    Error, "Granting a budget at a served owner", "sojourn-owner budget grant CLIENT patients --epsilon E --delta D"
)
def _(address):
    with sojourn.connect(address) as owner:
        owner.grant("patients", epsilon=1, delta=1e-5)


def in_a_fork(work):
    """Runs `work` in a forked child and raises its exception here."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work()
        except Exception as failure:
            os.write(writing, pickle.dumps((type(failure), str(failure))))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        kind, text = pickle.load(pipe)
    os.waitpid(child, 0)
    raise kind(text)


FORK = "opened by process N, and this is process M, a fork of it"


@example(Error, "An owner in a fork of its process", FORK, "open an owner here (sojourn.local)", "by spawn")
def _(x):
    in_a_fork(lambda: x + 1)  # os.fork()


@example(Error, "A session with a served owner in a fork of its process", FORK, "which has none of its connections")
def _(address):
    with sojourn.connect(address) as owner:
        in_a_fork(owner.datasets)  # os.fork()


@example(ConnectionLost, "Connecting in a fork of a connected process", FORK, "where sockets do not work")
def _(address):
    with sojourn.connect(address):
        in_a_fork(lambda: sojourn.connect(address))  # os.fork()


@example(
    Error, "Granting a budget in a fork of the owner's process", FORK, "open another owner here", "may share one store"
)
def _(owner, patients):
    in_a_fork(lambda: owner.grant("patients", epsilon=1, delta=1e-5))  # os.fork()


@example(BudgetExhausted, "A release without an identity", "this connection has no identity", "identity=FILE")
def _(address):
    with sojourn.connect(address) as owner:
        sojourn.publish(owner.dataset("patients")["age"].mean(), epsilon=0.1)


@example(
    BudgetExhausted, "A release of a client without a budget", "sojourn-owner budget grant ada patients --epsilon E"
)
def _(address, identity):
    with sojourn.connect(address, identity=identity) as owner:
        sojourn.publish(owner.dataset("patients")["age"].mean(), epsilon=0.1)


@example(Error, "A table without access", "has no dataset 'labs'", "sojourn-owner access labs --add ada")
def _(address, identity):
    with sojourn.connect(address, identity=identity) as owner:
        owner.dataset("labs")


@example(Error, "A table without access or identity", "has no dataset 'labs'", "--add CLIENT", "has no identity")
def _(address):
    with sojourn.connect(address) as owner:
        owner.dataset("labs")


@example(
    Refused, "A step after access was withdrawn", "client 'ada' has no access to table 'labs'", "access labs --add"
)
def _(address, identity, data_owner):
    data_owner("access labs --add ada")
    with sojourn.connect(address, identity=identity) as owner:
        labs = owner.dataset("labs")
        data_owner("access labs --none")
        sojourn.publish(labs["age"].mean(), epsilon=0.1)


@example(
    Refused,
    "A step on a table without access or identity",
    "a client without an identity has no access to table 'labs'",
    "sojourn.connect(address, identity=FILE)",
)
def _(address, data_owner):
    data_owner("access labs --anyone")
    with sojourn.connect(address) as owner:
        labs = owner.dataset("labs")
        data_owner("access labs --none")
        sojourn.publish(labs["age"].mean(), epsilon=0.1)


@example(
    OwnerError,
    "A table that was renamed",
    "renamed table 'labs' to 'blood'; get it again with owner.dataset(\"blood\")",
)
def _(address, identity, data_owner):
    data_owner("access labs --add ada")
    with sojourn.connect(address, identity=identity) as owner:
        labs = owner.dataset("labs")
        data_owner("rename labs blood")
        try:
            sojourn.publish(labs["age"].mean(), epsilon=0.1)
        finally:
            data_owner("rename blood labs")


@example(
    OwnerError,
    "A table whose rows were replaced",
    "replaced the rows of table 'visits'; get it again with owner.dataset(\"visits\")",
)
def _(address, identity, data_owner, folder):
    np.savez(folder / "visits.npz", length=np.arange(9.0))
    data_owner(f"import {folder}/visits.npz --name visits --policy open --clients ada")
    with sojourn.connect(address, identity=identity) as owner:
        visits = owner.dataset("visits")
        data_owner(f"replace visits {folder}/visits.npz")
        sojourn.publish(visits["length"].mean())


@example(OwnerError, "A table that was removed", "the data owner removed table 'trips'; steps on it are refused")
def _(address, identity, data_owner, folder):
    np.savez(folder / "trips.npz", length=np.arange(9.0))
    data_owner(f"import {folder}/trips.npz --name trips --policy open --clients ada")
    with sojourn.connect(address, identity=identity) as owner:
        trips = owner.dataset("trips")
        data_owner("remove trips --yes")
        sojourn.publish(trips["length"].mean())


@example(OwnerError, "A client that was removed", "the data owner removed client 'guest', so its sessions are over")
def _(address, stranger, data_owner):
    data_owner(f"client add guest --key {stranger}.pub")
    owner = sojourn.connect(address, identity=stranger)
    data_owner("client remove guest")
    owner.datasets()


@example(Refused, "Unknown client", "no client of this owner has the key <64 digits>", "client add")
def _(address, stranger):
    sojourn.connect(address, identity=stranger)


@example(Error, "A public key as identity", "is not a client's secret key")
def _(address, identity):
    (identity.parent / "ada.key.pub").chmod(0o600)
    sojourn.connect(address, identity=f"{identity}.pub")


@example(Error, "An identity readable by others", "other users may read the client's secret key")
def _(address, identity):
    identity.chmod(0o644)
    sojourn.connect(address, identity=identity)


@example(Refused, "Unexpected owner", "has the key <64 digits>, expected <64 digits>")
def _(address, identity):
    sojourn.connect(address, identity=identity, owner_key="ab" * 32)


@example(Error, "Invalid owner_key", "owner_key has 3 characters, expected the 64 hexadecimal digits")
def _(address, identity):
    sojourn.connect(address, identity=identity, owner_key="abc")


@example(Refused, "A changed owner at an address", "had <64 digits> before", "remove the line from")
def _(address, identity):
    (identity.parent / "ada.key.owners").write_text(f"{'ab' * 32} {address}\n")
    sojourn.connect(address, identity=identity)


@example(
    Refused,
    "An owner known from another address",
    "is known from another address, ipc:///run/o.sock",
    "connect with owner_key=",
)
def _(address, identity):
    sojourn.connect(address, identity=identity).close()
    noted = identity.parent / "ada.key.owners"
    noted.write_text(noted.read_text().split()[0] + " ipc:///run/o.sock\n")
    sojourn.connect(address, identity=identity)


@example(
    Error,
    "An owner's key that cannot be stored",
    "cannot store the owner's key in 'FOLDER/ada.key.owners'",
    "owner_key=",
)
def _(address, identity):
    (identity.parent / "ada.key.owners").mkdir()
    sojourn.connect(address, identity=identity)


@example(ConnectionLost, "A step after the owner's end", "the owner at ipc://FOLDER/o.sock", "connect again")
def _(server):
    with sojourn.connect(server.address, timeout=0.2) as owner:
        x = torch.ones(3).to(owner.device)
        server.close()
        x.sum().item()


@example(ConnectionLost, "A query after the owner's end", "the owner at ipc://FOLDER/o.sock", "check the owner")
def _(server):
    with sojourn.connect(server.address, timeout=0.2) as owner:
        server.close()
        owner.datasets()


@example(
    ConnectionLost, "A step over two owners after the end of one", "committed at: owner:0 (local); failed at: owner:1"
)
def _(owner, server):
    with sojourn.connect(server.address, timeout=0.2) as far:
        a, b = torch.ones(3).to(owner.device), torch.ones(3).to(far.device)
        server.close()
        with sojourn.step():
            a.add_(1)
            b.add_(1)


@example(Error, "Unknown runtime", "runtime 'cuda' is unknown; expected 'native' or 'numpy'")
def _():
    sojourn.local(runtime="cuda")


@example(Error, "A store that others may enter", "has mode 0755", "expected 0700", "chmod 700")
def _(folder):
    folder.chmod(0o755)
    sojourn.local(folder)


@example(Error, "A store of the numpy runtime", "keeps its tables in memory; leave out `store`")
def _(folder):
    sojourn.local(runtime="numpy", store=folder)


@example(Error, "A profile of the numpy runtime", "no instructions to time; leave out `profile`")
def _(folder):
    sojourn.local(runtime="numpy", profile=folder)


@example(Error, "A budget of the numpy runtime", "serves open tables only and keeps no budgets; use the native runtime")
def _():
    with sojourn.local(runtime="numpy") as owner:
        owner.grant("patients", epsilon=1, delta=1e-5)


@example(Error, "A subject at the numpy runtime", "subject: the numpy runtime keeps no budgets")
def _():
    with sojourn.local(runtime="numpy") as owner:
        owner.register("cars", {"who": np.arange(4)}, policy="open", subject="who")


@example(
    Error,
    "A column of a dtype without NumPy support",
    "column 'a' has type torch.bfloat16, which NumPy does not support",
)
def _():
    with sojourn.local(runtime="numpy") as owner:
        owner.register("cars", {"a": torch.zeros(2, dtype=torch.bfloat16)}, policy="open")


@example(Error, "Defaults at the numpy runtime", "serves open tables only, which have no defaults")
def _():
    with sojourn.local(runtime="numpy") as owner:
        owner.set_defaults("cars", clip=2.0)


@example(Error, "Defaults at a served owner", "is not an embedded owner", "sojourn-owner defaults patients")
def _(address):
    with sojourn.connect(address) as owner:
        owner.set_defaults("patients", clip=2.0)


@example(Error, "A description at a served owner", "is not an embedded owner", "sojourn-owner describe patients")
def _(address):
    with sojourn.connect(address) as owner:
        owner.describe("patients", "vital signs")


@example(Error, "A description that is too long", "the description has 5000 bytes, the limit is 4096")
def _(owner, houses):
    owner.describe("houses", "x" * 5000)


@example(Error, "A description with characters that steer a terminal", "has characters that cannot be shown")
def _(owner, houses):
    owner.describe("houses", "red \x1b[31m")


@example(Error, "A tag with a comma", "a tag is 'sold, old', expected 1 to 64 bytes of one line without commas")
def _(owner, houses):
    owner.describe("houses", tags=["sold, old"])


@example(Error, "Too many tags", "the table has 40 tags, the limit is 32")
def _(owner, houses):
    owner.describe("houses", tags=[f"tag {number}" for number in range(40)])


@example(Error, "A search at something else than owners", "owners must be owners", "got 'hospital'")
def _():
    sojourn.search(["hospital"], "blood pressure")


@example(OwnerError, "A search with a long text", "the text of a search has 2000 bytes, expected up to 1024")
def _(owner):
    sojourn.search(owner, "x" * 2000)


@example(OwnerError, "A search with many words", "a search has 17 words, expected up to 16")
def _(owner):
    sojourn.search(owner, "icu " * 17)


@example(OwnerError, "A search with many columns", "a search names 65 columns, expected up to 64")
def _(owner):
    sojourn.search(owner, columns=["age"] * 65)


@example(Error, "A device of a closed owner", "owner:0 is closed; connect again")
def _():
    with sojourn.local() as owner:
        device = owner.device
        x = torch.ones(3, device=device)
    torch.ones(3, device=device)


@example(Error, "A tensor of a closed owner", "local is closed; connect again and upload or recompute it")
def _():
    with sojourn.local() as owner:
        x = torch.ones(3, device=owner.device)
    x + 1


@example(Error, "A device without an owner", "no owner is connected as device owner:0", "keep the returned owner")
def _():
    torch.ones(3, device="owner:120")


@example(Error, "Too many owners in one process", "owners in one process; close one first")
def _():
    with contextlib.ExitStack() as owners:
        while True:
            owners.enter_context(sojourn.local())


@example(
    Error,
    "Too many owners, one of them closed",
    "owners in one process; close one first (",
    "are closed, but tensors on them still exist: delete those)",
)
def _():
    with contextlib.ExitStack() as owners:
        with sojourn.local() as closed:
            kept = torch.ones(3, device=closed.device)
        while True:
            owners.enter_context(sojourn.local())


@example(Error, "Missing identity", "there is no identity 'FOLDER/ada.key'; create one with: sojourn keygen")
def _(folder):
    sojourn.connect("tls+tcp://127.0.0.1:9", identity=folder / "ada.key")


@example(Error, "An owner's key without an identity", "can only be checked with an identity; give identity=FILE too")
def _():
    sojourn.connect("ipc://owner.sock", owner_key="0" * 64)


@example(Error, "Invalid receipt", "not a receipt of this release")
def _():
    sojourn.Receipt(b"epsilon 0.1")


@example(
    Error, "A receipt of another type than bytes", "made of the bytes that an owner signed (bytes(receipt)), got str"
)
def _():
    sojourn.Receipt("epsilon 0.1")


@example(Error, "Receipt of another owner", "the receipt is not signed by this owner, or was changed")
def _(funded):
    mean = sojourn.publish(funded["dose"].mean(), epsilon=0.1)
    with sojourn.local() as other:
        mean.receipt.verify(other.key)


@example(Error, "A receipt with an invalid key", "the owner's key has 2 characters, expected the 64 hexadecimal digits")
def _(funded):
    mean = sojourn.publish(funded["dose"].mean(), epsilon=0.1)
    mean.receipt.verify("ab")


@example(Error, "A receipt with a key of another type", "owner_key must be the owner's key as a str, got 7")
def _(funded):
    mean = sojourn.publish(funded["dose"].mean(), epsilon=0.1)
    mean.receipt.verify(7)


@example(Error, "A budget that is not a number", "epsilon must be a number, got 'much'")
def _(owner, patients):
    owner.grant("patients", epsilon="much", delta=1e-5)


@example(Error, "Negative budget", "epsilon")
def _(owner, patients):
    owner.grant("patients", epsilon=-1, delta=1e-5)


@example(Error, "The budget of an unknown table", "no dataset 'patient'", "did you mean 'patients'")
def _(owner, patients):
    owner.budget("patient")


@example(Error, "Invalid defaults", "the noise multiplier is", "expected a number from")
def _(owner, patients):
    owner.set_defaults("patients", noise_multiplier=-1.0)


@example(
    OwnerError, "A step that publishes more than the limit of a reply", "Limit: the step publishes 2147483648 bytes"
)
def _(device):
    sojourn.publish(torch.zeros(2**29, device=device))
