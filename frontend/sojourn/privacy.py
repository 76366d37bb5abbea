# SPDX-License-Identifier: Apache-2.0
"""Private training: the planned and the actual cost of a run.

The owner does the rest: it clips each row's gradient, adds noise and charges the budget, whatever
the client says. This module has the options of a step's message, and prices, which depend on public
numbers alone. The notes in runtime/privacy/Rdp.h and Filter.h give the source of the accounting.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools

import _sojourn

from . import checks, current, notebook
from .checks import integer, within
from .errors import Error
from .step import flush
from .table import Table

_runs = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class Quote:
    """A price: `epsilon` at `delta` for `steps` steps at `noise_multiplier`, each row in a step with `sampling_rate`.

    `epsilon` is the grant that the run needs, where later requests may depend on earlier results.
    `epsilon_of_best_order` is the privacy loss of the planned run alone: the best of all integer orders of the Renyi
    divergence from 2 to 1024, as other accountants quote it. On an open table both and the noise multiplier are 0:
    nothing is charged, and no noise is added.
    """

    epsilon: float
    delta: float
    steps: int
    noise_multiplier: float
    sampling_rate: float
    epsilon_of_best_order: float = 0.0

    def __str__(self) -> str:
        count = f"{self.steps} step" + ("" if self.steps == 1 else "s")
        if self.noise_multiplier == 0:
            return f"nothing is charged on an open table: {count}, sampling rate {self.sampling_rate:.4g}"
        return (
            f"epsilon {self.epsilon:.4g} at delta {self.delta:g} (by the best order {self.epsilon_of_best_order:.4g}): "
            f"{count}, noise multiplier {self.noise_multiplier:.4g}, sampling rate {self.sampling_rate:.4g}"
        )

    def _repr_html_(self) -> str:
        if self.noise_multiplier == 0:
            return notebook.table("Quote of a run", [], [str(self)])
        rows = [
            ("epsilon", f"{self.epsilon:.4g}"),
            ("epsilon by the best order", f"{self.epsilon_of_best_order:.4g}"),
            ("delta", f"{self.delta:g}"),
            ("steps", self.steps),
            ("noise multiplier", f"{self.noise_multiplier:.4g}"),
            ("sampling rate", f"{self.sampling_rate:.4g}"),
        ]
        return notebook.table("Quote of a run", rows)


class privacy:
    """Context manager that sets how steps on a private table spend.

    ::

        with sojourn.privacy(rows, epsilon=3, delta=1e-5, epochs=20, clip=1.0) as run:
            for x, y in rows.batches(features, label="y", size=64, epochs=20):
                train(x, y)

    `table`: the table, or part of one, from which batches are drawn. `epsilon` and `delta`: price of the
    whole run; they determine the noise. `noise_multiplier` instead: noise over sensitivity of a step; it
    determines the price. With neither, the owner's defaults apply. `size`, `epochs`: those of all batches
    of the run together; default: those of the first call of `batches`. `clip`: bound of a row's gradient
    over all parameters; `per_layer` clips each tensor separately. `loss`: "mean" if the loss is a mean
    over the batch, else "sum". `metric_share`: part of a step's budget for the values published in it.

    A run is one `with` block. When the block ends, the owner returns the unused part of the run's budget.
    On open tables all arguments are accepted and ignored.
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
        if not isinstance(loss, str) or loss not in ("mean", "sum"):
            raise Error(f'loss must be "mean" or "sum", got {checks.shown(loss)}')
        self._table = table
        self._epsilon = None if epsilon is None else within("epsilon", epsilon, checks.EPSILON)
        self._delta = None if delta is None else within("delta", delta, checks.DELTA)
        self._noise, self._is_noise_given = noise_multiplier, noise_multiplier is not None
        if noise_multiplier is not None:
            self._noise = within("noise_multiplier", noise_multiplier, checks.NOISE_MULTIPLIER)
        self._clip = 0.0 if clip is None else within("clip", clip, checks.BOUND)
        self._share = -1.0
        if metric_share is not None:
            self._share = within("metric_share", metric_share, checks.METRIC_SHARE)
        self._loss, self._per_layer = loss, checks.flag("per_layer", per_layer)
        self._epochs = None if epochs is None else integer("epochs", epochs, 1)
        self._size = None if size is None else integer("size", size, 1)
        self._is_planned = epochs is not None
        self._number = next(_runs)
        self._final: tuple[int, float] | None = None  # steps and epsilon of a run that is over
        self._was_entered = self._is_declared = False
        self._outer: current.Run | None = None

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
        """Probability that a row is in a step's batch; on an open table the share of rows in a batch."""
        rows, size = len(self._table), self._known("size")
        return _sojourn.sampling_rate(rows, size) if self.is_private else min(1.0, size / max(rows, 1))

    @property
    def delta(self) -> float:
        if self._delta is None and self.is_private:
            granted, _, delta, *_ = self._budget()
            if not granted:
                raise Error(f"give delta: there is no budget on '{self._table.name}' to take it from")
            self._delta = delta
        return self._delta or 0.0

    @property
    def noise_multiplier(self) -> float:
        """Noise over sensitivity of one step; 0 on an open table."""
        if not self.is_private:
            return 0.0
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
    def taken(self) -> int:
        """Number of steps that the owner accepted and charged to this run."""
        return self._spent()[0]

    @property
    def epsilon(self) -> float:
        """Epsilon, at `delta`, of the owner's charges so far for the steps of this run, draw by draw.

        It does not include values with a separate price. Rows from which no step released a value are free.
        """
        return self._spent()[1]

    def _spent(self) -> tuple[int, float]:
        if self._final is not None or not self._was_entered or not self.is_private:
            return self._final or (0, 0.0)
        steps, _ = _sojourn.run_spent(self._session(), self._number, self._table.name)
        return _sojourn.run_spent(self._session(), self._number, self._table.name, self.delta) if steps else (0, 0.0)

    def quote(self, steps: int | None = None) -> Quote:
        """The price of the run, or of its first `steps` steps; nothing is spent."""
        count = self.steps if steps is None else integer("steps", steps, 0)
        size = self._known("size")
        epsilon = best = 0.0
        if self.is_private:
            terms = (self.noise_multiplier, self.delta, len(self._table), size, count)
            epsilon, best = _sojourn.epsilon_of(*terms), _sojourn.epsilon_of_best_order(*terms)
        return Quote(epsilon, self.delta, count, self.noise_multiplier, self.sampling_rate, best)

    def _known(self, name: str) -> int:
        value = getattr(self, f"_{name}")
        if value is None:
            raise Error(f"{name} is not known yet: give {name}= to privacy(...), or take the batches first")
        return value

    def _budget(self):
        return _sojourn.budget(self._session(), self._table.name)

    def _session(self):
        session = self._table.session
        if session is None:
            raise Error(f"table '{self._table.name}' is not at an owner; get it from its owner: owner.dataset(name)")
        return session

    def __repr__(self) -> str:
        if not self.is_private:
            return f"privacy: table '{self._table.name}' is open, nothing is spent"
        has_delta = self._delta is not None or self._budget()[0]
        scale = "a mean over the batch" if self._loss == "mean" else "a sum over the batch"
        clip = f"{self._clip or self._table.defaults.clip:g}" + ("" if self._clip else ", the table's default")
        terms = f"each row's gradient is clipped to {clip}{' for each tensor' if self._per_layer else ''}, the loss is "
        terms += f"taken for {scale}"
        if self._size is None or self._epochs is None or not has_delta:
            return (
                f"privacy on '{self._table.name}': {self._known_so_far(has_delta)}; {terms}{self._missing(has_delta)}"
            )
        taken, spent = self._spent()
        return (
            f"privacy on '{self._table.name}': {self.quote()} of {len(self._table)} rows; spent so far epsilon "
            f"{spent:.4g} in {taken} step{'' if taken == 1 else 's'}; {terms}"
        )

    def _known_so_far(self, has_delta: bool) -> str:
        if self._epsilon is not None:
            known = f"epsilon {self._epsilon:g}"
        elif self._is_noise_given:
            known = f"noise multiplier {self._noise:.4g}"
        else:
            known = f"the table's default noise multiplier, {self.noise_multiplier:g},"
        parts = [known + (f" at delta {self.delta:g}" if has_delta else ""), f"{len(self._table)} rows"]
        if self._size is not None:
            parts.append(f"batches of {self._size}, sampling rate {self.sampling_rate:.4g}")
        if self._epochs is not None:
            parts.append(f"{self._epochs} epoch" + ("" if self._epochs == 1 else "s"))
        if self._size is not None and self._epochs is not None:
            parts.append(f"{self.steps} steps")
        return ", ".join(parts)

    def _missing(self, has_delta: bool) -> str:
        lacking = [name for name in ("size", "epochs") if getattr(self, f"_{name}") is None]
        follows = "the price" if self._epsilon is None else "the noise multiplier"
        text = ""
        if lacking:
            given = ", ".join(f"{name}=" for name in lacking)
            comes = "which come" if len(lacking) > 1 else "which comes"
            text = f"; {follows} follows from {' and '.join(lacking)}, {comes} with the batches or as privacy(..., {given})"
        return text if has_delta else text + f"; {follows} needs delta, too: there is no budget yet to take it from"

    # Around the steps.

    def __enter__(self) -> privacy:
        if self._was_entered:
            raise Error(
                "this sojourn.privacy was already entered: a run is one `with` block, and its plan covers only that "
                "block; create another sojourn.privacy(...) for more steps"
            )
        self._was_entered = True
        self._outer = current.set_run(
            current.Run(self._table.name, self._table.session, self.is_private, self._declare, self._send)
        )
        if self.is_private:
            self._send()
        return self

    def __exit__(self, *exception):
        if self.is_private and self._session().is_elsewhere:  # the run goes on in the process that this is a fork of
            current.set_run(self._outer)
            return False
        try:
            if self.is_private and not _sojourn.step_active():
                # What is pending belongs to this run. An exception on its way out is not hidden by another one.
                with contextlib.suppress(Error) if exception[0] is not None else contextlib.nullcontext():
                    flush()
        finally:
            current.set_run(self._outer)
            if self.is_private:
                self._end(is_failing=exception[0] is not None)
        return False

    def _end(self, is_failing: bool) -> None:
        """Has the owner return the unused part of the run's budget."""
        _sojourn.set_spending(self._session())
        if self._outer is not None and self._outer.is_private:
            self._outer.send()
        try:
            try:
                self._final = self._spent()
                _sojourn.run_spent(self._session(), self._number, self._table.name, forget=True)
            finally:  # what is not used goes back, whether or not the price of the rest is known here
                if self._is_declared:
                    _sojourn.budget(self._session(), self._table.name, end_run=self._number)
        except Error:
            if not is_failing:  # an owner that is gone ends runs by itself; what happened before counts
                raise

    def _send(self) -> None:
        if self._epsilon is not None and None in (self._size, self._epochs):
            _sojourn.await_spending(self._session())  # its noise follows from the steps, known with the batches
            return
        self._is_declared = True
        _sojourn.set_spending(
            self._session(),
            run=self._number,
            steps=0 if None in (self._size, self._epochs) else self.steps,
            noise_multiplier=self.noise_multiplier,
            clip=self._clip,
            per_layer=self._per_layer,
            loss_is_sum=self._loss == "sum",
            metric_share=self._share,
        )

    def _declare(self, name: str, rows: int, size: int, epochs: int, steps: int) -> None:
        """Declares batches of the run: rows of their table, expected size, epochs, and total number of steps."""
        if not self.is_private:
            self._size, self._epochs = size, max(self._epochs or 0, epochs)
            return
        if rows != len(self._table):
            raise Error(
                f"the run was declared for {len(self._table)} rows of '{name}', but the batches are drawn from "
                f"{rows}, which changes the price; pass the table or part of the batches to privacy(...)"
            )
        if self._size is not None and self._size != size:
            raise Error(
                f"the run was declared with size={self._size}, but the batches have size={size}, which changes the "
                "price; open a separate run for them"
            )
        per_epoch = -(-rows // size)
        planned = (self._epochs or epochs) * per_epoch
        taken = self.taken
        if taken + steps > planned:
            whole = -(-(taken + steps) // per_epoch)
            first = "" if self._is_planned else ", set by the first batches of the run"
            raise Error(
                f"the run's plan is epochs={self._epochs}{first}: {planned} steps, of which {taken} are taken, and "
                f"these batches have {steps} more; plan the epochs of all batches together with privacy(..., "
                f"epochs={whole}), or open another run"
            )
        self._size, self._epochs = size, self._epochs or epochs
        self._send()
