# SPDX-License-Identifier: Apache-2.0
"""Owners: embedded in this process, or behind a socket."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Sequence

import torch

import _sojourn

from . import checks, connections, notebook, sources, values
from .checks import flag, number, path, text
from .errors import Error
from .table import Table

_TIMEOUT_MOST = 1e6  # seconds; the transport counts milliseconds in 31 bits
_KEPT_MOST = 6  # of owners that nobody but a device refers to
# Sessions whose device somebody has taken, oldest first: by index, with the Owner that they were of.
_kept: dict[int, tuple] = {}


@dataclasses.dataclass(frozen=True)
class Budget:
    """A client's budget on a private table; all its releases together are (epsilon, delta)-DP.

    `epsilon_left` is the grant minus the smallest grant that would admit all releases so far. It is
    informational: the owner's filter decides, and often admits more than `epsilon_left`. `common_left`: epsilon that the
    cap on the people of the table leaves to all clients together, if that is less than `epsilon_left`; else None.
    """

    dataset: str
    granted: bool
    epsilon: float
    delta: float
    epsilon_left: float
    common_left: float | None = None

    def __repr__(self) -> str:
        if not self.granted:
            return f"no budget on '{self.dataset}'"
        spent = self.epsilon - self.epsilon_left
        return "\n".join(
            [
                f"budget on '{self.dataset}'   epsilon      delta",
                f"  granted   {self.epsilon:18.4g} {self.delta:10.2g}",
                f"  spent     {spent:18.4g}",
                f"  left      {self.epsilon_left:18.4g}",
            ]
            + ([] if self.common_left is None else [f"  left to all clients {self.common_left:8.4g}"])
        )

    def _repr_html_(self) -> str:
        if not self.granted:
            return notebook.paragraphs(repr(self))
        rows = [
            ("", "epsilon", "delta"),
            ("granted", f"{self.epsilon:.4g}", f"{self.delta:.2g}"),
            ("spent", f"{self.epsilon - self.epsilon_left:.4g}"),
            ("left", f"{self.epsilon_left:.4g}"),
        ]
        return notebook.table(f"Budget on '{self.dataset}'", rows)


class Connected:
    """What has a device: a connection to one owner, or to a group of owners."""

    def __init__(self, session):
        self.session = session

    @property
    def device(self) -> torch.device:
        """`torch.device("owner:N")`; `tensor.to(owner.device)` uploads a tensor.

        The device lives until `close()`, or until many newer devices exist that were not closed.
        """
        _kept[self.session.index] = (self.session, weakref.ref(self))
        _make_room(_KEPT_MOST)
        return torch.device("owner", self.session.index)

    def counters(self) -> dict[str, int]:
        """Counters of this connection; see `sojourn.counters`."""
        return self.session.counters()

    def close(self) -> None:
        """Ends the session; its remote tensors lose their values."""
        _kept.pop(self.session.index, None)
        self.session.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *exception):
        try:
            self.close()
        except Error:
            if kind is None:  # else it would hide what happened before
                raise
        return False


class Owner(Connected):
    """A connection to the party that holds the data. `owner.device` is a torch device."""

    def __init__(self, session, address: str, embedded=None):
        if not isinstance(session, _sojourn.Session):
            raise Error(
                f"an owner is opened by sojourn.local() or sojourn.connect(address), got {checks.shown(session)}"
            )
        super().__init__(session)
        self._embedded = embedded
        self.address = address
        connections.remember(session, self.key)

    @property
    def account(self) -> str:
        """The data owner's name for this client: "local" in its own process, "" without an identity."""
        return self.session.account

    @property
    def key(self) -> str | None:
        """The owner's public key, which verifies receipts; None for a served owner without an identity."""
        return getattr(self._embedded, "key", None) or self.session.owner_key or None

    def register(
        self,
        name: str,
        source,
        policy: str = "private",
        bounds: dict | None = None,
        fills: dict | None = None,
        subject: str | None = None,
        population: str | None = None,
        categories: dict | None = None,
    ):
        """Registers a table with an embedded owner (you are its data owner); returns the `Table`.

        `source`: path of a CSV, Parquet, Arrow or NPZ file, a dict of arrays, a DataFrame of pandas or polars, or a
        `pyarrow.Table`. A file is read in this process, within three quarters of the machine's memory; errors show no
        row of it. The first dimension of an array counts rows; the others are the shape of one row's entry.
        `policy`: "open" (values may be published) or "private" (values leave only with noise, charged to
        a budget: see `grant`). A private table needs `bounds` for every column except booleans, from
        public knowledge and not from the data.
        `bounds`: column -> (lower, upper); values are clamped to it. `fills`: column -> number (or category, or date)
        that replaces missing and non-finite entries, and those outside of the categories, which are otherwise refused.
        `categories`: column -> the texts (or ints) that its entries may be; an entry becomes its position in the list,
        an int64 with the bounds (0, count - 1). A private table needs them for every column of text or of categories,
        from public knowledge. Without them an open table takes the categories of a column of categories, else the texts
        found, sorted. A date becomes an int64, days since 1970; a time becomes a float64, seconds since 1970 (UTC if it
        has no zone); a duration becomes seconds. Bounds, fills, categories and units are public: `table.columns` shows
        them to every client.
        `subject`: the column that identifies the person a row is about; a subject with two rows is
        refused. The column is not part of the table: it is stored encrypted and never shown. None: each
        row is a subject. `population`: common name of tables about the same people, which are charged
        together.
        """
        if self._embedded is None:
            raise Error(
                f"{self.address} is not an embedded owner; register the table at the owner: "
                "sojourn-owner import FILE --name NAME"
            )
        named = (("subject", subject), ("population", population))
        people = {key: text(key, value) for key, value in named if value not in (None, "")}
        text("policy", policy)
        given = sources.read(source, bounds, fills, categories, policy != "open", subject=subject)
        limits, replacing = checks.bounds("bounds", given.bounds), checks.fills("fills", given.fills)
        self._embedded.register(text("name", name), given.columns, policy, limits, replacing, **people, **given.terms())
        return self.dataset(name)

    def describe(self, name: str, text: str | None = None, tags: Sequence[str] | None = None) -> Table:
        """Says what a table of an embedded owner holds, for clients with access, who find it by these words and tags.

        `text`: up to 4096 bytes. `tags`: up to 32 of up to 64 bytes. Omitted arguments change nothing. Returns the table.
        """
        if self._embedded is None:
            raise Error(
                f"{self.address} is not an embedded owner; describe the table at the owner: sojourn-owner describe "
                f"{name} --text TEXT --tag TAG"
            )
        old = self.dataset(name)
        words = old.description if text is None else checks.text("text", text)
        self._embedded.describe(old.name, words, list(old.tags if tags is None else checks.names("tags", tags)))
        return self.dataset(name)

    def share(self, name: str, with_: Sequence[Owner], level: str = "clear") -> None:
        """Says what other owners may see of a table of an embedded owner in steps of a group (`sojourn.parties`).

        `with_`: the other members. `level`: "clear" (whatever the client of the group may see, too), "sums" (sums over
        rows of three members or more, and at least 8 rows of this owner: each sees the total alone) or "none" (nothing:
        a program that shows them something is refused). It protects the rows from other members, the policy protects
        them from clients: a client that may fetch an open table's values can hand them on, and one that makes other
        members' parts zero turns a sum into this owner's part.
        """
        if self._embedded is None or not hasattr(self._embedded, "share"):
            raise Error(
                f"{self.address} is not an embedded owner; share the table at the owner: sojourn-owner share {name} "
                "--with OWNER --as clear"
            )
        if isinstance(with_, Owner) or not isinstance(with_, Sequence) or not all(isinstance(x, Owner) for x in with_):
            raise Error(f"with_ must be a list of owners, got {checks.shown(with_)}")
        self._embedded.share(
            self.dataset(text("name", name)).name, [_key_of(each) for each in with_], text("level", level)
        )

    def set_defaults(
        self,
        name: str,
        noise_multiplier: float | None = None,
        clip: float | None = None,
        metric_bound: float | None = None,
    ) -> Table:
        """Changes the defaults of an embedded owner's private table, for steps that do not set them.

        `noise_multiplier`: noise over sensitivity of a step; `clip`: bound of a row's gradient;
        `metric_bound`: bound of a row's contribution to a published value of unknown range. Omitted
        defaults are unchanged. Returns the table.
        """
        if self._embedded is None:
            raise Error(
                f"{self.address} is not an embedded owner; change defaults at the owner: sojourn-owner defaults {name} "
                "--noise-multiplier M --clip C"
            )
        if not hasattr(self._embedded, "set_defaults"):
            raise Error(f"{self.address} serves open tables only, which have no defaults; use the native runtime")
        old = self.dataset(name).defaults
        given = {"noise_multiplier": noise_multiplier, "clip": clip, "metric_bound": metric_bound}
        new = [kept if value is None else number(label, value) for (label, value), kept in zip(given.items(), old)]
        self._embedded.set_defaults(name, *new)
        return self.dataset(name)

    def grant(self, name: str, epsilon: float, delta: float) -> Budget:
        """Grants this process a budget on a private table of its embedded owner.

        Everything released from the table is then (epsilon, delta)-differentially private for each
        row. `delta`: well below one over the number of rows. A larger grant adds to the budget; earlier
        charges remain.
        """
        if self._embedded is None:
            raise Error(
                f"{self.address} is not an embedded owner; grant the budget at the owner: "
                f"sojourn-owner budget grant CLIENT {name} --epsilon E --delta D"
            )
        if not hasattr(self._embedded, "grant"):
            raise Error(f"{self.address} serves open tables only and keeps no budgets; use the native runtime")
        self._embedded.grant(text("name", name), number("epsilon", epsilon), number("delta", delta))
        return self.budget(name)

    def budget(self, name: str) -> Budget:
        """This client's budget on a private table. Raises `Error`, with the known names, for an unknown table."""
        budget = Budget(text("name", name), *_sojourn.budget(self.session, name))
        if not budget.granted:
            self.session.dataset(name)  # says which there are
        return budget

    def datasets(self) -> list[Table]:
        """All tables of this owner; of a served one those to which this client has access."""
        return [Table(each, self.session) for each in self.session.datasets()]

    def dataset(self, name: str) -> Table:
        """A table by name. Raises `Error`, with the known names, for an unknown table."""
        return Table(self.session.dataset(text("name", name)), self.session)

    def values(self, tag: str | None = None) -> values.NamedValues:
        """The values here to which this client has given names (`sojourn.name`), by name; `tag`: those with this tag.

        Printed, the result is a table with name, tags, dtype, shape, bytes, and when a value got its name and was last
        used.
        """
        return values.listed(self.session, "" if tag is None else text("tag", tag))

    def value(self, name: str) -> torch.Tensor | dict[str, torch.Tensor]:
        """The value with a name, as a remote tensor; of a mapping that was named, a dict with its keys.

        Any connection of the same identity finds it. Later updates in place (an optimizer's, say) change the value that
        has the name, from any connection; the last one counts. A value computed from a private table stays private. Raises `Error`, with the known names, for an unknown name,
        and inside of a step.
        """
        return values.found(self.session, text("name", name))

    def release(self, name: str) -> None:
        """Takes the name of a value away, or those of a mapping's values.

        The value goes, and its memory, where no tensor of an open connection stands for it. Raises `Error`, with the
        known names, for an unknown name, and inside of a step.
        """
        values.release(self.session, text("name", name))

    def programs(self, with_text: bool = False) -> list[dict]:
        """The programs run at this owner, newest last: hash, client, runs, ops and, if `with_text`, the IR."""
        return self.session.programs(flag("with_text", with_text))

    def __repr__(self) -> str:
        return f"Owner({self.address!r}, device='{self.device}')"

    def _repr_html_(self) -> str:
        rows = [("device", self.device), ("account", self.account or "none"), ("key", self.key or "unknown")]
        return notebook.table(f"Owner at {self.address}", rows)


