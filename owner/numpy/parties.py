# SPDX-License-Identifier: Apache-2.0
"""Roles of a joint step, the step of several owners. This owner plays all of them: it checks what a program says of
roles, and then runs it as a program of its own."""

from __future__ import annotations

import math
from typing import NamedTuple

from sojourn_wire import format as wire_format

from . import wire
from .errors import need
from .types import TableType, TensorType


class Parts(NamedTuple):
    """The rows of an argument, one after another: `segments` has (role, rows). The element at position p of the
    row-major order belongs to row (p // stride) % n of all n rows."""

    stride: int
    segments: tuple[tuple[int, int], ...]
    rows: int  # of all segments


class Roles:
    """The roles of one program: none where it is of one owner."""

    def __init__(self, count: int, parts: list[Parts]):
        self.count, self.parts, self.used = count, parts, 0

    def place(
        self, index: int, kind: str, type_: TensorType | TableType, party: int, parts: int
    ) -> tuple[int | None, Parts | None]:
        """The role or the parts of an argument, by their numbers in the record."""
        known = f"argument {index} has role {party} and parts {parts}"
        need(party <= self.count and parts <= len(self.parts), f"{known}, of {self.count} roles")
        need(party == 0 or parts == 0, f"{known}, expected one of them")
        need(parts <= self.used + 1, f"{known}, before parts {parts - 1}")
        self.used = max(self.used, parts)
        if self.count and kind == "table":
            need(party != 0, f"table argument {index} of a joint step has no role")
        if kind not in ("state", "upload", "table"):
            need(party == 0 and parts == 0, f"{known}, expected none for a {kind}")
        if parts == 0:
            return None if party == 0 else party - 1, None
        need(isinstance(type_, TensorType), f"table argument {index} has parts")
        assert isinstance(type_, TensorType)
        _check_place(index, type_.shape, self.parts[parts - 1])
        return None, self.parts[parts - 1]


def roles_of(raw: wire.Record) -> Roles:
    is_joint = bool(raw.features & wire_format.FEATURE_PARTIES)
    least, most = wire_format.PARTIES_LEAST, wire_format.PARTIES_MOST
    if not is_joint:
        need(raw.parties == 0 and len(raw.parts) == 0 and len(raw.segments) == 0, "roles without their feature")
        return Roles(0, [])
    need(least <= raw.parties <= most, f"a joint step has {raw.parties} roles, expected {least} to {most}")
    segments = [(role, rows) for rows, role, _ in raw.segments.tolist()]
    parts, cursor = [], 0
    for index, (stride, begin, count) in enumerate(raw.parts.tolist()):
        name = f"parts {index}"
        need(begin == cursor and begin + count <= len(segments), f"{name} have their segments out of place")
        cursor += count
        own = tuple(segments[begin : begin + count])
        need(
            2 <= count <= wire_format.SEGMENTS_MAX and stride >= 1,
            f"{name} have {count} segments and the stride {stride}",
        )
        need(all(role < raw.parties and rows >= 1 for role, rows in own), f"{name} have an invalid segment")
        need(all(a[0] != b[0] for a, b in zip(own, own[1:])), f"{name} have two segments of one role in a row")
        parts.append(Parts(stride, own, sum(rows for _, rows in own)))
    need(cursor == len(segments), "segments that no parts use")
    need(len(set(parts)) == len(parts), "two equal parts")
    return Roles(raw.parties, parts)


def _check_place(index: int, shape: tuple[int, ...], parts: Parts) -> None:
    """The rows lie in one dim: it is `outer * rows * inner`, in this order."""
    rows = parts.rows
    text = f"argument {index} of shape {shape} has {rows} rows at stride {parts.stride}, which are no part of one dim"
    need(0 not in shape, text)
    for dim in reversed(range(len(shape))):
        inner = math.prod(shape[dim + 1 :])
        if shape[dim] > 1 and inner <= parts.stride < inner * shape[dim]:
            within, left = divmod(parts.stride, inner)
            need(left == 0 and shape[dim] % within == 0 and shape[dim] // within % rows == 0, text)
            return
    need(False, text)
