# SPDX-License-Identifier: Apache-2.0
"""Records what a client sends while it trains and measures at an owner with the tables of test/attack, as seeds.

    python test/fuzz/record.py [FOLDER]    # writes TARGET/NAME there, or in test/fuzz/corpus

Each recording is one input of a target. Session ids, numbers and versions in it are those of this run; the target puts
them right.
"""

import io
import pathlib
import struct
import sys
import tempfile

import numpy as np
import pyarrow
import pyarrow.ipc
import torch
import torch.nn.functional as F
from torch import nn

import sojourn
from sojourn import _sojourn
from sojourn.owner import Owner
from sojourn_wire.Request import Request
from sojourn_wire.RequestBody import RequestBody
from sojourn_wire.Step import Step

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
ROWS = {"people": 24, "others": 16, "open": 24, "wide": 256}
BOUNDS = {"a": (-2, 3), "h": (0, 1), "n": (0, 11), "m": (-4, 4), "v": (-1, 1), "w": (-1, 1)}
CHECKSUM = 32  # bytes at the end of an artifact
LEFT_OUT = (RequestBody.Hello, RequestBody.Prove)  # the target opens sessions itself


def columns(rows):
    """As test/attack/Tables.cpp has them."""
    return {
        "a": torch.rand(rows, dtype=torch.float64) * 5 - 2,
        "h": torch.rand(rows),
        "n": torch.randint(0, 12, (rows,)),
        "b": torch.rand(rows) < 0.5,
        "m": torch.rand(rows, 2, 48) * 8 - 4,
        "v": torch.rand(rows, 64, dtype=torch.float64) * 2 - 1,
        "w": torch.rand(rows, 96) * 2 - 1,
    }


class Recorder:
    """An owner in this process whose requests are kept."""

    def __init__(self):
        self.embedded = _sojourn.EmbeddedOwner()
        self.messages = []
        self.owner = Owner(_sojourn.Session(self.handle, "recorded"), "recorded", self.embedded)
        for name, rows in ROWS.items():
            values = columns(rows) if name != "wide" else {"n": torch.randint(0, 256, (rows,))}
            bounds = {key: pair for key, pair in BOUNDS.items() if key in values} if name != "wide" else {"n": (0, 255)}
            policy = "private" if name in ("people", "others") else "open"
            self.owner.register(name, values, policy=policy, bounds=bounds)
            if policy == "private":
                self.owner.grant(name, epsilon=1000, delta=1e-5)

    def handle(self, request):
        self.messages.append(bytes(request))
        return self.embedded.handle(bytes(request))

    def take(self):
        """The messages since the last call, without handshakes."""
        taken, self.messages = self.messages, []
        return [one for one in taken if Request.GetRootAs(one, 0).BodyType() not in LEFT_OUT]


def network(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, outputs))


def train_open(owner):
    """A loop over batches of an open table: states, draws, repetitions."""
    table = owner.dataset("open")
    model = network(3, 2).to(owner.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    @sojourn.step
    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(table.scaled(x)), y.long())
        loss.backward()
        optimizer.step()
        return sojourn.publish(loss.detach())

    for x, y in table.batches(["a", "h", "n"], label="b", size=8, epochs=2, seed=1):
        loss = train(x, y)
    float(loss)


def train_private(owner):
    """DP-SGD, and its loss under a price."""
    table = owner.dataset("people")
    model = network(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sojourn.to_owner(model, owner, optimizer)

    @sojourn.step
    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(table.scaled(x)), y.long())
        loss.backward()
        optimizer.step()
        return sojourn.publish(loss.detach(), bound=2.0)

    with sojourn.privacy(table, epsilon=8, delta=1e-6, clip=1.0):
        for x, y in table.batches(["a", "h", "n"], label="b", size=4, epochs=1, seed=2):
            loss = train(x, y)
    float(loss)
    sojourn.publish({name: value.detach() for name, value in model.state_dict().items()})


def uploads(owner):
    """Tensors of the client: kept, computed with, published."""
    x = torch.randn(6, 5).to(owner.device)
    w = torch.randn(5, 4, dtype=torch.float64).to(owner.device)
    kept = (x.double() @ w).softmax(1)
    sojourn.publish(kept.sum(0)).value
    values, order = torch.sort(x, dim=1, descending=True)
    sojourn.publish(values[:, :2] + order[:, :2]).value
    sojourn.publish(torch.linalg.solve(w[:4] + 5 * torch.eye(4, dtype=torch.float64, device=owner.device), w[:4])).value
    sojourn.publish(torch.cumsum(x, 1).masked_fill(x > 0, 0.0)).value


