# SPDX-License-Identifier: Apache-2.0
"""Runs a checked program: one walk over its ops, freeing each value after its last use."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from .errors import EXECUTION, LIMIT, OwnerError
from .kernels import load
from .program import Op, Program

KERNELS = load()


def run(program: Program, args: list, watch: Callable[[int, Op, tuple], None] | None = None) -> list[np.ndarray]:
    """The value of each result. `args` holds arrays, and row sources for tables; none is written.

    `watch(index, op, results)` sees every intermediate, for tests that compare runtimes op by op.
    """
    values: list = list(args) + [None] * (len(program.types) - len(args))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index, op in enumerate(program.ops):
            results = _run_op(op, [values[i] for i in op.operands])
            values[op.first_result : op.first_result + len(results)] = results
            if watch is not None:
                watch(index, op, results)
            del results
            for value in program.last_use[index]:
                values[value] = None
    return [values[result.value] for result in program.results]


def _run_op(op: Op, operands: list) -> tuple[np.ndarray, ...]:
    try:
        results = KERNELS[op.name](op, *operands)
    except MemoryError:
        raise OwnerError(LIMIT, f"out of memory in op '{op.name}'", op.name, op.location) from None
    except Exception as error:
        text = f"op '{op.name}' failed: {type(error).__name__}: {error}"
        raise OwnerError(EXECUTION, text, op.name, op.location) from error
    results = results if isinstance(results, tuple) else (results,)
    results = tuple(np.asarray(value) for value in results)
    for value, expected in zip(results, op.result_types, strict=True):
        if value.shape != expected.shape or value.dtype != expected.dtype:
            text = f"op '{op.name}' computed {value.dtype}{value.shape}, declared is {expected}"
            raise OwnerError(EXECUTION, text, op.name, op.location)
    return results
