# SPDX-License-Identifier: Apache-2.0
"""Published values: within a step placeholders that the step's reply fills, outside of steps CPU tensors."""

from __future__ import annotations

import collections
import copy
import math
import numbers
import operator
from typing import Any

import torch
from torch.utils import _pytree as pytree

import _sojourn

from . import notebook
from .errors import ValueNeeded
from .receipt import Receipt


class Published:
    """A value published in a step: a CPU tensor as soon as the step's reply has filled it.

    `ready`: whether it is filled. `value`: the CPU tensor. A filled one has the attributes and methods of its tensor
    and takes its place in computations, whose results are plain tensors. Reading it earlier raises `ValueNeeded`. For
    CPU tensors the same class holds the values, so one script serves both. Saved, it is its tensor. As an index of other
    tensors give its `value`.
    """

    __array_priority__ = 1000  # as a tensor's: NumPy's numbers leave arithmetic to it

    def __init__(self, state):
        """`state`: of the recorded publish, or the value itself."""
        self.recorded = state  # for replay and artifacts, which find the publish by it
        self._value = None if isinstance(state, _sojourn.Published) else state
        self._step = _sojourn.current_step()

    @property
    def ready(self) -> bool:
        """Whether `value` can be read."""
        return not self._waits() and (self._value is not None or self.recorded.ready)

    def _waits(self) -> bool:
        return self._step != 0 and self._step == _sojourn.current_step()

    @property
    def value(self) -> torch.Tensor:
        """The CPU tensor."""
        if self._waits():
            raise ValueNeeded(
                "a value published inside a step is filled by the step's reply; read it after the step has ended"
            )
        if self._value is None:
            self._value = self.recorded.value()
        return self._value

    @property
    def stderr(self):
        """Standard deviation of the noise in each number; 0 without noise, None if unknown.

        It is known if the value is linear in the noise with public coefficients: sums, multiples, parts, matrix
        products. It is one number, the largest over the tensor's elements. Rounding of whole numbers after the noise is
        not counted.
        """
        self.value  # noqa: B018
        error = self.recorded.error if isinstance(self.recorded, _sojourn.Published) else 0.0
        return None if error is None or math.isnan(error) else error

    @property
    def receipt(self) -> Receipt | None:
        """The owner's signed receipt for a release with a separate price, else None."""
        data = self.recorded.receipt if isinstance(self.recorded, _sojourn.Published) else b""
        return Receipt(data) if data else None

    def __getattr__(self, name: str):
        if name.startswith("__") or not hasattr(torch.Tensor, name):
            return object.__getattribute__(self, name)  # raises what Python says of an unknown name
        return getattr(self.value, name)

    def __dir__(self):
        return sorted({*super().__dir__(), *(name for name in dir(torch.Tensor) if not name.startswith("_"))})

    def __array__(self, dtype=None, copy=None):
        return self.value.__array__() if dtype is None else self.value.__array__(dtype)

    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return function(*_values_of(args), **_values_of(kwargs or {}))

    def __reduce_ex__(self, protocol):
        return self.value.__reduce_ex__(protocol)  # whoever reads the file needs no Sojourn

    def __copy__(self) -> Published:
        copied = Published.__new__(Published)
        copied.__dict__.update(self.__dict__)
        return copied

    def __deepcopy__(self, memo: dict) -> Published:
        copied = memo[id(self)] = self.__copy__()
        if self.ready:
            copied._value = copy.deepcopy(self.value, memo)
        return copied

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec or self.ready else repr(self)

    def __repr__(self) -> str:
        if not self.ready:
            return "Published(<filled when the step ends>)"
        noise = f", stderr={self.stderr:.4g}" if self.stderr else ""
        return f"Published({self.value!r}{noise})"

    def _repr_html_(self) -> str:
        return notebook.paragraphs(repr(self))


# numpy.isscalar asks for it, and with it torch.utils.tensorboard, which takes tensors and scalars only.
numbers.Number.register(Published)


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

    def special(name):
        def method(self, *others):
            return getattr(self.value, name)(*_values_of(others))

        return method

    for name in (
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "matmul",
        "and_",
        "or_",
        "xor",
        "lshift",
        "rshift",
    ):
        operation, plain = getattr(operator, name), name.rstrip("_")
        setattr(Published, f"__{plain}__", forward(operation))
        setattr(Published, f"__r{plain}__", backward(operation))
    for name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "abs", "invert"):
        setattr(Published, f"__{name}__", forward(getattr(operator, name)))
    for name in (
        "float",
        "int",
        "bool",
        "complex",
        "index",
        "len",
        "iter",
        "contains",
        "getitem",
        "setitem",
        "array_wrap",
    ):
        setattr(Published, f"__{name}__", special(f"__{name}__"))


_behave_like_values()


# Outside of steps a published value is a plain tensor with these attributes.
_MARKS = ("value", "stderr", "receipt", "ready")
_MARK = "_sojourn_published"


