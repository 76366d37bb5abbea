# SPDX-License-Identifier: Apache-2.0
"""Publish: the only exit for values."""

from __future__ import annotations

import dataclasses
import math
import operator
import sys
import threading

import torch
from torch.utils import _pytree as pytree

import _sojourn

from . import checks, connections
from .errors import Error, Refused, ValueNeeded
from .receipt import Receipt


class _OpenStep(threading.local):
    """Lines that publish in the thread's open step; a refusal in the step's reply names them."""

    def __init__(self):
        self.lines: list[str] = []


_open = _OpenStep()


def _callers_line() -> str:
    frame = sys._getframe(connections.callers_depth() - 1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def forget_lines() -> None:
    """Forgets the lines of a dropped step, whose values can no longer be refused."""
    _open.lines.clear()


class naming_lines:
    """Surrounds the end of a step: adds the lines that published in it to a refusal."""

    def __enter__(self):
        return self

    def __exit__(self, kind, failure, traceback):
        lines = list(dict.fromkeys(_open.lines))
        _open.lines.clear()
        if lines and isinstance(failure, Refused):
            raise kind(f"{failure} [published at {', '.join(lines)}]") from None
        return False


class Published:
    """Published values: the published tree, with CPU tensors as leaves.

    The reply of the step fills it; reading it earlier raises `ValueNeeded`. For CPU tensors the same
    class holds the values, so one script serves both.
    """

    def __init__(self, leaves: list, spec):
        self._leaves = leaves
        self._states = list(leaves)
        self._spec = spec
        self._step = _sojourn.current_step()

    @property
    def ready(self) -> bool:
        """Whether `value` can be read."""
        return not self._waits() and all(
            not isinstance(leaf, _sojourn.Published) or leaf.ready for leaf in self._leaves
        )

    def _waits(self) -> bool:
        return self._step != 0 and self._step == _sojourn.current_step()

    @property
    def value(self):
        """The tree of CPU tensors."""
        if self._waits():
            raise ValueNeeded(
                "a value published inside a step is filled by the step's reply; read it after the step has ended"
            )
        self._leaves = [leaf.value() if isinstance(leaf, _sojourn.Published) else leaf for leaf in self._leaves]
        return pytree.tree_unflatten(self._leaves, self._spec)

    @property
    def stderr(self):
        """Standard deviation of the noise in each number; 0 without noise, None if unknown.

        It is known if the value is linear in the noise with public coefficients: sums, multiples, parts, matrix
        products. A tree like `value`, with one number per tensor, the largest over its elements. Rounding of whole
        numbers after the noise is not counted.
        """
        self.value  # noqa: B018
        errors = [None if error is None or math.isnan(error) else error for error in self._errors()]
        return errors[0] if len(errors) == 1 else pytree.tree_unflatten(errors, self._spec)

    def _errors(self):
        return [state.error if isinstance(state, _sojourn.Published) else 0.0 for state in self._states]

    @property
    def receipt(self) -> Receipt | None:
        """The owner's signed receipt for a release with a separate price, else None."""
        signed = [state.receipt for state in self._states if isinstance(state, _sojourn.Published)]
        return next((Receipt(data) for data in signed if data), None)

    def item(self):
        """The number in a published tensor of one element."""
        return self.value.item()

    def __array__(self, dtype=None, copy=None):
        return self.value.__array__() if dtype is None else self.value.__array__(dtype)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self):
        return iter(self.value)

    def __getitem__(self, key):
        return self.value[key]

    def __bool__(self) -> bool:
        return bool(self.value)

    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return function(*_values_of(args), **_values_of(kwargs or {}))

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.item() if spec else self, spec) if spec else repr(self)

    def __repr__(self) -> str:
        return f"Published({self.value!r})" if self.ready else "Published(<filled when the step ends>)"


def _values_of(tree):
    """The tree with the values of its `Published` objects in their place."""
    return pytree.tree_map_only(Published, lambda published: published.value, tree)


def _behave_like_values() -> None:
    """Lets `Published` compute and compare like its value; an unfilled one raises `ValueNeeded`."""

    def forward(operation):
        def method(self, *others):
            return operation(self.value, *_values_of(others))

        return method

    def backward(operation):
        def method(self, other):
            return operation(other, self.value)

        return method

    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
        operation = getattr(operator, name)
        setattr(Published, f"__{name}__", forward(operation))
        setattr(Published, f"__r{name}__", backward(operation))
    for name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "abs"):
        setattr(Published, f"__{name}__", forward(getattr(operator, name)))


_behave_like_values()


def _terms(epsilon, delta, bound) -> dict[str, float]:
    """The terms in the owner's form: 0 for an omitted term."""
    return {
        "epsilon": 0.0 if epsilon is None else checks.within("epsilon", epsilon, checks.EPSILON),
        "delta": 0.0 if delta is None else checks.within("delta", delta, checks.DELTA),
        "bound": 0.0 if bound is None else checks.within("bound", bound, checks.BOUND),
    }


