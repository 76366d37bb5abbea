# SPDX-License-Identifier: Apache-2.0
"""Linear algebra: what torch gives on the CPU, an owner gives too; where torch raises, NaN and info."""

import pytest
import torch
from remote_support import assert_same

import sojourn

# The second runtime works column by column: another order of sums, relative to factors of size about sqrt(n).
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-11}


def definite(*shape, dtype=torch.float64):
    """Symmetric matrices [..., n, n] with eigenvalues of at least 1."""
    a = torch.randn(*shape, shape[-1], dtype=dtype)
    return a @ a.mT + torch.eye(shape[-1], dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(1,), (7,), (0,), (3, 5), (2, 0, 4), (40, 12), (3, 130)], ids=str)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(device, seed, shape, dtype, upper):
    x = definite(*shape, dtype=dtype)
    garbage = torch.full_like(x, torch.nan)
    x = x.triu() + garbage.tril(-1) if upper else x.tril() + garbage.triu(1)
    expected, found = (torch.linalg.cholesky_ex(a, upper=upper) for a in (x, x.to(device)))
    assert found.L.stride() == expected.L.stride()
    assert_same([*found], [*expected], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_matrices_without_a_factor(device, seed, dtype):
    size = 9
    x = definite(4, size + 3, size, dtype=dtype)
    for order in range(1, size + 1):
        x[0, order, order - 1, order - 1] = -1
        x[1, order, order - 1, order - 1] = torch.nan
        x[2, order] = torch.eye(size, dtype=dtype)
        x[2, order, order - 1, order - 1] = 0
    expected, found = torch.linalg.cholesky_ex(x), torch.linalg.cholesky_ex(x.to(device))
    numbers = torch.arange(1, size + 1, dtype=torch.int32).expand(3, size)
    info = torch.zeros(4, size + 3, dtype=torch.int32)
    info[:3, 1 : size + 1] = numbers
    assert torch.equal(expected.info, info)
    factors = expected.L.masked_fill((info > 0)[..., None, None], torch.nan)
    assert_same([*found], [factors, info], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def spread(*shape, dtype=torch.float64):
    """Matrices that are far from singular, with singular values apart."""
    rows, columns = shape[-2:]
    u, v = torch.linalg.qr(torch.randn(*shape[:-2], rows, rows, dtype=dtype)).Q, torch.linalg.qr(
        torch.randn(*shape[:-2], columns, columns, dtype=dtype)).Q  # fmt: skip
    count = min(rows, columns)
    return u[..., :count] * torch.linspace(3, 1, count, dtype=dtype) @ v[..., :count].mT


def assert_directions(ours, theirs, loose):
    """Columns are theirs up to a sign; of the entries nearly as large as the largest, the first is positive."""
    turned = (ours * theirs).sum(-2, keepdim=True).sign()
    torch.testing.assert_close(ours, theirs * turned, rtol=loose, atol=loose)
    sizes = ours.abs()
    # Which entry is the largest may be a matter of rounding: those within 2^-12 count as equal.
    first = (sizes >= sizes.amax(-2, keepdim=True) * (1 - 2**-12)).to(torch.int8).argmax(-2, keepdim=True)
    assert (ours.gather(-2, first) > 0).all(), ours


def svd_parts(x, full):
    u, s, vt = torch.linalg.svd(x, full_matrices=full)
    count = s.shape[-1]
    return s, (u[..., :count] * s[..., None, :]) @ vt[..., :count, :], u.mT @ u, vt @ vt.mT


def safe(x):
    """Whose triangles are far from singular, too."""
    return x + 4 * torch.eye(5, dtype=x.dtype, device=x.device)


def mixed(x):
    """A symmetric matrix with eigenvalues of both signs, as far from singular as x times its transpose."""
    return x * torch.tensor([1.0, -1, 1, -1, 1], dtype=x.dtype).to(x.device) @ x.mT


def right(x):
    """A right-hand side beside x."""
    return torch.linspace(-1, 1, 15, dtype=x.dtype).reshape(5, 3).to(x.device)


#: Of matrices [2, 5, 5] (square) or [2, 6, 4].
SQUARE = {
    "det": torch.linalg.det, "det of a transpose": lambda x: torch.linalg.det(x.mT) * torch.linalg.slogdet(x.mT)[1],
    "solve a transpose": lambda x: torch.linalg.solve(x.mT, right(x)),
    "slogdet": torch.linalg.slogdet, "logdet": lambda x: torch.logdet(x @ x.mT),
    "inv": torch.linalg.inv, "inv_ex": torch.linalg.inv_ex, "solve": lambda x: torch.linalg.solve(x, right(x)),
    "solve a vector": lambda x: torch.linalg.solve(x, x[:, 0]), "tensorinv": lambda x: torch.linalg.tensorinv(x[0].view(5, 5), 1),
    "solve from the right": lambda x: torch.linalg.solve(x, right(x).mT, left=False),
    "lu": torch.linalg.lu, "lu_factor": torch.linalg.lu_factor, "lu_unpack": lambda x: torch.lu_unpack(*torch.linalg.lu_factor(x)),
    "lu_solve": lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), right(x)),
    "lu_solve adjoint": lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), right(x), adjoint=True),
    "lu_solve right": lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), right(x).mT, left=False),
    "triangular": lambda x: torch.linalg.solve_triangular(safe(x).tril(), right(x), upper=False),
    "triangular upper right unit": lambda x: torch.linalg.solve_triangular(
        safe(x), right(x).mT, upper=True, left=False, unitriangular=True),
    "triangular_solve": lambda x: torch.triangular_solve(right(x), safe(x), upper=False, transpose=True),
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.mT), "cholesky_solve": lambda x: torch.cholesky_solve(right(x), safe(x).tril()),
    "cholesky_inverse": lambda x: torch.cholesky_inverse(safe(x).tril()), "matrix_power": lambda x: torch.linalg.matrix_power(x, -3),
    "matrix_exp": torch.linalg.matrix_exp, "matrix_exp large": lambda x: torch.linalg.matrix_exp(-9 * x @ x.mT),
    "eigvalsh": lambda x: torch.linalg.eigvalsh(x + x.mT), "eigvalsh upper": lambda x: torch.linalg.eigvalsh(x, UPLO="U"),
    "cond": torch.linalg.cond, "pinv hermitian": lambda x: torch.linalg.pinv(mixed(x), hermitian=True),
}  # fmt: skip
TALL = {
    "qr": torch.linalg.qr, "qr complete": lambda x: torch.linalg.qr(x, "complete"), "qr r": lambda x: torch.linalg.qr(x, "r").R,
    "qr wide": lambda x: torch.linalg.qr(x.mT), "svdvals": torch.linalg.svdvals, "pinv": torch.linalg.pinv,
    "pinv rtol": lambda x: torch.linalg.pinv(x, rtol=0.5), "matrix_rank": lambda x: torch.linalg.matrix_rank(x @ x.mT),
    "nuclear norm": lambda x: torch.linalg.norm(x, "nuc", dim=(1, 2)), "spectral norm": lambda x: torch.linalg.matrix_norm(x, 2),
    "lu tall": torch.linalg.lu, "lu_factor wide": lambda x: torch.linalg.lu_factor(x.mT),
    "svd": lambda x: svd_parts(x, False), "svd full": lambda x: svd_parts(x, True),
}  # fmt: skip
WITHOUT_GRADIENT = {"matrix_rank", "qr r", "svd full", "qr complete", "lu_unpack"}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", [*SQUARE, *TALL])
def test_values_and_gradients(device, seed, name, dtype):
    function = SQUARE.get(name) or TALL[name]
    x = (spread(2, 5, 5) if name in SQUARE else spread(2, 6, 4)).to(dtype)

    def run(x):
        x = x.requires_grad_(name not in WITHOUT_GRADIENT)
        found = list(torch.utils._pytree.tree_leaves(function(x)))
        floats = [part for part in found if part.dtype == dtype and part.requires_grad]
        if floats:
            weights = [
                torch.arange(part.numel(), dtype=dtype).view(part.shape).cos().to(part.device) for part in floats
            ]
            found.append(torch.autograd.grad(floats, x, weights)[0])
        return [part.detach() for part in found]

    wanted, got = run(x.clone()), run(x.to(device))
    loose = 1e-9 if dtype == torch.float64 else 2e-3
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=loose, atol=loose)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_vectors_have_signs_by_rule(device, seed, dtype):
    """Eigenvectors and singular vectors are unique up to a sign: the entry of the largest magnitude is positive."""
    x = spread(3, 6, 6).to(dtype)
    loose = 1e-9 if dtype == torch.float64 else 1e-3
    values, vectors = torch.linalg.eigh((x + x.mT).to(device))
    wanted = torch.linalg.eigh(x + x.mT)
    torch.testing.assert_close(values.cpu(), wanted[0], rtol=loose, atol=loose)
    assert_directions(vectors.cpu(), wanted[1], loose)
    for y in (x, x[:, :4], x[:, :, :4]):
        u, s, vt = (part.cpu() for part in torch.linalg.svd(y.to(device), full_matrices=False))
        wanted = torch.linalg.svd(y, full_matrices=False)
        torch.testing.assert_close(s, wanted.S, rtol=loose, atol=loose)
        assert_directions(u, wanted.U, loose)
        torch.testing.assert_close(u * s[..., None, :] @ vt, y, rtol=loose, atol=loose)