def local(store: str | None = None, runtime: str = "native", profile: str | None = None) -> Owner:
    """An owner in this process. `store`: folder that keeps its tables (default: memory only).

    `runtime`: "native", or "numpy" for the plain second implementation (open tables only, slow).
    `profile`: folder for the times of every program's instructions, as tables (`plan-1.txt`, ...) and as
    `trace.json` for chrome://tracing; written by the end of the process.
    """
    if runtime == "native":
        given = (("store", store), ("profile", profile))
        folders = ("" if value is None else path(name, value) for name, value in given)
        embedded = _sojourn.EmbeddedOwner(*folders)
        return Owner(_sojourn.Session(embedded, "local"), "local", embedded)
    if runtime == "numpy":
        if store:
            raise Error("the numpy runtime keeps its tables in memory; leave out `store`")
        if profile:
            raise Error("the numpy runtime has no instructions to time; leave out `profile`")
        import sojourn_numpy

        embedded = sojourn_numpy.NumpyOwner()
        return Owner(_sojourn.Session(embedded.handle, "local (numpy)"), "local (numpy)", _NumpyRegistrar(embedded))
    raise Error(f"runtime {checks.shown(runtime)} is unknown; expected 'native' or 'numpy'")


def _key_of(owner: Owner) -> str:
    if owner.key is None:
        raise Error(f"the key of the owner at {owner.address} is not known; connect with an identity")
    return owner.key