def many_kinds(owner):
    """Elements of other types, convolutions, windows, random numbers, scatter and gather."""
    image = torch.randn(2, 3, 9, 8).to(owner.device)
    kernel = torch.randn(4, 3, 3, 3).to(owner.device).requires_grad_()
    out = F.max_pool2d(F.conv2d(image, kernel, padding=1), 2)
    out.sum().backward()
    sojourn.publish(kernel.grad).value
    places = torch.tensor([[0, 2, 1], [1, 1, 0]]).to(owner.device)
    base = torch.zeros(2, 4).to(owner.device)
    sojourn.publish(base.scatter_add(1, places, torch.ones(2, 3).to(owner.device))).value
    sojourn.publish(torch.gather(image[:, 0, 0], 1, places)).value
    sojourn.publish(torch.fft.fft(image[0, 0].to(torch.complex64)).abs()).value
    halves = image.to(torch.bfloat16)
    sojourn.publish((halves * halves).float().mean()).value
    sojourn.publish(torch.rand(5, device=owner.device) + F.dropout(torch.ones(5, device=owner.device), 0.5)).value
    flags = (image[0, 0] > 0).any(1)
    sojourn.publish(flags & ~flags).value
    sojourn.publish((places << 3) // 5 % 7).value


def statistics(owner):
    """Releases with a price of their own from two private tables."""
    for name in ("people", "others"):
        table = owner.dataset(name)
        sojourn.publish(table["a"].mean(), epsilon=0.5).value
        sojourn.publish(table["n"].double().sum(), epsilon=0.5).value
        sojourn.publish((table["h"] > 0.5).double().mean(), epsilon=0.2, delta=1e-7).value
        sojourn.publish(table["v"].mean(0), epsilon=0.5, delta=1e-7).value


def reads(owner):
    """Shaped columns of open tables, parts of them, rows at computed places."""
    table = owner.dataset("open")
    near, far = table.split(0.5, seed=3)
    sojourn.publish(table["m"].sum(2)).value
    sojourn.publish(near["v"].mean(0)).value
    sojourn.publish(far["b"].double().mean()).value
    wide = owner.dataset("wide")
    sojourn.publish(wide["n"].sum()).value


def named(owner):
    """Values that get names, are updated, listed, taken and released."""
    weight = torch.ones(2, 3).to(owner.device)
    sojourn.name(weight, "weight", tags=["a", "b"])
    sojourn.name({"x": torch.zeros(2).to(owner.device), "y": weight * 2}, "pair")
    with sojourn.step():
        weight.mul_(3)
    owner.values(tag="a")
    taken = owner.value("weight")
    with sojourn.step():
        taken.add_(1)
    sojourn.publish(taken).value
    owner.value("pair")
    owner.release("pair")


def refused(owner):
    """What the owner, or the client for it, does not let out."""
    table = owner.dataset("people")
    for ask in (lambda: sojourn.publish(table["a"]).value, lambda: float(table["a"].sum())):
        try:
            ask()
        except sojourn.Error:
            pass


def joint():
    """Programs of a group: a training step with normalizations, statistics, a batch at one member, tensors of members."""
    recorders = [Recorder() for _ in range(3)]
    owners = [recorder.owner for recorder in recorders]
    for owner in owners:
        for name in ("open", "wide"):
            owner.share(name, [other for other in owners if other is not owner])
    group = sojourn.parties(*owners)
    table = group.rows("open")
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).to(group.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x, y in table.batches(["a", "h", "n"], label="b", size=32, epochs=1, seed=1):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y.long()).backward()
        optimizer.step()
        group.session.flush()
    sojourn.publish(table["v"].mean(0)).value
    sojourn.publish(table["m"].sum((1, 2))).value
    own = [owner.dataset("wide")["n"].double().to(group.device) for owner in owners]
    sojourn.publish(torch.cat(own).var()).value
    sojourn.publish(torch.stack([values.mean() for values in own])).value
    yield from programs(recorders[0].messages)


def traffic(messages):
    return b"".join(bytes((0, 0)) + struct.pack("<I", len(one)) + one for one in messages)


def programs(messages):
    """Of the steps that bring one: its bytes and its debug table."""
    for one in messages:
        request = Request.GetRootAs(one, 0)
        if request.BodyType() != RequestBody.Step:
            continue
        step = Step()
        step.Init(request.Body().Bytes, request.Body().Pos)
        if not step.ProgramIsNone():
            program = step.ProgramAsNumpy().tobytes()
            debug = b"" if step.DebugIsNone() else step.DebugAsNumpy().tobytes()
            yield struct.pack("<I", len(program)) + program + debug


