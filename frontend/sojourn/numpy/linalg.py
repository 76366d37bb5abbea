# SPDX-License-Identifier: Apache-2.0
"""`numpy.linalg` on arrays at an owner.

Owners compute lazily, and values are not read to see whether a factorization succeeded. Where NumPy raises LinAlgError
for a matrix's values (it is singular, not positive definite, or nothing converges), elements are infinite or NaN here.
Errors of shapes and dtypes are NumPy's; as there, float16 is refused, and integers are computed in float64.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy
import torch
from numpy.linalg import LinAlgError

from . import _norms as norms
from ._array import wrap
from ._convert import axes_of, axis_of, tensor, tensors
from ._dtypes import real_of
from ._matrices import (
    adjoint,
    common,
    cross,
    diagonal,
    matmul,
    matrices,
    matrix_power,
    matrix_transpose,
    multi_dot,
    outer,
    stack,
    tensordot,
    times,
    trace,
    triangle,
    vecdot,
)
from ._outputs import function_of

__all__ = [
    "LinAlgError",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]

_function = function_of(numpy.linalg)
_NONE: Any = numpy._NoValue
_one = numpy.ones((1, 1))
# NumPy's own named tuples, here of other arrays.
_EigResult: Any = type(numpy.linalg.eig(_one))
_EighResult: Any = type(numpy.linalg.eigh(_one))
_QRResult: Any = type(numpy.linalg.qr(_one))
_SVDResult: Any = type(numpy.linalg.svd(_one))
_SlogdetResult: Any = type(numpy.linalg.slogdet(_one))


# Equations and inverses.


@_function
def solve(a, b):
    """The solution x of a x = b; `b`: one vector (1-d) or matrices of right-hand sides, [..., M, K]."""
    a, b = tensors(a, b)
    stack(a, square=True)
    size = a.shape[-1]
    if b.dim() == 0 or b.shape[0 if b.dim() == 1 else -2] != size:
        raise ValueError(
            "solve: Input operand 1 does not have enough dimensions or a mismatch in its core dimension 0, with gufunc "
            f"signature (m,m),(m,n)->(m,n): shape {tuple(b.shape)} beside {tuple(a.shape)}"
        )
    a, b = common(a, b)
    return wrap(_solved(a, b.unsqueeze(-1)).squeeze(-1) if b.dim() == 1 else _solved(a, b))


def _solved(a, b):
    batch = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    # torch would take b for a stack of vectors if its shape allowed it.
    return torch.linalg.solve(a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:]))


@_function
def inv(a):
    """The inverse of each matrix; of a singular one, infinities and NaN."""
    return wrap(torch.linalg.inv(matrices(a, square=True)))


@_function
def tensorsolve(a, b, axes=None):
    """The solution x of tensordot(a, x, x.ndim) = b; `axes`: of `a`, moved to the end before."""
    a, b = tensors(a, b)
    if axes is not None:
        moved = axes_of(axes, a.dim())
        a = a.permute(*(k for k in range(a.dim()) if k not in moved), *moved)
    shape = tuple(a.shape[b.dim() :])
    size = math.prod(shape)
    if a.numel() != size**2 or b.numel() != size:
        raise LinAlgError("Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])")
    a, b = common(a.reshape(size, size), b.reshape(size, 1))
    return wrap(torch.linalg.solve(a, b).reshape(shape))


@_function
def tensorinv(a, ind=2):
    """The inverse for tensordot(_, _, ind), of shape a.shape[ind:] + a.shape[:ind]."""
    found = tensor(a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    shape = tuple(found.shape)
    if not shape:
        raise TypeError("tensorinv takes arrays of at least one dimension")
    size = math.prod(shape[ind:])
    rows = found.numel() // size if size else 0
    return wrap(torch.linalg.inv(matrices(found.reshape(rows, size), square=True)).reshape(shape[ind:] + shape[:ind]))


@_function
def lstsq(a, b, rcond=None):
    """The x of least |b - a x| and norm, with residuals, rank (int32, no dimensions) and singular values of `a`.

    Residuals are of shape [K], or [1] for a vector `b`, where `a` has more rows than columns, else of [0]. NumPy gives
    [0] as well where the rank is less than the count of columns; that depends on values, and full rank is assumed here.
    """
    a, b = tensors(a, b)
    isVector = b.dim() == 1
    b = b.unsqueeze(-1) if isVector else b
    for x in (a, b):
        if x.dim() != 2:
            raise LinAlgError(f"{x.dim()}-dimensional array given. Array must be two-dimensional")
    (rows, columns), size = a.shape, b.shape[-1]
    if rows != b.shape[0]:
        raise LinAlgError("Incompatible dimensions")
    a, b = common(a, b)
    eps = torch.finfo(a.dtype).eps
    limit = eps * max(rows, columns) if rcond is None else float(rcond) if rcond >= 0 else eps
    if rows and columns:
        # With no right-hand side, the rank is still asked for.
        solved = torch.linalg.lstsq(a, b if size else torch.zeros_like(a[:, :1]), rcond=limit, driver="gelsd")
        x, rank, values = solved.solution[:, :size], solved.rank.to(torch.int32), solved.singular_values
    else:
        x = torch.zeros(columns, size, dtype=a.dtype, device=a.device)
        rank = torch.zeros((), dtype=torch.int32, device=a.device)
        values = torch.zeros(0, dtype=real_of(a.dtype), device=a.device)
    rest = torch.sum(torch.abs(b - torch.matmul(a, x)) ** 2, 0)
    rest = rest if rows > columns else rest[:0]
    return wrap(x.squeeze(-1) if isVector else x), wrap(rest), wrap(rank), wrap(values)


@_function
def pinv(a, rcond=None, hermitian=False, *, rtol=_NONE):
    """The pseudo-inverse: singular values up to `rcond` (default 1e-15) times the largest one count as 0."""
    if rcond is None:
        rcond = 1e-15 if rtol is _NONE else rtol
    elif rtol is not _NONE:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    found = stack(a)
    if 0 in found.shape[-2:]:
        return wrap(found.transpose(-1, -2).clone())
    found = common(found)[0]
    if rcond is None:
        rcond = max(found.shape[-2:]) * torch.finfo(found.dtype).eps
    u, values, vh = _svd(found, hermitian)
    limit = torch.amax(values, -1, keepdim=True) * _limit(rcond, values)
    kept = values > limit
    inverse = torch.where(kept, 1.0 / torch.where(kept, values, torch.ones_like(values)), torch.zeros_like(values))
    return wrap(torch.matmul(times(inverse, adjoint(vh)), adjoint(u)))


def _limit(value, like):
    """A number, or a number per matrix beside their values."""
    return value if isinstance(value, (int, float)) else tensor(value, like.dtype, like.device).unsqueeze(-1)


# Factors.


@_function
def cholesky(a, /, *, upper=False):
    """The lower (or upper) triangular factor; NaN where a matrix is not positive definite."""
    return wrap(torch.linalg.cholesky(matrices(a, square=True), upper=bool(upper)))


@_function
def qr(a, mode="reduced"):
    """An orthogonal and a triangular factor; `mode` "reduced", "complete", "r" (the latter only) or "raw"."""
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ValueError(f"Unrecognized mode '{mode}'")
    found = matrices(a)
    if mode == "raw":
        reflectors, scales = torch.geqrf(found)
        return wrap(reflectors.transpose(-1, -2)), wrap(scales)
    q, r = torch.linalg.qr(found, mode=mode)
    return wrap(r) if mode == "r" else _QRResult(wrap(q), wrap(r))


@_function
def eig(a):
    """Eigenvalues and, as columns, eigenvectors: always complex (NumPy's are real where all eigenvalues are)."""
    return _EigResult(*map(wrap, torch.linalg.eig(matrices(a, square=True))))


@_function
def eigvals(a):
    """Eigenvalues in no order: always complex (NumPy's are real where all are)."""
    return wrap(torch.linalg.eigvals(matrices(a, square=True)))


@_function
def eigh(a, UPLO="L"):
    """Ascending eigenvalues and, as columns, eigenvectors of symmetric matrices, of which one triangle is used."""
    UPLO = triangle(UPLO)
    return _EighResult(*map(wrap, torch.linalg.eigh(matrices(a, square=True), UPLO=UPLO)))


@_function
def eigvalsh(a, UPLO="L"):
    """Ascending eigenvalues of symmetric matrices, of which one triangle is used."""
    UPLO = triangle(UPLO)
    return wrap(torch.linalg.eigvalsh(matrices(a, square=True), UPLO=UPLO))


def _svd(a: torch.Tensor, hermitian: bool, full: bool = False) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if not hermitian:
        return torch.linalg.svd(a, full_matrices=full)
    values, vectors = torch.linalg.eigh(a)
    sizes, order = torch.sort(torch.abs(values), -1, descending=True)
    u = torch.gather(vectors, -1, order.unsqueeze(-2).expand(vectors.shape))
    signs = torch.where(torch.gather(values, -1, order) < 0, -1.0, 1.0)
    return u, sizes, adjoint(times(signs, u))


def _values(a: torch.Tensor, hermitian: bool = False) -> torch.Tensor:
    """Singular values, descending."""
    if hermitian:
        return torch.sort(torch.abs(torch.linalg.eigvalsh(a)), -1, descending=True).values
    return torch.linalg.svdvals(a)


@_function
def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    """The factors U, S and Vh of a = U diag(S) Vh, or S only; `hermitian`: by the eigenvalues of the lower triangle."""
    found = matrices(a, square=hermitian)
    if not compute_uv:
        return wrap(_values(found, hermitian))
    return _SVDResult(*map(wrap, _svd(found, hermitian, bool(full_matrices))))


@_function
def svdvals(x, /):
    """Singular values, descending."""
    return wrap(_values(matrices(x)))


# Numbers of matrices.


@_function
def det(a):
    """The determinant."""
    return wrap(torch.linalg.det(matrices(a, square=True)))


@_function
def slogdet(a):
    """The sign (of complex matrices the phase) and the logarithm of the size of the determinant."""
    return _SlogdetResult(*map(wrap, torch.linalg.slogdet(matrices(a, square=True))))


@_function
def matrix_rank(A, tol=None, hermitian=False, *, rtol=None):
    """How many singular values exceed `tol`, default: `rtol`, or the rounding error, times the largest one."""
    if rtol is not None and tol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    found = tensor(A)
    if found.dim() < 2:
        return wrap(torch.any(found != 0).to(torch.int64))
    found = matrices(found, square=hermitian)
    values = _values(found, hermitian)
    if not values.shape[-1]:
        return wrap(torch.zeros(values.shape[:-1], dtype=torch.int64, device=values.device))
    if tol is None:
        rtol = max(found.shape[-2:]) * torch.finfo(found.dtype).eps if rtol is None else rtol
        limit = torch.amax(values, -1, keepdim=True) * _limit(rtol, values)
    else:
        limit = _limit(tol, values)
    return wrap(torch.sum(values > limit, -1))


@_function
def cond(x, p=None):
    """The norm (`p` as `ord` of `norm`) times that of the inverse; infinity for singular matrices."""
    found = tensor(x)
    if 0 in found.shape[-2:]:
        raise LinAlgError("cond is not defined on empty arrays")
    if p in (None, 2, -2):
        found = matrices(found)
        values = _values(found)
        first, last = values[..., 0], values[..., -1]
        made = last / first if p == -2 else first / last
    else:
        found = matrices(found, square=True)
        axes = found.dim() - 2, found.dim() - 1
        made = norms.matrix(found, p, axes, False) * norms.matrix(torch.linalg.inv(found), p, axes, False)
    known = ~torch.any(torch.isnan(found).flatten(-2), -1)
    return wrap(torch.where(torch.isnan(made) & known, math.inf, made))


@_function
def norm(x, ord=None, axis=None, keepdims=False):
    """A norm of vectors along an axis, or of matrices along two; None: of all elements, of one vector or matrix."""
    found = tensor(x)
    if axis is None:
        if ord is None or (ord in ("f", "fro") and found.dim() == 2) or (ord == 2 and found.dim() == 1):
            return wrap(norms.vector(found, None, tuple(range(found.dim())), keepdims))
        axis = tuple(range(found.dim()))
    elif not isinstance(axis, tuple):
        axis = (operator.index(axis),)
    axes = tuple(axis_of(k, found.dim()) for k in axis)
    if len(axes) == 1:
        return wrap(norms.vector(found, ord, axes, keepdims))
    if len(axes) == 2:
        return wrap(norms.matrix(found, ord, axes, keepdims))
    raise ValueError("Improper number of dimensions to norm.")


@_function
def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """A norm of matrices along the last two axes."""
    found = tensor(x)
    axes = axis_of(-2, found.dim()), axis_of(-1, found.dim())
    return wrap(norms.matrix(found, ord, axes, keepdims))


@_function
def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """A norm of vectors along an axis, of the elements of several axes, or of all."""
    found = tensor(x)
    return wrap(norms.vector(found, ord, axes_of(axis, found.dim()), keepdims))
