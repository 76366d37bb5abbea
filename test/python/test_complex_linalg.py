# SPDX-License-Identifier: Apache-2.0
"""Matrices of complex numbers, and functions whose branch cuts signs of zeros choose: what torch gives on the CPU."""

import pytest
import torch
from eager_support import both

FUNCTIONS = {
    "acos": torch.acos, "acosh": torch.acosh, "asin": torch.asin, "asinh": torch.asinh, "atan": torch.atan, "atanh": torch.atanh,
    "exp2": torch.exp2, "logsumexp": lambda x: x.logsumexp(-1),
    "logcumsumexp": lambda x: x.logcumsumexp(-1), "renorm": lambda x: torch.renorm(x, 2, 0, 1.5),
    "reflect": lambda x: torch.nn.functional.pad(x.reshape(2, 3, 4), (1, 2, 1, 0), mode="reflect"),
}  # fmt: skip


def numbers(*shape, dtype=torch.complex128):
    return torch.randn(*shape, dtype=dtype)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_gradients(device, seed, name):
    both(device, FUNCTIONS[name], 3 * numbers(6, 4), grad=True)
    both(device, FUNCTIONS[name], 3 * numbers(6, 4, dtype=torch.complex64), loose=2e-5)


@pytest.mark.parametrize("name", ["acos", "acosh", "asin", "asinh", "atan", "atanh"])
def test_branch_cuts(device, seed, name):
    """On both sides of the real and of the imaginary axis: the sign of a zero says which."""
    sizes = torch.tensor([0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 30, -30], dtype=torch.float64)
    zeros = torch.tensor([0.0, -0.0], dtype=torch.float64).repeat_interleave(len(sizes))
    x = torch.cat([torch.complex(sizes.repeat(2), zeros), torch.complex(zeros, sizes.repeat(2))])
    both(device, FUNCTIONS[name], x)
    both(device, FUNCTIONS[name], x * 1e-6)


def test_truth(device, seed):
    x, y = numbers(3, 4), numbers(3, 4)
    x[0], x[1, 1], y[:, 2] = 0, 1j, 0
    for function in (torch.logical_and, torch.logical_or, torch.logical_xor):
        both(device, function, x, y)
    for function in (
        torch.logical_not,
        torch.any,
        torch.all,
        lambda x: x.any(1),
        lambda x: x.all(0),
        lambda x: x.bool(),
    ):
        both(device, function, x)
    both(device, lambda x: torch.nonzero_static(x, size=9), x)


@pytest.mark.parametrize("function", [torch.logaddexp, lambda a, b: torch.logaddexp(b, a)], ids=["a, b", "b, a"])
def test_logaddexp(device, seed, function):
    a, b = 5 * numbers(40), 5 * numbers(40)
    a[:4], b[:4] = 900 + 2j, -900
    both(device, function, a, b, grad=True)


def definite(x):
    return x @ x.mH + torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)


def right(x):
    """A right-hand side beside x."""
    part = torch.linspace(-1, 1, 2 * x.shape[-1], dtype=torch.float64).reshape(x.shape[-1], 2)
    return torch.complex(part, part.flip(0)).to(x.device)


def safe(x):
    """Whose triangles are far from singular, too."""
    return x + 6 * torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)