def compiled(batches=None, short=None, tables=None):
    """A training step without an owner, as the bytes of its file without the checksum at their end."""
    parts = {}
    given = {} if batches else {"inputs": [sojourn.spec((8, 2)), sojourn.spec((8,), torch.int64), sojourn.number()]}

    def init():
        parts["model"] = network(2, 2).to(device)
        parts["optimizer"] = torch.optim.Adam(parts["model"].parameters(), capturable=True)
        return parts["model"]

    def train(x, y, rate=None):
        parts["optimizer"].zero_grad()
        loss = F.cross_entropy(parts["model"](x), y)
        loss.backward()
        if rate is not None:
            loss = loss * rate
        parts["optimizer"].step()
        return loss.detach()

    with sojourn.offline() as device:
        program = sojourn.compile(train, init=init, tables=tables, batches=batches, short=short, **given)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "train.sojourn"
        program.save(path)
        return path.read_bytes()[:-CHECKSUM]


def artifacts():
    """On inputs; over batches of a table, the last of them short; over a split of a private one; of two parties."""
    yield "inputs", compiled()
    kinds = {"a": torch.float64, "b": torch.float64, "y": torch.int64}
    table = sojourn.table_spec(41, kinds, categories={"y": ["no", "yes"]})
    batches = lambda points: points.batches(["a", "b"], label="y", size=8, epochs=3)
    yield "batches", compiled(batches, short=1, tables={"points": table})
    bounds = {"a": (0, 1), "b": (-1, 1), "y": (0, 1)}
    table = sojourn.table_spec(None, kinds, bounds=bounds, policy="private")
    part = lambda points: points.split(0.5, seed=2)[0].batches(["a", "b"], label="y", size=4, epochs=2, drop_last=True)
    yield "private", compiled(part, tables={"points": table})
    parties = {name: sojourn.table_spec(rows, kinds, party=name) for name, rows in (("north", 21), ("south", 14))}
    joined = lambda north, south: sojourn.pooled(north, south).batches(["a", "b"], label="y", size=8)
    yield "parties", compiled(joined, short=3, tables=parties)


CSV, TSV, NPZ, ARROW, RESTING = range(5)  # formats of test/fuzz/Tables.cpp


def tables():
    """Files to import, with what is declared of their columns (bits of test/fuzz/Tables.cpp), and one of a store."""
    text = "a,n,s,id,d,k\n0.5,3,low,7,2020-02-29,1e3\n-1.25,11,high,8,1969-12-31,-2\n2,0,low,9,2024-01-01,0.1\n"
    gaps = "a,n,s\n,3,low\n1e999,,high\nnan,4,\n"
    for declared in (0, 1, 4, 7, 8, 16):
        yield f"csv-{declared}", bytes((CSV, declared)) + text.encode()
    yield "csv-gaps", bytes((CSV, 5)) + gaps.encode()
    yield "tsv", bytes((TSV, 1)) + text.replace(",", "\t").encode()
    arrays = {
        "a": np.linspace(-2, 3, 6),
        "n": np.arange(6, dtype=np.int16),
        "m": np.asfortranarray(np.arange(24, dtype=np.float32).reshape(6, 2, 2)),
        "b": np.arange(6) % 2 == 0,
    }
    for name, save in (("stored", np.savez), ("deflated", np.savez_compressed)):
        file = io.BytesIO()
        save(file, **arrays)
        yield f"npz-{name}", bytes((NPZ, 1)) + file.getvalue()
    table = pyarrow.table(
        {"a": [0.5, None, 2.0], "n": [1, 2, 3], "s": pyarrow.array(["low", "high", "low"]).dictionary_encode()}
    )
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    yield "arrow", bytes((ARROW, 5)) + sink.getvalue().to_pybytes()
    values = {
        "a": torch.linspace(-2, 3, 5, dtype=torch.float64),
        "n": torch.arange(5),
        "b": torch.arange(5) % 2 == 0,
        "m": torch.arange(30.0).reshape(5, 2, 3),
    }
    with tempfile.TemporaryDirectory() as folder:
        with sojourn.local(store=f"{folder}/store") as owner:
            owner.register("t", values, policy="open")
            (file,) = pathlib.Path(folder).glob("store/datasets/*.arrow")
            yield "resting", bytes((RESTING, 0)) + file.read_bytes()


