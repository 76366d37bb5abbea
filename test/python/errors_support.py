# SPDX-License-Identifier: Apache-2.0
"""Examples of every refusal that a script can meet: for the page of errors (tools/errors.py) and test_errors.py.

An example is a function whose body is what the document shows. Its parameters name what it starts from (`World`); it
raises the error that it is about. The errors_*_support modules hold the examples, by topic.
"""

import atexit
import contextlib
import dataclasses
import functools
import importlib
import inspect
import io
import logging
import pathlib
import re
import shutil
import subprocess
import tempfile
import textwrap
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from owner_process import OwnerProcess
from torch import nn

import sojourn

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOPICS = (
    "values",
    "names",
    "recording",
    "steps",
    "tables",
    "owners",
    "parties",
    "private",
    "releases",
    "ahead",
    "compiled",
    "arguments",
)
EXAMPLES: dict[str, "Example"] = {}
FILE = "example.py"  # what the document calls the file of a snippet


@dataclasses.dataclass(frozen=True)
class Example:
    """One refusal: the class that is raised and parts that its text must hold."""

    title: str
    kind: type
    parts: tuple[str, ...]
    function: Callable

    @functools.cached_property
    def lines(self) -> tuple[int, list[str]]:
        """Number of the body's first line in its file, and the body."""
        source, first = inspect.getsourcelines(self.function)
        head = next(k for k, line in enumerate(source) if line.startswith("def "))
        while not source[head].rstrip().endswith(":"):
            head += 1
        return first + head + 1, textwrap.dedent("".join(source[head + 1 :])).rstrip().splitlines()

    @property
    def snippet(self) -> str:
        """As the document shows it: without what is for linters."""
        return "\n".join(re.sub(r"  # (noqa|fmt).*", "", line) for line in self.lines[1])


def example(kind: type, title: str, *parts: str):
    """Registers the function below; the error's text contains `parts`, in any order."""

    def register(function):
        assert title not in EXAMPLES, title
        EXAMPLES[title] = Example(title, kind, parts, function)
        return function

    return register


class Server(OwnerProcess):
    """A served owner that clients know to have ended when `close()` returns."""

    def close(self) -> int:
        status = super().close()
        time.sleep(0.2)  # their sockets are told apart from this thread
        return status


class World:
    """Values that examples start from, made when a parameter asks for it."""

    def __init__(self):
        self._stack = contextlib.ExitStack()
        self.made: dict[str, object] = {}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._stack.close()

    def get(self, name: str):
        if name not in self.made:
            self.made[name] = getattr(self, "_" + name)()
        return self.made[name]

    def _owner(self):
        return self._stack.enter_context(sojourn.local())

    def _device(self):
        return self.get("owner").device

    def _x(self):
        return torch.arange(6.0, device=self.get("device")).reshape(2, 3)

    def _folder(self):
        return pathlib.Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="sojourn-")))

    def _columns(self):
        numbers = np.random.default_rng(7)
        return {"age": numbers.integers(18, 90, 96), "dose": numbers.uniform(0, 2, 96), "ill": np.arange(96) % 2}

    def _houses(self):
        return self.get("owner").register("houses", self.get("columns"), policy="open")

    def _other(self):
        """A second owner in this process, with a table of the same columns."""
        other = self._stack.enter_context(sojourn.local())
        other.register("houses", self.get("columns"), policy="open")
        return other

    def _group(self):
        self.get("houses")
        return self._stack.enter_context(sojourn.parties(self.get("owner"), self.get("other")))

    def _patients(self):
        """Nobody has a budget on it yet."""
        bounds = {"age": (0, 100), "dose": (0, 2), "ill": (0, 1)}
        return self.get("owner").register("patients", self.get("columns"), policy="private", bounds=bounds)

    def _funded(self):
        """The same table with a budget."""
        self.get("patients")
        self.get("owner").grant("patients", epsilon=4, delta=1e-5)
        return self.made["patients"]

    def _address(self):
        """Of an owner that is served, with the private table `patients` for anyone, and `labs` for no client."""
        return served().address

    def _server(self):
        """The process of another one; `close()` ends it."""
        server = Server(self.get("folder"))
        self._stack.callback(server.close)
        return server

    def _data_owner(self):
        """Runs a command of `sojourn-owner` beside that server."""
        return lambda words: administer(*words.split())

    def _identity(self):
        """A client that the served owner knows and that has no budget yet."""
        shutil.copytree(hospital() / "keys", self.get("folder"), dirs_exist_ok=True)
        return self.get("folder") / "ada.key"

    def _stranger(self):
        """An identity that the served owner does not know."""
        return self.get("identity").parent / "stranger.key"

    def _model(self):
        return nn.Linear(2, 2).to(self.get("device"))

    def _optimizer(self):
        return torch.optim.SGD(self.get("model").parameters(), lr=0.1)

    def _program(self):
        """Compiled for batches of an open table `houses`."""
        return compiled("houses", "open")

    def _joint_program(self):
        """Compiled for parties a and b, over batches of their tables as one; `houses` fits both."""
        return compiled_for("ab")

    def _private_program(self):
        return compiled("patients", "private")


