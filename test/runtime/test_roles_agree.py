# SPDX-License-Identifier: Apache-2.0
"""Roles and parts of a joint step's arguments: both owners accept the same, and an owner that plays all roles runs the
step as one of its own."""

import random

import numpy as np
import pytest
import torch
from canonical_form import canonical
from numpy_builder import Client, ProgramBuilder, published, t

import _sojourn
from sojourn_numpy import NumpyOwner, OwnerError, decode, errors
from sojourn_numpy.types import NAMES, TableType
from sojourn_wire import Program as wire_program

F64 = NAMES.index("f64")


@pytest.fixture(scope="module")
def owners():
    native, numpy = _sojourn.EmbeddedOwner(), NumpyOwner()
    for name, column in {"here": np.arange(3.0), "there": np.arange(5.0) * 10}.items():
        native.register(name, {"a": torch.from_numpy(column)}, "open")
        numpy.register(name, {"a": column}, policy="open")
    return native, numpy


def segments_of(dice, parties):
    """Rows of two roles at least, neighbours of different roles."""
    segments = []
    while len(segments) < 2 or dice.random() < 0.4:
        role = dice.choice([r for r in range(parties) if not segments or r != segments[-1][1]])
        segments.append((dice.randint(1, 3), role, 0))
    return segments


def joint_step(dice):
    """Uploads known to all, at a role and in parts, a slot and two tables; their sums are published."""
    p = ProgramBuilder()
    p.features, p.parties = 1, dice.randint(2, 16)
    uploads = []
    for _ in range(dice.randint(1, 5)):
        kind = dice.choice(["all", "role", "parts"])
        shape, party, parts = (dice.randint(1, 4), dice.randint(1, 4)), 0, 0
        if kind == "role":
            party = dice.randint(1, p.parties)
        if kind == "parts":
            segments = segments_of(dice, p.parties)
            rows, inner, outer = sum(s[0] for s in segments), dice.randint(1, 3), dice.randint(1, 2)
            shape = (outer * rows * inner, dice.randint(1, 3))
            stride = inner * shape[1]
            known = [(r[0], p.segments[r[1] : r[1] + r[2]]) for r in p.parts]
            if (stride, segments) not in known:
                p.parts.append((stride, len(p.segments), len(segments)))
                p.segments.extend(segments)
                known.append((stride, segments))
            parts = 1 + known.index((stride, segments))
        uploads.append(p.arg("upload", t("f64", *shape)))
        p.args[-1] = (*p.args[-1][:2], party, parts)
    p.arg("slot", t("i64"))
    table_type = TableType(-1, (("a", F64),), ())
    tables = []
    for role in (0, 1):
        tables.append(p.arg("table", table_type))
        p.args[-1] = (*p.args[-1][:2], role + 1, 0)
    sums = [p.op("reduce_sum", [value], t("f64"), dims=[0, 1]) for value in uploads]
    rows = p.op("iota", [], t("i64", 8), dim=0)
    for table in tables:
        read = p.op("read_rows", [table, rows], t("f64", 8), columns=["a"])
        sums.append(p.op("reduce_sum", [read], t("f64"), dims=[0]))
    for value in sums:
        p.result("publish", value)
    return p


def damaged(p, dice):
    """One number of roles, parts or segments changed."""
    arg = dice.randrange(len(p.args))
    choices = ["parties", "party", "feature"] + ["stride", "rows", "role"] * bool(p.parts)
    match dice.choice(choices):
        case "parties":
            p.parties = dice.choice([0, 1, 2, 3, 16, 17, 255])
        case "party":
            p.args[arg] = (*p.args[arg][:2], dice.choice([0, 1, 2, p.parties, p.parties + 1, 255]), p.args[arg][3])
        case "feature":
            p.features = dice.choice([0, 2, 3, 1 << 40])
        case "stride":
            at = dice.randrange(len(p.parts))
            p.parts[at] = (dice.choice([-1, 0, 1, 2, 3, 6, 1 << 62]), *p.parts[at][1:])
        case "rows":
            at = dice.randrange(len(p.segments))
            p.segments[at] = (dice.choice([-1, 0, 1, 2, 5, 1 << 62]), *p.segments[at][1:])
        case "role":
            at = dice.randrange(len(p.segments))
            p.segments[at] = (p.segments[at][0], dice.choice([0, 1, p.parties - 1, p.parties, 1 << 31]), 0)


def test_both_owners_accept_the_same_roles(owners, rng):
    dice = random.Random(int(rng.integers(1 << 60)))
    clients = [Client(owner) for owner in owners]
    accepted = refused = 0
    for attempt in range(400):
        p = joint_step(dice)
        if attempt % 2:
            damaged(p, dice)
            if len({(stride, *p.segments[b : b + n]) for stride, b, n in p.parts}) < len(p.parts):
                continue  # another encoding of a program that has one
        data = canonical(p).encode()
        uploads = [rng.integers(-9, 9, shape).astype(float) for shape in upload_shapes(p)]
        replies = [client.step(data, uploads=uploads, slots=[0], tables=["here", "there"]) for client in clients]
        assert {reply.kind for reply in replies} in ({"Done"}, {"Error"}), (replies, p.args, p.parts, p.segments)
        if replies[0].kind == "Error":
            refused += 1
            assert replies[0].code == replies[1].code, [reply.message for reply in replies]
            continue
        accepted += 1
        for reply in replies:
            found = [float(value) for value in published(reply)]
            assert found == [float(x.sum()) for x in uploads] + [3.0, 100.0]
    assert accepted > 200 and refused > 50, (accepted, refused)


def upload_shapes(p):
    """Of a builder, whose roles may be damaged."""
    for type_id, kind, *_ in p.args:
        if kind == 1:
            _, rank, _, begin = p.types[type_id]
            yield p.dims[begin : begin + rank]


def test_a_step_of_one_owner_has_no_roles():
    """Its bytes are those that they were: neither vectors nor numbers of roles."""
    p = ProgramBuilder()
    p.result("publish", p.op("neg", [p.arg("upload", t("f64", 2))], t("f64", 2)))
    root = wire_program.Program.GetRootAs(p.encode())
    assert (root.Features(), root.Parties(), root.PartsIsNone(), root.SegmentsIsNone()) == (0, 0, True, True)
    assert decode(p.encode()).args[0].party is None


def test_arguments_know_their_roles(rng):
    dice = random.Random(int(rng.integers(1 << 60)))
    for _ in range(50):
        p = joint_step(dice)
        for (_, _, party, parts), arg in zip(p.args, decode(p.encode()).args):
            assert arg.party == (party - 1 if party else None)
            if parts:
                stride, begin, count = p.parts[parts - 1]
                assert arg.parts.stride == stride
                assert arg.parts.segments == tuple((role, rows) for rows, role, _ in p.segments[begin : begin + count])


def test_features_that_nobody_knows():
    p = joint_step(random.Random(1))
    p.features |= 1 << 20
    with pytest.raises(OwnerError, match="0x100000, which this owner does not know") as refusal:
        decode(p.encode())
    assert refusal.value.code == errors.VERSION