#: Of matrices [2, 4, 4].
SQUARE = {
    "cholesky": lambda x: torch.linalg.cholesky(definite(x)),
    "cholesky upper": lambda x: torch.linalg.cholesky(definite(x), upper=True),
    "cholesky_solve": lambda x: torch.cholesky_solve(right(x).expand(2, 4, 2), torch.linalg.cholesky(definite(x))),
    "cholesky_solve upper": lambda x: torch.cholesky_solve(right(x).expand(2, 4, 2), safe(x).triu(), upper=True),
    "cholesky_inverse": lambda x: torch.cholesky_inverse(torch.linalg.cholesky(definite(x))),
    "det": torch.linalg.det, "det of a transpose": lambda x: torch.linalg.det(x.mT), "slogdet": torch.linalg.slogdet,
    "slogdet of a transpose": lambda x: torch.linalg.slogdet(x.mH),
    "inv": torch.linalg.inv, "lu": torch.linalg.lu, "lu_factor": torch.linalg.lu_factor,
    "lu_unpack": lambda x: torch.lu_unpack(*torch.linalg.lu_factor(x))[1:],
    "lu_solve": lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), right(x)),
    "lu_solve adjoint": lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), right(x), adjoint=True),
    "lu_solve right": lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), right(x).mT, left=False),
    "lu_solve right adjoint": lambda x: torch.linalg.lu_solve(
        *torch.linalg.lu_factor(x), right(x).mH, left=False, adjoint=True),
    "solve": lambda x: torch.linalg.solve(x, right(x)), "solve right": lambda x: torch.linalg.solve(x, right(x).mT.expand(2, 2, 4), left=False),
    "solve an adjoint": lambda x: torch.linalg.solve(x.mH, right(x)),
    "triangular": lambda x: torch.linalg.solve_triangular(safe(x), right(x), upper=False),
    "triangular right": lambda x: torch.linalg.solve_triangular(safe(x), right(x).mH, upper=True, left=False),
    "triangular_solve": lambda x: torch.triangular_solve(right(x), safe(x), upper=False, transpose=True).solution,
    "matrix_exp": torch.linalg.matrix_exp, "matrix_power": lambda x: torch.linalg.matrix_power(x, -2),
    "eigvalsh": lambda x: torch.linalg.eigvalsh(x + x.mH), "eigvalsh upper": lambda x: torch.linalg.eigvalsh(x, UPLO="U"),
    "pinv hermitian": lambda x: torch.linalg.pinv(x + x.mH, hermitian=True), "cond": torch.linalg.cond,
    "tensorinv": lambda x: torch.linalg.tensorinv(x[0].reshape(4, 2, 2), 1),
}  # fmt: skip
#: Of matrices [2, 5, 3].
TALL = {
    "qr": torch.linalg.qr, "qr wide": lambda x: torch.linalg.qr(x.mH.contiguous()), "svdvals": torch.linalg.svdvals,
    "pinv": torch.linalg.pinv, "pinv rtol": lambda x: torch.linalg.pinv(x, rtol=0.5), "nuclear norm": lambda x: torch.linalg.matrix_norm(x, "nuc"),
    "spectral norm": lambda x: torch.linalg.matrix_norm(x, 2), "lu_factor": torch.linalg.lu_factor,
    "least squares": lambda x: torch.linalg.lstsq(x, x[..., :2] * 1j + 1).solution,
}  # fmt: skip
#: Without gradients, which some of them have none of.
PLAIN = {
    "householder": lambda x: torch.linalg.householder_product(*torch.geqrf(x)),
    "qr complete": lambda x: torch.linalg.qr(x, "complete"), "qr r": lambda x: torch.linalg.qr(x, "r").R,
    "matrix_rank": lambda x: torch.linalg.matrix_rank(x @ x.mH), "lu": torch.linalg.lu, "geqrf": torch.geqrf,
    "geqrf wide": lambda x: torch.geqrf(x.mT), "ldl": lambda x: torch.linalg.ldl_factor(x.mT @ x),
    "ldl hermitian": lambda x: torch.linalg.ldl_factor(x.mH @ x, hermitian=True),
    "ldl_solve": lambda x: torch.linalg.ldl_solve(*torch.linalg.ldl_factor(x.mT @ x), right(x[:, :3])),
    "ldl_solve hermitian": lambda x: torch.linalg.ldl_solve(
        *torch.linalg.ldl_factor(x.mH @ x, hermitian=True), right(x[:, :3]), hermitian=True),
}  # fmt: skip


