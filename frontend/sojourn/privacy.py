# SPDX-License-Identifier: Apache-2.0
"""Private training: what a run may cost, and what it has cost.

The owner does the rest: it clips each row's gradient, adds noise, and charges the budget, whatever
the client says. Here stand the options of a step's message, and prices, which are a function of
public numbers alone. Source of the accounting: notes in runtime/privacy/Rdp.h and Filter.h.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings

import _sojourn

from .errors import Error
from .step import flush
from .table import Table, integer

_runs = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class Quote:
    """A price: `epsilon` at `delta` for `steps` steps at `noise_multiplier`, each row in a step with `sampling_rate`."""

    epsilon: float
    delta: float
    steps: int
    noise_multiplier: float
    sampling_rate: float

    def __str__(self) -> str:
        return (
            f"epsilon {self.epsilon:.4g} at delta {self.delta:g}: {self.steps} steps, noise multiplier "
            f"{self.noise_multiplier:.4g}, sampling rate {self.sampling_rate:.4g}"
        )


def positive(name: str, value, most: float = math.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < float(value) < most:
        expected = "a number above 0" + (f" and below {most:g}" if math.isfinite(most) else "")
        raise Error(f"{name} must be {expected}, got {value!r}")
    if not math.isfinite(value):
        raise Error(f"{name} must be finite, got {value!r}")
    return float(value)


class privacy:
    """How steps on a private table spend, as a context manager.

    ::

        with sojourn.privacy(rows, epsilon=3, delta=1e-5, epochs=20, clip=1.0) as run:
            for x, y in rows.batches(features, label="y", size=64, epochs=20):
                train(x, y)

    `table`: the table or part of one that batches are drawn from. `epsilon` and `delta`: the price
    of the whole run; the noise follows. Or `noise_multiplier`: noise over sensitivity of a step;
    the price follows. With neither the owner's defaults stand. `size`, `epochs`: as given to
    `batches`; taken from there if left out. `clip`: bound of a row's gradient, all parameters
    together; `per_layer` clips each tensor alone. `loss`: "mean" if the loss is a mean over the
    batch, else "sum". `metric_share`: part of a step's budget for the values published in it.

    At the end of the context the run is over, and the owner returns what it did not use. What the
    owner had to change in the program is told as a warning. On open tables all of it is accepted
    and ignored.
    """

    def __init__(
        self,
        table: Table,
        epsilon: float | None = None,
        delta: float | None = None,
        noise_multiplier: float | None = None,
        clip: float | None = None,
        epochs: int | None = None,
        size: int | None = None,
        loss: str = "mean",
        per_layer: bool = False,
        metric_share: float | None = None,
    ):
        if not isinstance(table, Table):
            raise Error(f"privacy takes a table or a part of one, got {type(table).__name__}")
        if (epsilon is None) == (noise_multiplier is None) and epsilon is not None:
            raise Error("give epsilon (the noise follows) or noise_multiplier (the price follows), not both")
        if loss not in ("mean", "sum"):
            raise Error(f'loss must be "mean" or "sum", got {loss!r}')
        self._table = table
        self._epsilon = None if epsilon is None else positive("epsilon", epsilon)
        self._delta = None if delta is None else positive("delta", delta, 1.0)
        self._noise = None if noise_multiplier is None else positive("noise_multiplier", noise_multiplier)
        self._clip = 0.0 if clip is None else positive("clip", clip)
        self._share = -1.0
        if metric_share is not None:
            if not 0 <= metric_share <= 0.95:
                raise Error(f"metric_share must lie between 0 and 0.95, got {metric_share!r}")
            self._share = float(metric_share)
        self._loss, self._per_layer = loss, bool(per_layer)
        self._epochs = None if epochs is None else integer("epochs", epochs)
        self._size = None if size is None else integer("size", size)
        self._number = next(_runs)
        self._taken = 0
        self._outer: privacy | None = None

    # What is known of the run.

    @property
    def is_private(self) -> bool:
        """False on an open table, where nothing is spent."""
        return self._table.policy == "private"

    @property
    def steps(self) -> int:
        """Steps of the whole run: epochs * ceil(rows / size)."""
        epochs, size = self._known("epochs"), self._known("size")
        return epochs * -(-len(self._table) // size)

    @property
    def sampling_rate(self) -> float:
        """Probability of each row to be in a step's batch."""
        return _sojourn.sampling_rate(len(self._table), self._known("size"))

    @property
    def delta(self) -> float:
        if self._delta is None:
            granted, _, delta, _ = self._budget()
            if not granted:
                raise Error(f"give delta: there is no budget on '{self._table.name}' to take it from")
            self._delta = delta
        return self._delta

    @property
    def noise_multiplier(self) -> float:
        """Noise over sensitivity of one step."""
        if self._noise is None:
            self._noise = (
                self._table.defaults.noise_multiplier
                if self._epsilon is None
                else _sojourn.noise_multiplier_for(
                    self._epsilon, self.delta, len(self._table), self._known("size"), self.steps
                )
            )
        return self._noise

    @property
    def epsilon(self) -> float:
        """Spent so far by the steps of this run."""
        return self.quote(self._taken).epsilon if self.is_private else 0.0

    def quote(self, steps: int | None = None) -> Quote:
        """The price of the run, or of its first `steps` steps; nothing is spent."""
        count = self.steps if steps is None else integer("steps", steps)
        size = self._known("size")
        epsilon = _sojourn.epsilon_of(self.noise_multiplier, self.delta, len(self._table), size, count)
        return Quote(epsilon, self.delta, count, self.noise_multiplier, self.sampling_rate)

    def _known(self, name: str) -> int:
        value = getattr(self, f"_{name}")
        if value is None:
            raise Error(f"{name} is not known yet: give {name}= to privacy(...), or take the batches first")
        return value

    def _budget(self):
        return _sojourn.budget(self._session(), self._table.name)

    def _session(self):
        session = self._table._session
        if session is None:
            raise Error(f"table '{self._table.name}' is not at an owner")
        return session

    def __repr__(self) -> str:
        if not self.is_private:
            return f"privacy: table '{self._table.name}' is open, nothing is spent"
        if self._size is None or self._epochs is None:
            known = "the owner's defaults" if self._epsilon is None else f"epsilon {self._epsilon:g}"
            return f"privacy on '{self._table.name}': {known}; size and epochs follow from the batches"
        if self._delta is None and not self._budget()[0]:
            return (
                f"privacy on '{self._table.name}': {self.steps} steps, sampling rate {self.sampling_rate:.4g}; there is no "
                "budget yet whose delta would give the price: have one granted, or give delta="
            )
        scale = "a mean over the batch" if self._loss == "mean" else "a sum over the batch"
        now = self.quote(self._taken).epsilon
        return (
            f"privacy on '{self._table.name}': {self.quote()}; spent so far epsilon {now:.4g} in {self._taken} steps; "
            f"each row's gradient is clipped to {self._clip or self._table.defaults.clip:g}, the loss is taken for {scale}"
        )

    # Around the steps.

    def __enter__(self) -> privacy:
        global _current
        self._outer, _current = _current, self
        if self.is_private and self._size is not None and self._epochs is not None:
            self._send()
        return self

    def __exit__(self, *exception):
        global _current
        _current = self._outer
        if self.is_private:
            if not _sojourn.step_active() and exception[0] is None:
                flush()  # what is pending belongs to this run
            _sojourn.set_spending(self._session())
            if self._outer is not None and self._outer.is_private:
                self._outer._send()
            for note in dict.fromkeys(_sojourn.take_notes(self._session())):
                warnings.warn(note, stacklevel=2)
            if self._taken:
                _sojourn.budget(self._session(), self._table.name, end_run=self._number)
        return False

    def _send(self) -> None:
        _sojourn.set_spending(
            self._session(),
            run=self._number,
            steps=self.steps,
            noise_multiplier=self.noise_multiplier,
            clip=self._clip,
            per_layer=self._per_layer,
            loss_is_sum=self._loss == "sum",
            metric_share=self._share,
        )

    def _batches(self, table: Table, size: int, epochs: int) -> None:
        """Called when batches of the run's table are taken inside of the context."""
        self._declare(table.name, len(table), size, epochs)

    def _declare(self, name: str, rows: int, size: int, epochs: int) -> None:
        """What the run's batches are: rows that they are drawn from, expected size, epochs."""
        if rows != len(self._table):
            raise Error(
                f"the run was declared for {len(self._table)} rows of '{name}', the batches are drawn from "
                f"{rows}: its price would be another; give privacy(...) the table or part that the batches are of"
            )
        for what, value in (("size", size), ("epochs", epochs)):
            known = getattr(self, f"_{what}")
            if known is not None and known != value:
                raise Error(f"the run was declared with {what}={known}, the batches have {what}={value}")
            setattr(self, f"_{what}", value)
        if self.is_private:
            self._send()


_current: privacy | None = None


def current() -> privacy | None:
    """The innermost open context."""
    return _current