def settings():
    """Files of `serve --config` (0) and rules of columns (1)."""
    yield "empty", b"\0"
    yield "address", b'\0listen = "ipc:///run/owner.sock"\n'
    yield (
        "whole",
        b'\0listen = "tcp://0.0.0.0:7000"\nmetrics = "127.0.0.1:9464"\nlog = "json"\ndrain_seconds = 2.5\n'
        b"[steps]\nseconds = 60\noperations = 1_000_000\narena_bytes = 1e9\nthreads = 4\n"
        b"[requests]\nat_once = 64\nper_session = 2\n[sessions]\nper_client = 8\nreconnect_seconds = 0\n"
        b"idle_seconds = 3600\n[values]\nbytes = 0\nper_session = 100\n[programs]\nmost = 20\n[plans]\nbytes = 1\n",
    )
    yield "inline", b'\0listen = "ipc:///a"\nsteps = {seconds = 0.0004, all_arena_bytes = 0}\n'
    yield "time-without-hour", b"\1visit = {lower = 2020-01-01, fill = 2021-01-01T:00}\n"  # an assert of the reader
    yield "letter-behind-a-number", "\1x = {lower = 0, fill = 0\u0444}\n".encode()  # none of its ranges of white space
    yield "bounds", b"\1age = [0, 120]\nweight = {lower = 0.5, upper = 300, fill = 70}\n"
    yield (
        "meanings",
        b'\1[bounds]\narm = {categories = ["low", "high"], fill = "low"}\nvisit = [2020-01-01, 2024-12-31]\n'
        b"code = {categories = [3, 1, 2]}\nhour = {lower = 2020-01-01T00:00:00, upper = 2020-01-02T00:00:00Z}\n",
    )


def changes():
    """Changes of calls of a worker and of its answers: number, kind, place, value, index (Worker.cpp)."""
    for name, change in (
        ("answer-of-describe", (0, 3, 40, 1, 0)),
        ("call-of-run", (5, 2, 16, 5, 0)),
        ("number-in-a-call", (8, 5, 24, 9, 0)),
        ("memory-of-an-answer", (10, 15, 0, 3, 0)),
        ("word-in-an-answer", (12, 7, 32, 2, 0)),
    ):
        yield name, struct.pack("<BBHBBH", *change, 0)


WHATS = (
    "kind sequence attempt step exchange digest code endedBy size terms group key "
    "twice insert earlier drop later head byte cut connect"
).split()


def frames():
    """Changes of frames of a member: message, member, frame, kind of change, value, index, place (PeerChanges.h)."""

    def change(message, member, frame, what, value=0, index=0, place=0):
        return struct.pack("<BBBBBBH", message, member, frame, WHATS.index(what), value, index, place)

    key = change(1, 0, 1, "insert", 4)
    yield "unchanged", b""
    yield "key-twice", key + key + change(1, 0, 1, "drop")
    yield "key-of-another", change(0, 1, 0, "key")
    yield "size-of-terms", change(2, 0, 2, "size", 8)
    yield "ready-first", change(0, 0, 1, "insert", 1)
    yield "end-of-later", change(1, 0, 1, "insert", 2, 4)
    yield "point-falls", change(1, 0, 1, "sequence", 255)
    yield "exchange", change(2, 1, 2, "exchange", 1)
    yield "bytes", change(3, 0, 1, "byte", 3, 0, 40)
    yield "handshake", change(2, 0, 0, "connect", 1, 3, 17)


def write(target, name, data):
    folder = pathlib.Path(*sys.argv[1:2] or [CORPUS]) / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    print(f"{target}/{name}: {len(data)} bytes")


def main():
    torch.manual_seed(1)
    seen = set()
    for session in (train_open, train_private, uploads, many_kinds, statistics, reads, named, refused):
        recorder = Recorder()
        recorder.take()
        session(recorder.owner)
        recorder.owner.close()
        messages = recorder.take()
        write("messages", session.__name__.replace("_", "-"), traffic(messages))
        for at, program in enumerate(programs(messages)):
            if len(program) < 40_000 and program not in seen:
                seen.add(program)
                write("programs", f"{session.__name__.replace('_', '-')}-{at}", program)
    for at, program in enumerate(joint()):
        write("programs", f"joint-{at}", program)
    for target, files in (
        ("artifacts", artifacts),
        ("tables", tables),
        ("settings", settings),
        ("worker", changes),
        ("frames", frames),
    ):
        for name, content in files():
            write(target, name, content)


if __name__ == "__main__":
    # The lines of the recorded programs name this file without its folder.
    names = {"__name__": "record", "__file__": __file__}
    exec(compile(pathlib.Path(__file__).read_text(), "record.py", "exec"), names)
    sys.exit(names["main"]())
