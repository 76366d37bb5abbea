# SPDX-License-Identifier: Apache-2.0
"""Entries of op_db that do not pass at an owner, with the reason why not; each was looked at."""

_SHAPE = "its result's shape depends on values"
_SPARSE = "sparse tensors are not carried"
_STORAGE = "it is about storage: elements that overlap, gaps between them, or a new size"

#: Per part; "*" stands for all parts.
_REASONS: dict[str, dict[str, str]] = {
    "*": {
        "argwhere": _SHAPE,
        "masked_select": _SHAPE,
        "nonzero": _SHAPE,
        "unique": _SHAPE,
        "unique_consecutive": _SHAPE,
        "repeat_interleave": _SHAPE,
        "__getitem__": "a boolean index selects: " + _SHAPE,
        "sparse.mm.reduce": _SPARSE,
        "sparse.sampled_addmm": _SPARSE,
        "to_sparse": _SPARSE,
        "empty_strided": _STORAGE,
        "new_empty_strided": _STORAGE,
        "resize_": _STORAGE,
        "tensor_split": "torch wants these indices on the CPU: its result's shapes depend on them",
    },
}


def reason(entry: str, part: str) -> str:
    """Empty where the entry has to pass."""
    return _REASONS.get(part, {}).get(entry) or _REASONS["*"].get(entry, "")