def test_what_has_no_solution_says_so_in_its_values(device, seed):
    """No error, which would tell of values: infinities and NaN, and `info`."""
    x = torch.zeros(3, 4, 4, dtype=torch.float64)
    x[1] = torch.eye(4)
    x[2, 0, 0] = torch.nan
    there = x.to(device)
    inverse, info = (part.cpu() for part in torch.linalg.inv_ex(there))
    assert not inverse[0].isfinite().any() and torch.equal(inverse[1], x[1]) and info.tolist()[:2] == [1, 0]
    torch.testing.assert_close(torch.linalg.det(there).cpu()[:2], torch.tensor([0.0, 1.0], dtype=torch.float64))
    for part in (*torch.linalg.eigh(there), *torch.linalg.svd(there)):
        part = part.cpu()
        assert part[2].isnan().all() and part[:2].isfinite().all()
    assert torch.linalg.cholesky(there).cpu()[0].isnan().all()
    assert torch.linalg.matrix_exp(x[1].to(device) * 1e20).isnan().cpu().all()


def test_orthogonal_parameters(device, seed):
    """torch.nn.init.orthogonal_ and the parametrization, with its training."""
    w = torch.nn.init.orthogonal_(torch.empty(6, 4, dtype=torch.float64, device=device))
    torch.testing.assert_close((w.mT @ w).cpu(), torch.eye(4, dtype=torch.float64), rtol=0, atol=1e-12)
    for kind in ("matrix_exp", "cayley"):
        layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(5, 5).double(), orthogonal_map=kind).to(
            device
        )
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            layer(torch.ones(2, 5, dtype=torch.float64, device=device)).square().sum().backward()
            optimizer.step()
        weight = layer.weight.detach().cpu()
        torch.testing.assert_close(weight @ weight.mT, torch.eye(5, dtype=torch.float64), rtol=0, atol=1e-9)