def _make_room(most: int) -> None:
    """Drops the oldest owners that only their devices refer to, until at most `most` of them remain."""
    alone = [index for index, (_, owner) in _kept.items() if owner() is None]
    for index in alone[: max(0, len(alone) - most)]:
        del _kept[index]


def reclaim() -> None:
    """Drops owners that only cycles of Python objects or their devices refer to. Called when a new one has no room."""
    gc.collect()
    _make_room(0)


class _NumpyRegistrar:
    """Gives the NumPy owner the `register` of an embedded owner."""

    def __init__(self, owner):
        self._owner = owner

    @property
    def requests(self) -> int:
        return self._owner.requests

    def register(self, name, source, policy, bounds, fills, meanings, fill_texts, bound_texts, **people):
        if people:
            raise Error(f"{' and '.join(people)}: the numpy runtime keeps no budgets; use the native one")
        if isinstance(source, str) and (meanings or fill_texts or bound_texts):
            raise Error(
                f"the numpy runtime reads files of numbers, got categories, texts or dates for {source!r}: read the file "
                "first, for example pyarrow.parquet.read_table(path), and pass the result"
            )
        if not isinstance(source, str):
            source = {column: _array(column, tensor) for column, tensor in source.items()}
        try:
            self._owner.register(
                name, source, policy=policy, bounds=bounds or None, fills=fills or None, meanings=meanings
            )
        except (ValueError, OSError) as failure:
            raise Error(str(failure)) from failure

    def describe(self, name: str, text: str, tags: list[str]) -> None:
        try:
            self._owner.describe(name, text, tags)
        except ValueError as failure:
            raise Error(str(failure)) from failure


