# SPDX-License-Identifier: Apache-2.0
"""Publish: the only exit for values."""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import math
import sys
import threading

import torch
from torch.utils import _pytree as pytree

import _sojourn

from . import checks, connections, notebook
from .errors import Error, Refused, ValueNeeded
from .published import Published, covered, keep_versions, marked, plain


class _OpenStep(threading.local):
    """Lines that publish in the thread's open step; a refusal in the step's reply names them."""

    def __init__(self):
        self.lines: list[str] = []
        self.states: list | None = None  # of its publishes, where somebody asks


_open = _OpenStep()


def _callers_line() -> str:
    frame = sys._getframe(connections.callers_depth() - 1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def forget_lines() -> None:
    """Forgets the lines of a dropped step, whose values can no longer be refused."""
    _open.lines.clear()


class noting_states:
    """Notes the states of the values published inside, in their order."""

    def __enter__(self) -> list:
        self._before, _open.states = _open.states, []
        return _open.states

    def __exit__(self, *exception):
        _open.states = self._before
        return False


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

    def _repr_html_(self) -> str:
        if self.noise == "none":
            return notebook.table("Quote of a release", [], [str(self)])
        rows = [
            ("epsilon", f"{self.epsilon:g}"),
            ("delta", f"{self.delta:g}"),
            ("standard error", "unknown" if self.stderr is None else f"{self.stderr:.4g}"),
            ("numbers", self.numbers),
            ("noise", self.noise),
        ]
        return notebook.table("Quote of a release", rows, self.notes)


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
    """Requests values from the owner. `tree`: a tensor or any nesting of lists, tuples, dicts, named tuples and other
    pytrees of tensors.

    Returns the tree with a CPU tensor in place of each tensor; other leaves stay. Outside a step it ends the implicit
    step (one round trip). Each tensor also has `value`, `stderr` (standard deviation of its noise, see `Published`) and
    `receipt` (None if nothing was paid); they describe what was published, so copies have them, while saved tensors and
    results of computations do not. Inside a step each leaf is a `Published`, which the step's own reply fills; from
    then on it acts as its tensor. CPU tensors pass through as copies. Raises `Refused` if the owner's policy forbids
    the release.

    Values computed from a private table leave only with noise. `epsilon` pays for all values of the tree
    together, separately from the step, with Laplace noise, or Gaussian if `delta` is given. Without `epsilon`, in a
    step on batches, the value is part of the step's price. `bound`: each row's contribution is clamped to it, in the
    unit of the value. With `epsilon`, and inside a step, an outermost dict, list or tuple also has `value` and
    `stderr`, trees of the same form, and `receipt`.

    Values already released are free and exact. Whole columns can be published from repeatedly, at a price
    each time; batches, and values that an earlier step computed from rows, cannot. On open tables
    `epsilon`, `delta` and `bound` are accepted and ignored.
    """
    terms = _terms(epsilon, delta, bound)
    tree = plain(tree)
    leaves, spec = pytree.tree_flatten(tree)
    for leaf in leaves:
        _need_publishable(leaf)
    remote = [leaf for leaf in leaves if _is_remote(leaf)]
    states = []
    if remote:
        states = _sojourn.publish(remote, **terms)
        _open.lines.append(_callers_line())
        if _open.states is not None:
            _open.states += states
    following = iter(states)
    made = [_published(leaf, following) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    if not _sojourn.step_active():
        made = _filled(made, bool(remote))
    result = pytree.tree_unflatten(made, spec)
    keep_versions(tree, result)
    return covered(result) if _sojourn.step_active() or epsilon is not None else result


def _is_remote(leaf) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.device.type == "owner"


def _published(leaf: torch.Tensor, states) -> Published:
    if _is_remote(leaf):
        return Published(next(states))
    if type(leaf) is torch.Tensor and leaf.device.type == "cpu":
        return Published(leaf.detach().clone())
    with torch._C.DisableTorchFunctionSubclass():
        copy = leaf.detach().to("cpu", copy=True)
        return Published(copy if type(copy) is torch.Tensor else copy.as_subclass(torch.Tensor))


def _filled(made: list, has_remote: bool) -> list:
    """Outside of steps: ends the implicit step and gives the values."""
    if has_remote:
        with naming_lines():
            _sojourn.flush()
        connections.tell()
    try:
        return [marked(leaf) if isinstance(leaf, Published) else leaf for leaf in made]
    except ValueNeeded:  # nothing was sent
        raise ValueNeeded(
            "a value is published on an offline device, which only records: publish it in a step compiled by "
            "sojourn.compile, or connect to an owner"
        ) from None


def _need_publishable(leaf) -> None:
    """Refuses what would come back as it was given, with its values still at the owner, or without any."""
    if not isinstance(leaf, torch.Tensor):
        if isinstance(leaf, collections.abc.Iterator):
            raise Error(
                f"publish found a {_kind(leaf)}, expected tensors in dicts, lists and tuples: publish(list(...))"
            )
        if _holds_remote(leaf):
            raise Error(
                f"publish found remote tensors inside a {_kind(leaf)}, which is not a pytree; expected tensors in "
                f"dicts, lists and tuples: {_as_tree(leaf)}"
            )
    elif type(leaf).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise Error(
            f"publish found a {_kind(leaf)}, a tensor subclass that has its values in other tensors; expected "
            "torch.Tensor: publish those tensors"
        )
    elif torch._C._functorch.is_functorch_wrapped_tensor(leaf):
        raise Error(
            "publish found a tensor inside a function of torch.func (vmap, grad, ...), where it stands for several or "
            "for a derivative; return it from there and publish the result"
        )
    elif torch.nn.parameter.is_lazy(leaf):
        raise Error("publish found a lazy parameter without a shape; run its module once, which gives it one")
    elif leaf.device.type == "meta":
        raise Error(
            f"publish found a tensor of shape {tuple(leaf.shape)} on device meta, which has no values; expected one at "
            "an owner or on the CPU: module.to_empty(device=owner.device) makes room for values"
        )


def _kind(value) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _as_tree(value) -> str:
    if isinstance(value, torch.nn.Module):
        return "publish(module.state_dict())"
    if isinstance(value, torch.optim.Optimizer):
        return "publish(optimizer.state_dict())"
    if dataclasses.is_dataclass(value):
        return f"torch.export.register_dataclass({type(value).__name__}) makes it one, or publish vars(value)"
    return "convert it, for example with dict(value) or list(value)"


_SEARCHED = list, tuple, collections.abc.Set, collections.abc.MappingView, collections.deque, collections.UserList


def _holds_remote(value, depth: int = 8) -> bool:
    """Whether a value that is not a pytree has tensors of an owner among its elements or fields."""
    if isinstance(value, torch.Tensor):
        return value.device.type == "owner"
    if isinstance(value, torch.nn.Module):
        value = (*value.parameters(), *value.buffers())
    elif isinstance(value, torch.optim.Optimizer):
        value = [group["params"] for group in value.param_groups]
    elif isinstance(value, collections.abc.Mapping):
        value = value.values()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    elif not isinstance(value, _SEARCHED):
        return False
    return depth > 0 and any(_holds_remote(each, depth - 1) for each in value)