def marked(published: Published) -> torch.Tensor:
    """The filled value as a tensor that has the attributes of `published`."""
    tensor = published.value
    # Of its own, else the tensor would hold itself.
    marks = (tensor.detach(), published.stderr, published.receipt, True)
    for name, mark in (*zip(_MARKS, marks), (_MARK, True)):
        setattr(tensor, name, mark)
    return tensor


def is_published(leaf) -> bool:
    """Whether it answers `value`, `stderr` and `receipt`."""
    return isinstance(leaf, Published) or (isinstance(leaf, torch.Tensor) and hasattr(leaf, _MARK))


def unmarked(tensor: torch.Tensor) -> torch.Tensor | None:
    """For a marked tensor the same without marks, for files; None for any other."""
    if not hasattr(tensor, _MARK):
        return None
    plain = tensor.detach().requires_grad_(tensor.requires_grad)
    plain.__dict__.update({k: v for k, v in vars(tensor).items() if k not in (*_MARKS, _MARK)})
    return plain


class _Whole:
    """Lets the outermost dict, list or tuple of published values answer for all of them.

    It has no state, so that it may be changed and mapped like any other container.
    """

    __slots__ = ()
    _base: type

    @property
    def ready(self) -> bool:
        """Whether all values are filled."""
        return all(leaf.ready for leaf in pytree.tree_leaves(self) if is_published(leaf))

    @property
    def value(self):
        """The tree of CPU tensors."""
        return pytree.tree_map(lambda leaf: leaf.value if is_published(leaf) else leaf, plain(self))

    @property
    def stderr(self):
        """The tree of the values' `stderr`."""
        return pytree.tree_map(lambda leaf: leaf.stderr if is_published(leaf) else 0.0, plain(self))

    @property
    def receipt(self) -> Receipt | None:
        """The owner's signed receipt for the release, which is one for all values of a table."""
        signed = (leaf.receipt for leaf in pytree.tree_leaves(self) if is_published(leaf))
        return next((receipt for receipt in signed if receipt is not None), None)

    def __reduce_ex__(self, protocol):
        made = _uncovered(self)
        by_type = isinstance(made, (collections.OrderedDict, collections.defaultdict))
        return made.__reduce_ex__(protocol) if by_type else (self._base, (made,))

    def __copy__(self):
        return covered(_uncovered(self))

    def __deepcopy__(self, memo: dict):
        copied = memo[id(self)] = covered(copy.deepcopy(_uncovered(self), memo))
        return copied

    def __repr__(self) -> str:
        return repr(_uncovered(self))


def _made_whole(base: type) -> type:
    made: Any = type(base.__name__, (_Whole, base), {"__slots__": (), "_base": base, "__module__": __name__})
    known = pytree.SUPPORTED_NODES[base]
    pytree.register_pytree_node(
        made,
        lambda tree: known.flatten_fn(_uncovered(tree)),
        lambda leaves, context: covered(known.unflatten_fn(leaves, context)),
        flatten_with_keys_fn=lambda tree: known.flatten_with_keys_fn(_uncovered(tree)),  # type: ignore[misc]  # these have one
    )
    return made


def covered(tree):
    """The tree, if it is a dict, list or tuple, as one that also answers for all its values."""
    kind = _WHOLE.get(type(tree))
    if kind is None:
        return tree
    if kind._base is collections.defaultdict:
        return kind(tree.default_factory, tree)
    made = kind(tree)
    if kind._base is collections.OrderedDict:
        vars(made).update(vars(tree))  # the versions in a state_dict
    return made


def _uncovered(tree):
    """The container of torch's own kind, with the same elements."""
    if tree._base is collections.defaultdict:
        return collections.defaultdict(tree.default_factory, tree)
    made = tree._base(tree)
    if tree._base is collections.OrderedDict:
        vars(made).update(vars(tree))
    return made


_CONTAINERS = dict, collections.OrderedDict, collections.defaultdict, list, tuple
_WHOLE: dict[type, Any] = {kind: _made_whole(kind) for kind in _CONTAINERS}
_MADE_WHOLE = frozenset(_WHOLE.values())


def _is_whole(node) -> bool:
    return isinstance(node, _Whole)


def _has_whole(spec) -> bool:
    return spec.type in _MADE_WHOLE or any(map(_has_whole, spec.children()))


def plain(tree):
    """The tree with containers of Python's own kinds."""
    if not _has_whole(pytree.tree_structure(tree)):
        return tree
    return pytree.tree_map(lambda node: plain(_uncovered(node)) if _is_whole(node) else node, tree, is_leaf=_is_whole)


def keep_versions(given, made) -> None:
    """Copies the versions of a state_dict's modules, which are no part of its tree, to what was made of it."""
    if isinstance(given, collections.OrderedDict) and hasattr(given, "_metadata"):
        made._metadata = given._metadata
    if isinstance(given, dict):
        for key, value in given.items():
            keep_versions(value, made[key])
    elif type(given) in (list, tuple):
        for one, other in zip(given, made):
            keep_versions(one, other)