@dataclasses.dataclass(frozen=True)
class ReleaseQuote:
    """The price and the noise of publishing a value.

    `epsilon` and `delta`: the guarantee to be paid for; 0 if the value is free. `delta` is always that of
    the budget: a price is the smallest grant that admits the release. `stderr`: standard deviation of the
    noise in each number, in the value's unit; None if the value is not linear in the noise. `numbers`:
    count of numbers released together. `notes`: changes that the owner would make to the program.
    """

    epsilon: float
    delta: float
    stderr: float | None
    numbers: int
    noise: str
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.noise == "none":
            return "free and exact: already released, or computed from open tables"
        off = "unknown: the value is not linear in the noise" if self.stderr is None else f"{self.stderr:.4g}"
        count = f"{self.numbers} numbers" if self.numbers > 1 else "one number"
        text = f"epsilon {self.epsilon:g} at delta {self.delta:g} for {count} with {self.noise} noise, standard error {off}"
        return "; ".join([text, *self.notes])


def quote(tree, epsilon: float, delta: float | None = None, bound: float | None = None):
    """The quote for `publish(tree, epsilon, delta, bound)`; nothing runs, and nothing is spent.

    `tree`: an unsent tensor of private tables, or any nesting of lists, tuples and dicts of them.
    Returns a `ReleaseQuote`, or the tree with a quote in place of each tensor; these quotes share the
    price in equal parts, as values of one table do. Raises `Refused`, with op, line and reason, if the
    owner would refuse the release, and `Error` for invalid numbers. Errors depend on bounds and shapes
    alone, never on rows.
    """
    if epsilon is None:
        raise Error("epsilon must be a number above 0, got None: a quote needs a separate price")
    terms = _terms(epsilon, delta, bound)
    leaves, spec = pytree.tree_flatten(tree)
    if not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        raise Error(f"quote takes a tensor or a tree of them, got {type(tree).__name__}")
    quotes = [_quote_of(leaf, terms) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    paid = [k for k, quoted in enumerate(quotes) if isinstance(quoted, ReleaseQuote) and quoted.noise != "none"]
    if len(paid) > 1:
        for k in paid:
            quotes[k] = _part_of(quotes[k], len(paid))
    return pytree.tree_unflatten(quotes, spec)


def _part_of(quoted: ReleaseQuote, sharers: int) -> ReleaseQuote:
    """The quote of one of `sharers` values with a common price; pure epsilons and squares of Gaussian noise add up."""
    growth = sharers if quoted.noise == "discrete Laplace" else math.sqrt(sharers)
    return dataclasses.replace(quoted, stderr=None if quoted.stderr is None else quoted.stderr * growth)


def _quote_of(value: torch.Tensor, terms: dict[str, float]) -> ReleaseQuote:
    if value.device.type != "owner":
        return ReleaseQuote(0.0, 0.0, 0.0, value.numel(), "none")
    is_free, error, numbers, is_laplace, notes, delta = _sojourn.quote(value, **terms)
    if is_free:
        return ReleaseQuote(0.0, 0.0, 0.0, value.numel(), "none")
    noise = "discrete Laplace" if is_laplace else "discrete Gaussian"
    return ReleaseQuote(terms["epsilon"], delta, None if math.isnan(error) else error, numbers, noise, tuple(notes))


def publish(tree, epsilon: float | None = None, delta: float | None = None, bound: float | None = None):
    """Requests values from the owner. `tree`: a tensor or any nesting of lists, tuples and dicts of tensors.

    Outside a step: ends the implicit step (one round trip) and returns the tree with CPU tensors.
    Inside a step: returns a `Published`, filled by the step's own reply. CPU tensors pass through
    as copies. Raises `Refused` if the owner's policy forbids the release.

    Values computed from a private table leave only with noise. `epsilon` pays for all values of the tree
    together, separately from the step, with Laplace noise, or Gaussian if `delta` is given; the result is
    a `Published` with `.stderr` and `.receipt`. Without `epsilon`, in a step on batches, the value is part
    of the step's price. `bound`: each row's contribution is clamped to it, in the unit of the value.

    Values already released are free and exact. Whole columns can be published from repeatedly, at a price
    each time; batches, and values that an earlier step computed from rows, cannot. On open tables
    `epsilon`, `delta` and `bound` are accepted and ignored.
    """
    terms = _terms(epsilon, delta, bound)
    leaves, spec = pytree.tree_flatten(tree)
    remote = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.device.type == "owner"]
    states = iter(())
    if remote:
        states = iter(_sojourn.publish(remote, **terms))
        _open.lines.append(_callers_line())
    values = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            values.append(next(states) if leaf.device.type == "owner" else leaf.detach().clone())
        else:
            values.append(leaf)
    published = Published(values, spec)
    if _sojourn.step_active():
        return published
    if remote:
        with naming_lines():
            _sojourn.flush()
        connections.tell()
    if epsilon is not None:
        return published
    try:
        return published.value
    except ValueNeeded:  # nothing was sent
        raise ValueNeeded(
            "a value is published on an offline device, which only records: publish it in a step compiled by "
            "sojourn.compile, or connect to an owner"
        ) from None