def _array(column: str, tensor: torch.Tensor):
    try:
        return tensor.numpy()
    except TypeError as failure:
        raise Error(
            f"column {column!r} has type {tensor.dtype}, which NumPy does not support; convert it to float32"
        ) from failure


def connect(
    address: str, timeout: float = 60.0, identity=None, owner_key: str | None = None, plain_tcp: bool = False
) -> Owner:
    """Connects to `sojourn-owner serve` at "ipc:///path/to/socket" or "tls+tcp://host:port".

    `timeout`: seconds to wait for any reply. `identity`: path of the secret key that `sojourn keygen`
    made and whose public half the owner has added; a connection without it is anonymous: it uses the
    tables that are open to anyone, and has no budget on private ones. `owner_key`: key of the expected
    owner, as `sojourn-owner key` prints it; default: the owner first met at this address, noted in
    `IDENTITY.owners`, without an identity in `~/.config/sojourn/owners` (TLS only). `plain_tcp`: take
    "tcp://127.0.0.1:port", too, which is not encrypted; for tests on one machine. Raises `ConnectionLost` if no owner answers, `Refused` if the owner rejects the
    identity or is not the expected one.
    """
    text("address", address)
    milliseconds = int(1000 * checks.positive("timeout", timeout, _TIMEOUT_MOST))
    file = "" if identity is None else path("identity", identity)
    key = "" if owner_key is None else text("owner_key", owner_key)
    session = _sojourn.Session(address, address, milliseconds, file, key, checks.flag("plain_tcp", plain_tcp))
    return Owner(session, address)
