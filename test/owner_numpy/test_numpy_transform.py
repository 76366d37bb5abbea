# SPDX-License-Identifier: Apache-2.0
"""Complex numbers, Fourier transforms, factors of symmetric and eigenvectors of any matrices: against torch in double
precision."""

import numpy as np
import pytest
import torch
from numpy_builder import run_op, t

LOOSE = {"c64": 1e-5, "f32": 1e-5, "c128": 1e-12, "f64": 1e-12}
PARTS = {"c64": "f32", "c128": "f64"}
NUMPY = {"c64": np.complex64, "c128": np.complex128, "f32": np.float32, "f64": np.float64}


def numbers(rng, name, *shape):
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if name in PARTS else x).astype(NUMPY[name])


def close(ours, theirs, name):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.dtype == NUMPY[name]
    np.testing.assert_allclose(ours, theirs, rtol=LOOSE[name], atol=LOOSE[name] * max(1, np.abs(theirs).max(initial=0)))


@pytest.mark.parametrize("name", PARTS)
def test_parts(rng, name):
    x = numbers(rng, name, 3, 4)
    pairs = run_op("parts", [x.T], t(PARTS[name], 4, 3, 2))
    assert (pairs[..., 0] == x.T.real).all() and (pairs[..., 1] == x.T.imag).all()
    assert (run_op("complex", [pairs], t(name, 4, 3)) == x.T).all()


@pytest.mark.parametrize("name", PARTS)
def test_transforms(rng, name):
    wide = lambda x: torch.from_numpy(x.astype(np.complex128 if np.iscomplexobj(x) else np.float64))
    for _ in range(20):
        shape = [int(k) for k in rng.integers(1, 7, 3)]
        dims = tuple(int(d) for d in rng.permutation(3)[: rng.integers(1, 4)])
        x = numbers(rng, name, *shape)
        close(
            run_op("fft_c2c", [x], t(name, *shape), dims=dims, inverse=False), torch.fft.fftn(wide(x), dim=dims), name
        )
        back = run_op("fft_c2c", [x], t(name, *shape), dims=dims, inverse=True)
        close(back, torch.fft.ifftn(wide(x), dim=dims, norm="forward"), name)
        real, half = numbers(rng, PARTS[name], *shape), list(shape)
        half[dims[-1]] = shape[dims[-1]] // 2 + 1
        close(run_op("fft_r2c", [real], t(name, *half), dims=dims), torch.fft.rfftn(wide(real), dim=dims), name)
        spectrum = numbers(rng, name, *half)
        sizes = [shape[d] for d in dims]
        ours = run_op("fft_c2r", [spectrum], t(PARTS[name], *shape), dims=dims, size=shape[dims[-1]])
        close(ours, torch.fft.irfftn(wide(spectrum), s=sizes, dim=dims, norm="forward"), PARTS[name])


@pytest.mark.parametrize("name", NUMPY)
def test_eigenvectors(rng, name):
    x, kind = numbers(rng, name, 2, 4, 4), name if name in PARTS else {"f32": "c64", "f64": "c128"}[name]
    x[1, 2, 3] = np.inf
    values, vectors = run_op("eig", [x], [t(kind, 2, 4), t(kind, 2, 4, 4)])
    close(x[0] @ vectors[0], vectors[0] * values[0], kind)
    close(np.linalg.norm(vectors[0], axis=0).astype(NUMPY[kind]), np.ones(4), kind)
    largest = vectors[0][np.abs(vectors[0]).argmax(0), np.arange(4)]
    assert (np.abs(largest.imag) < LOOSE[kind]).all() and (largest.real > 0).all()
    assert np.isnan(values[1]).all() and np.isnan(vectors[1]).all()


@pytest.mark.parametrize("hermitian", [False, True])
def test_symmetric_factors_of_complex_numbers(rng, hermitian):
    x = numbers(rng, "c128", 3, 5, 5)
    x = x + (np.conj(np.swapaxes(x, -1, -2)) if hermitian else np.swapaxes(x, -1, -2))
    types = [t("c128", 3, 5, 5), t("i64", 3, 5), t("i64", 3)]
    packed, pivots, order = run_op("ldl", [x], types, hermitian=hermitian)
    theirs = torch.linalg.ldl_factor_ex(torch.from_numpy(x), hermitian=hermitian)
    close(packed, theirs.LD, "c128")
    assert (pivots == theirs.pivots.numpy()).all() and (order == 0).all()
    b = numbers(rng, "c128", 3, 5, 2)
    solution = run_op("ldl_solve", [packed, pivots, b], t("c128", 3, 5, 2), hermitian=hermitian)
    close(solution, np.linalg.solve(x, b), "c128")


