# SPDX-License-Identifier: Apache-2.0
"""Complex numbers as pairs, Fourier transforms, factors of symmetric and eigenvectors of any square matrices."""

from __future__ import annotations

import contextlib
import itertools

from scipy.linalg import lapack

import numpy as np

from .kernels import computed, kernel, rounded
from .ops_contract import turns


@kernel("parts")
def _parts(op, x):
    result = op.result_types[0]
    return np.ascontiguousarray(x).reshape(-1).view(result.dtype).reshape(result.shape)


@kernel("complex")
def _complex(op, x):
    result = op.result_types[0]
    return np.ascontiguousarray(x).reshape(-1).view(result.dtype).reshape(result.shape)


def _wide(x):
    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)


@kernel("fft_c2c")
def _c2c(op, x):
    result = op.result_types[0]
    if not x.size:
        return np.zeros(result.shape, result.dtype)
    dims = op.attr("dims")
    # "forward" leaves the inverse unscaled.
    y = np.fft.ifftn(_wide(x), axes=dims, norm="forward") if op.attr("inverse") else np.fft.fftn(_wide(x), axes=dims)
    return rounded(y, result.dtype)


@kernel("fft_r2c")
def _r2c(op, x):
    result = op.result_types[0]
    if not x.size:
        return np.zeros(result.shape, result.dtype)
    return rounded(np.fft.rfftn(_wide(x), axes=op.attr("dims")), result.dtype)


@kernel("fft_c2r")
def _c2r(op, x):
    result = op.result_types[0]
    if not x.size:
        return np.zeros(result.shape, result.dtype)
    *others, last = op.attr("dims")
    y = _wide(x)
    if others:
        y = np.fft.ifftn(y, axes=others, norm="forward")
    return rounded(np.fft.irfft(y, op.attr("size"), axis=last, norm="forward"), result.dtype)


def _of(x, op, work: str):
    """LAPACK's routine for such numbers."""
    kind = "dsy" if not np.iscomplexobj(x) else "zhe" if op.attr("hermitian") else "zsy"
    return getattr(lapack, kind + work)


@kernel("ldl")
def _ldl(op, x):
    x = computed(x)
    factors, pivots = np.zeros(x.shape, x.dtype), np.zeros(x.shape[:-1], np.int64)
    order = np.zeros(x.shape[:-2], np.int64)
    for place in itertools.product(*map(range, x.shape[:-2])) if x.size else ():
        packed, pivots[place], order[place] = _of(x, op, "trf")(x[place], lower=1)
        factors[place] = np.tril(packed)
    return rounded(factors, op.result_types[0].dtype), pivots, np.asarray(order, np.int64)


def _is_pivoting(pivots) -> bool:
    """Rows that are there, and blocks of two that say the same at both: the library walks from either end."""
    k, n = 0, len(pivots)
    while k < n:
        p = int(pivots[k])
        if not 1 <= abs(p) <= n or (p < 0 and (k + 1 == n or pivots[k + 1] != p)):
            return False
        k += 2 if p < 0 else 1
    return True


@kernel("ldl_solve")
def _ldl_solve(op, factors, pivots, b):
    a, x = computed(factors), np.zeros(b.shape, computed(b).dtype)
    for place in itertools.product(*map(range, x.shape[:-2])) if x.size else ():
        if _is_pivoting(pivots[place]):
            x[place], _ = _of(x, op, "trs")(a[place], pivots[place], b[place], lower=1)
        else:
            x[place] = complex(np.nan, np.nan) if np.iscomplexobj(x) else np.nan
    return rounded(x, op.result_types[0].dtype)


@kernel("eig")
def _eig(op, x):
    """Phases by the entry of the largest magnitude of each column, the first of nearly equal ones."""
    found = [np.full(t.shape, complex(np.nan, np.nan), np.complex128) for t in op.result_types]
    for place in itertools.product(*map(range, x.shape[:-2])) if x.size else ():
        if np.isfinite(x[place]).all():
            with contextlib.suppress(np.linalg.LinAlgError):
                values, vectors = np.linalg.eig(_wide(x[place]))
                found[0][place], found[1][place] = values, vectors * turns(vectors)
    return tuple(rounded(y, t.dtype) for y, t in zip(found, op.result_types))
