# SPDX-License-Identifier: Apache-2.0
"""Owners: embedded in this process, or behind a socket."""

from __future__ import annotations

import dataclasses

import torch

import _sojourn

from .errors import Error
from .table import Table, source_of


@dataclasses.dataclass(frozen=True)
class Budget:
    """A client's budget on a private table; all its releases together are (epsilon, delta)-DP.

    `epsilon_left` is the grant less the smallest grant that would admit what was released so far.
    It informs; the owner's filter decides, and often admits more than the difference says.
    """

    dataset: str
    granted: bool
    epsilon: float
    delta: float
    epsilon_left: float

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
        )


class Owner:
    """A connection to the party that holds the data. `owner.device` is a torch device."""

    def __init__(self, session, address: str, embedded=None):
        self._session = session
        self._embedded = embedded
        self.address = address

    @property
    def device(self) -> torch.device:
        """`torch.device("owner:N")`: `tensor.to(owner.device)` uploads a tensor of yours."""
        return torch.device("owner", self._session.index)

    def register(
        self, name: str, source, policy: str = "private", bounds: dict | None = None, fills: dict | None = None
    ):
        """Registers a table with an embedded owner (there you are the owner); returns its `Table`.

        `source`: path of a CSV, Parquet, Arrow or NPZ file, or a dict of arrays, whose
        first dimension counts rows and whose others are the shape of one row's entry.
        `policy`: "open" (values may be published) or "private" (they leave with noise only, paid from
        a budget: `grant`). Give a private table `bounds` of every column: statistics and losses whose
        rows have no bounds are clamped to a default.
        `bounds`: column -> (lower, upper); values are clamped to it. `fills`: column -> number that
        replaces missing and non-finite entries, which are refused otherwise.
        """
        if self._embedded is None:
            raise Error(
                f"{self.address} is not an embedded owner; its tables are registered there: "
                "sojourn-owner import FILE --name NAME"
            )
        self._embedded.register(name, source_of(source), policy, dict(bounds or {}), dict(fills or {}))
        return self.dataset(name)

    def grant(self, name: str, epsilon: float, delta: float) -> Budget:
        """Grants this process a budget on a private table of its embedded owner.

        Everything released from the table is then (epsilon, delta)-differentially private for each
        row. `delta`: well below one over the number of rows. A larger grant adds to the budget; what
        was spent stays spent.
        """
        if self._embedded is None:
            raise Error(
                f"{self.address} is not an embedded owner: its clients have no identity yet, so nobody can be granted "
                "a budget there"
            )
        for label, value in (("epsilon", epsilon), ("delta", delta)):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise Error(f"{label} must be a number, got {value!r}")
        self._embedded.grant(name, float(epsilon), float(delta))
        return self.budget(name)

    def budget(self, name: str) -> Budget:
        """What this client may still learn of a private table."""
        return Budget(name, *_sojourn.budget(self._session, name))

    def datasets(self) -> list[Table]:
        """Every table of this owner."""
        return [Table(table, self._session) for table in self._session.datasets()]

    def dataset(self, name: str) -> Table:
        """A table by name. Raises `Error` with the names there are."""
        return Table(self._session.dataset(name), self._session)

    def programs(self, with_text: bool = False) -> list[dict]:
        """What ran at this owner, newest last: hash, client, runs, ops and, if asked for, the IR."""
        return self._session.programs(with_text)

    def counters(self) -> dict[str, int]:
        """Counters of this connection; see `sojourn.counters`."""
        return self._session.counters()

    def close(self) -> None:
        """Ends the session; its remote tensors lose their values."""
        self._session.close()

    def __enter__(self) -> Owner:
        return self

    def __exit__(self, *exception):
        self.close()
        return False

    def __repr__(self) -> str:
        return f"Owner({self.address!r}, device='{self.device}')"


def local(store: str | None = None, runtime: str = "native", profile: str | None = None) -> Owner:
    """An owner in this process. `store`: folder that keeps its tables (default: memory only).

    `runtime`: "native", or "numpy" for the plain second implementation (open tables only, slow).
    `profile`: folder that gets, when the process ends at the latest, the times of every program's
    instructions as tables (`plan-1.txt`, ...) and as `trace.json` for chrome://tracing.
    """
    if runtime == "native":
        embedded = _sojourn.EmbeddedOwner(str(store or ""), str(profile or ""))
        return Owner(_sojourn.Session(embedded, "local"), "local", embedded)
    if runtime == "numpy":
        if store:
            raise Error("the numpy runtime keeps its tables in memory; leave out `store`")
        if profile:
            raise Error("the numpy runtime has no instructions to time; leave out `profile`")
        import sojourn_numpy

        embedded = sojourn_numpy.NumpyOwner()
        return Owner(_sojourn.Session(embedded.handle, "local (numpy)"), "local (numpy)", _NumpyRegistrar(embedded))
    raise Error(f"runtime {runtime!r} is unknown; expected 'native' or 'numpy'")


class _NumpyRegistrar:
    """The NumPy owner behind the embedded owner's registering call."""

    def __init__(self, owner):
        self._owner = owner

    @property
    def requests(self) -> int:
        return self._owner.requests

    def register(self, name, source, policy, bounds, fills):
        if not isinstance(source, str):
            source = {column: _array(column, tensor) for column, tensor in source.items()}
        try:
            self._owner.register(name, source, policy=policy, bounds=bounds or None, fills=fills or None)
        except (ValueError, OSError) as failure:
            raise Error(str(failure)) from failure


def _array(column: str, tensor: torch.Tensor):
    try:
        return tensor.numpy()
    except TypeError as failure:
        raise Error(f"column {column!r} has type {tensor.dtype}, which NumPy does not hold") from failure


def connect(address: str, timeout: float = 60.0) -> Owner:
    """Connects to `sojourn-owner serve` at "ipc:///path/to/socket" or "tcp://host:port".

    `timeout`: seconds to wait for any reply. Raises `ConnectionLost` if nobody answers.
    """
    return Owner(_sojourn.Session(address, address, int(timeout * 1000)), address)