@pytest.mark.parametrize("name", PARTS)
def test_factors_of_complex_numbers(rng, name):
    """Against their definitions: products give the matrices again, and phases are those of the rule."""
    x = numbers(rng, name, 2, 5, 4)
    square = x[:, :4]
    adjoint = lambda y: np.conj(np.swapaxes(y, -1, -2))
    definite = square @ adjoint(square) + np.eye(4, dtype=x.dtype)
    garbage = np.triu(np.full_like(definite, 1e3), 1)
    factor, order = run_op("cholesky", [np.tril(definite) + garbage], [t(name, 2, 4, 4), t("i64", 2)])
    assert (order == 0).all() and (np.diagonal(factor, axis1=-2, axis2=-1).imag == 0).all()
    close(factor @ adjoint(factor), definite, name)
    values, vectors = run_op("eigh", [np.tril(definite) + garbage], [t(PARTS[name], 2, 4), t(name, 2, 4, 4)])
    close(vectors * values[:, None] @ adjoint(vectors), definite, name)
    u, s, vt = run_op("svd", [x], [t(name, 2, 5, 5), t(PARTS[name], 2, 4), t(name, 2, 4, 4)], full=True)
    close(u[..., :4] * s[:, None] @ vt, x, name)
    for columns in (vectors, u):
        close(
            adjoint(columns) @ columns, np.broadcast_to(np.eye(columns.shape[-1], dtype=x.dtype), columns.shape), name
        )
        sizes = np.abs(columns)
        first = (sizes >= sizes.max(-2, keepdims=True) * (1 - 2.0**-12)).argmax(-2)
        largest = np.take_along_axis(columns, first[:, None], -2)
        assert (np.abs(largest.imag) < LOOSE[name]).all() and (largest.real > 0).all()
    q, r = run_op("qr", [x], [t(name, 2, 5, 4), t(name, 2, 4, 4)], full=False)
    close(q @ r, x, name)
    assert (np.tril(r, -1) == 0).all()
    b = numbers(rng, name, 2, 4, 3)
    y = run_op("triangular_solve", [factor, b], t(name, 2, 4, 3), lower=True, unit=False)
    close(factor @ y, b, name)
    packed, _, rows, _ = run_op("lu", [x], [t(name, 2, 5, 4), t("i64", 2, 4), t("i64", 2, 5), t("i64", 2)])
    product = (np.tril(packed, -1) + np.eye(5, 4, dtype=x.dtype)) @ np.triu(packed)[:, :4]
    close(product, np.take_along_axis(x, rows[..., None], -2), name)


@pytest.mark.parametrize("name", PARTS)
def test_running_log_of_sums_of_complex_numbers(rng, name):
    x = 4 * numbers(rng, name, 3, 6)
    for dim in (0, 1):
        theirs = torch.logcumsumexp(torch.from_numpy(x.astype(np.complex128)), dim)
        close(run_op("cumlogsumexp", [x], t(name, 3, 6), dim=dim), theirs, name)


def test_symmetric_factors(rng):
    x = rng.standard_normal((3, 5, 5))
    x = x + np.swapaxes(x, -1, -2)
    x[0, 0, 0] = 0
    packed, pivots, order = run_op("ldl", [x], [t("f64", 3, 5, 5), t("i64", 3, 5), t("i64", 3)], hermitian=False)
    theirs = torch.linalg.ldl_factor_ex(torch.from_numpy(x))
    close(packed, theirs.LD, "f64")
    assert (pivots == theirs.pivots.numpy()).all() and (order == 0).all()
    b = rng.standard_normal((3, 5, 2))
    close(run_op("ldl_solve", [packed, pivots, b], t("f64", 3, 5, 2), hermitian=False), np.linalg.solve(x, b), "f64")
    for wrong in (
        [1, 2, 3, 4, 0],
        [1, 2, 3, 4, 6],
        [1, 2, 3, 4, -5],
        [-6, -6, 3, 4, 5],
        [-1, 2, 3, 4, 5],
        [1, -3, -4, 4, 5],
    ):
        broken = pivots.copy()
        broken[1] = wrong
        answer = run_op("ldl_solve", [packed, broken, b], t("f64", 3, 5, 2), hermitian=False)
        assert np.isnan(answer[1]).all() and np.isfinite(answer[0]).all() and np.isfinite(answer[2]).all()