def test_pivots_of_another_step(device, seed):
    x, b = spread(2, 5, 5), torch.randn(2, 5, 2, dtype=torch.float64)
    factors, pivots = torch.linalg.lu_factor(x.to(device))
    sojourn.flush()
    found = torch.linalg.lu_solve(factors, pivots, b.to(device)).cpu()
    torch.testing.assert_close(found, torch.linalg.solve(x, b), rtol=1e-9, atol=1e-9)
    p, lower, upper = (part.cpu() for part in torch.lu_unpack(factors, pivots))
    torch.testing.assert_close(p @ lower @ upper, x, rtol=1e-9, atol=1e-9)


def test_symmetric_factors(device, seed):
    x = torch.randn(3, 5, 5, dtype=torch.float64)
    x = x + x.mT
    x[0, 0, 0] = 0.0
    b = torch.randn(2, 3, 5, 2, dtype=torch.float64)
    factors, pivots, info = torch.linalg.ldl_factor_ex(x.to(device))
    wanted = torch.linalg.ldl_factor_ex(x)
    torch.testing.assert_close(factors.cpu(), wanted.LD, rtol=1e-9, atol=1e-9)
    assert torch.equal(pivots.cpu(), wanted.pivots) and torch.equal(info.cpu(), wanted.info)
    answers = torch.linalg.ldl_solve(factors, pivots, b.to(device)).cpu()
    torch.testing.assert_close(answers, torch.linalg.solve(x, b), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "pivots", [[1, 2, 0], [1, 2, 4], [1, 2, -3], [-4, -4, 3], [-1, 2, 3], [1, -2, -3], [-(2**31), 1, 1]]
)
def test_pivots_that_are_none(device, seed, pivots):
    """LAPACK would read and write what is not the matrix's."""
    x, b = torch.randn(2, 3, 3, dtype=torch.float64), torch.randn(2, 3, 1, dtype=torch.float64)
    both = torch.tensor([pivots, [1, 2, 3]], dtype=torch.int32)
    answers = torch.linalg.ldl_solve(x.to(device), both.to(device), b.to(device)).cpu()
    assert answers[0].isnan().all()
    torch.testing.assert_close(answers[1], torch.linalg.ldl_solve(x[1], both[1], b[1]), rtol=1e-8, atol=1e-8)