@pytest.mark.parametrize("name", SQUARE)
def test_square_matrices(device, seed, name):
    both(device, SQUARE[name], safe(numbers(2, 4, 4)) * 0.5, grad=True, loose=1e-8)


@pytest.mark.parametrize("name", TALL)
def test_tall_matrices(device, seed, name):
    both(device, TALL[name], numbers(2, 5, 3), grad=True, loose=1e-8)


@pytest.mark.parametrize("name", PLAIN)
def test_factors(device, seed, name):
    both(device, PLAIN[name], numbers(2, 5, 3), loose=1e-8)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelss", "gelsd"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4)], ids=str)
def test_least_squares(device, seed, shape, driver):
    both(
        device,
        lambda a, b: torch.linalg.lstsq(a, b, driver=driver),
        numbers(*shape),
        numbers(*shape[:-1], 2),
        loose=1e-8,
    )


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_products_with_reflections(device, seed, left, transpose):
    a, tau = torch.geqrf(numbers(2, 5, 3))
    other = numbers(2, 5, 2) if left else numbers(2, 2, 5)
    both(device, lambda *x: torch.ormqr(*x, left, transpose), a, tau, other, grad=True, loose=1e-8)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_vectors_have_phases_by_rule(device, seed, dtype):
    """Of each vector the entry of the largest magnitude is real and positive; products give the matrix again."""
    loose = 1e-9 if dtype == torch.complex128 else 1e-4
    x = numbers(3, 5, 5, dtype=dtype)
    values, vectors = (part.cpu() for part in torch.linalg.eigh((x + x.mH).to(device)))
    same = lambda ours, theirs: torch.testing.assert_close(ours, theirs, rtol=loose, atol=loose)
    same(values, torch.linalg.eigvalsh(x + x.mH))
    same(vectors * values[:, None] @ vectors.mH, x + x.mH)
    found = [vectors]
    for full in (False, True):
        y = x[:, :, :3]
        u, s, vt = (part.cpu() for part in torch.linalg.svd(y.to(device), full_matrices=full))
        same(s, torch.linalg.svdvals(y))
        same(u[..., :3] * s[:, None] @ vt, y)
        found.append(u)
    for columns in found:
        same(columns.mH @ columns, torch.eye(columns.shape[-1], dtype=dtype).expand(3, -1, -1))
        # Of nearly equal ones the first.
        sizes = columns.abs()
        first = (sizes >= sizes.amax(-2, keepdim=True) * (1 - 2**-12)).to(torch.int8).argmax(-2, keepdim=True)
        largest = columns.gather(-2, first)
        assert (largest.imag.abs() < loose).all() and (largest.real > 0).all()


def test_gradients_of_vectors(device, seed):
    """Of what no phase changes."""

    def projections(x):
        _, vectors = torch.linalg.eigh(x + x.mH)
        u, s, vh = torch.linalg.svd(x, full_matrices=False)
        return (vectors[..., :2] @ vectors[..., :2].mH).abs().sum() + (
            (u[..., :1] * s[..., None, :1]) @ vh[..., :1, :]
        ).abs().sum()

    both(device, projections, numbers(2, 4, 4), grad=True, loose=1e-7)


def test_what_has_no_factor(device, seed):
    x = torch.zeros(3, 4, 4, dtype=torch.complex128)
    x[1] = torch.eye(4)
    x[2, 1, 0] = complex(0, torch.nan)
    there = x.to(device)
    factor, info = (part.cpu() for part in torch.linalg.cholesky_ex(there))
    assert factor[0].isnan().all() and torch.equal(factor[1], x[1]) and info.tolist()[:2] == [1, 0]
    for part in (*torch.linalg.eigh(there), *torch.linalg.svd(there)):
        part = part.cpu()
        assert part[2].isnan().all() and part[:2].isfinite().all()
    inverse, info = (part.cpu() for part in torch.linalg.inv_ex(there))
    assert torch.equal(inverse[1], x[1]) and info.tolist()[:2] == [1, 0]