@functools.cache
def hospital() -> pathlib.Path:
    """A folder with the store of an owner that is served, and with keys of clients."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sojourn-"))
    atexit.register(shutil.rmtree, folder)

    def command(tool, *arguments):
        subprocess.run([ROOT / "build/bin" / tool, *arguments], check=True, capture_output=True)

    np.savez(folder / "patients.npz", age=np.arange(96.0))
    store, keys = ["--store", folder / "store"], folder / "keys"
    keys.mkdir()
    terms = ["--policy=private", "--rows-are-subjects", "--bound=age=0:100", *store]
    for name, *access in (("patients", "--anyone"), ("labs",)):
        command("sojourn-owner", "import", folder / "patients.npz", "--name", name, *access, *terms)
    for name in ("ada", "stranger"):
        command("sojourn", "keygen", keys / f"{name}.key")
    command("sojourn-owner", "client", "add", "ada", "--key", keys / "ada.key.pub", *store)
    return folder


def administer(*words):
    command = [ROOT / "build/bin/sojourn-owner", *words, "--store", hospital() / "store"]
    subprocess.run(command, check=True, capture_output=True)


@functools.cache
def served() -> OwnerProcess:
    """One process for all examples that leave it as it is."""
    process = OwnerProcess(hospital())
    atexit.register(process.close)
    return process


COLUMNS = {"age": torch.int64, "dose": torch.float64, "ill": torch.int64}


def compiled(name, policy):
    """A training step over batches of such a table as `World` registers."""
    bounds = {"age": (0, 100), "dose": (0, 2), "ill": (0, 1)} if policy == "private" else None
    tables = {name: sojourn.table_spec(96, COLUMNS, policy=policy, bounds=bounds)}
    return trained_over(tables, lambda **tables: tables[name].batches(["age", "dose"], label="ill", size=16))


def compiled_for(parties):
    """The same over tables of several parties."""
    tables = {name: sojourn.table_spec(96, COLUMNS, party=name) for name in parties}
    return trained_over(
        tables, lambda **tables: sojourn.pooled(*tables.values()).batches(["age", "dose"], label="ill", size=16)
    )


def trained_over(tables, batches):
    kept = {}

    def init():
        kept["weight"] = torch.zeros(2, 2, device=device, requires_grad=True)
        kept["optimizer"] = torch.optim.SGD([kept["weight"]], lr=0.1)

    def train(x, y):
        kept["optimizer"].zero_grad()
        nn.functional.cross_entropy(x @ kept["weight"], y).backward()
        kept["optimizer"].step()
        return ()

    with sojourn.offline() as device:
        return sojourn.compile(train, init=init, tables=tables, batches=batches)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What an example raised: the exception, and its text with what differs between machines made the same."""

    failure: BaseException
    text: str


def without_frames(failure: BaseException | None) -> None:
    """Drops the frames of a failure and of its causes: they would keep tensors, and so owners."""
    while failure:
        failure.__traceback__ = failure.__context__ = None
        failure = failure.__cause__


def run(each: Example, world: World) -> Outcome:
    """Runs an example that must raise."""
    given = {name: world.get(name) for name in inspect.signature(each.function).parameters}
    sojourn.flush()
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        logger = logging.getLogger("sojourn")
        level = logger.level
        logger.setLevel(logging.ERROR)
        try:
            each.function(**given)
        except Exception as failure:
            without_frames(failure)
            return Outcome(failure, stable(str(failure), each, world))
        finally:
            logger.setLevel(level)
    raise AssertionError(f"'{each.title}' raised nothing")


def stable(text: str, each: Example, world: World) -> str:
    """Lines are those of the snippet; paths, devices, keys and numbers of processes are the same everywhere."""
    first, body = each.lines
    own = re.escape(inspect.getsourcefile(each.function))

    def line(match):
        number = int(match[1]) - first + 1
        return f"{FILE}:{number}" if 0 < number <= len(body) else FILE

    text = re.sub(own + r":(\d+)", line, text)
    text = re.sub(re.escape(str(pathlib.Path(__file__).parent)) + r"/\w+\.py:\d+", FILE, text)
    if "folder" in world.made:
        text = text.replace(str(world.made["folder"]), "FOLDER")
    if "address" in world.made:
        text = text.replace(str(hospital()), "FOLDER")
    devices = list(dict.fromkeys(re.findall(r"owner:(\d+)", text)))
    text = re.sub(r"owner:(\d+)", lambda match: f"owner:{devices.index(match[1])}", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "<64 digits>", text)
    processes = list(dict.fromkeys(re.findall(r"\bprocess (\d+)", text)))
    text = re.sub(r"\bprocess (\d+)", lambda match: f"process {'NM'[processes.index(match[1])]}", text)
    text = re.sub(r"the \d+ bytes before that", "the N bytes before that", text)  # lines of scripts are in there
    return re.sub(r"0x[0-9a-f]{6,}", "0x...", text)


def load() -> dict[str, Example]:
    """All examples, by title."""
    for topic in TOPICS:
        importlib.import_module(f"errors_{topic}_support")
    return EXAMPLES
