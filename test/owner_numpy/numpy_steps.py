# SPDX-License-Identifier: Apache-2.0
"""Programs of one op that tests of the protocol send, and what a refusal must say."""

import numpy as np
from numpy_builder import ProgramBuilder, t

from sojourn_numpy.types import F64, I64, TableType

X = np.array([1, 2, 3], np.float32)


def add_program(shape=(3,)) -> bytes:
    """publish and keep a + b of two uploads."""
    p = ProgramBuilder()
    a, b = (p.arg("upload", t("f32", *shape)) for _ in range(2))
    y = p.op("add", [a, b], t("f32", *shape))
    p.result("keep", y)
    p.result("publish", y)
    return p.encode()


def rows_program(rows=4, columns=(("age", F64), ("y", I64))) -> bytes:
    p = ProgramBuilder()
    i = p.arg("upload", t("i64", 3))
    table = p.arg("table", TableType(rows, columns))
    p.result("publish", p.op("read_rows", [table, i], t("f32", 3, len(columns)), columns=[c for c, _ in columns]))
    return p.encode()


def failed(reply, code: int, text: str):
    assert reply.kind == "Error", reply
    assert text in reply.message, reply.message
    assert reply.code == code, (reply.code, reply.message)
