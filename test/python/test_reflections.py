# SPDX-License-Identifier: Apache-2.0
"""Householder's reflections as LAPACK packs them, and least squares: what torch gives on the CPU."""

import pytest
import torch
from eager_support import both, same_strides

import sojourn

SHAPES = [(5, 3), (4, 4), (3, 5), (2, 6, 4), (2, 3, 3, 1), (1, 4), (7, 1), (0, 3), (3, 0), (2, 0, 0)]
DRIVERS = [None, "gels", "gelsy", "gelss", "gelsd"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_geqrf(device, seed, shape, dtype):
    same_strides(*both(device, torch.geqrf, torch.randn(*shape, dtype=dtype)))


def test_geqrf_where_nothing_is_to_be_reflected(device, seed):
    x = torch.randn(4, 5, 3, dtype=torch.float64)
    x[0, 1:, 0] = 0  # tau = 0, whatever the sign
    x[1] = x[1].triu()
    x[2] = 0
    x[3, 0, 0] = -0.0  # counts as positive
    _, (_, tau) = both(device, torch.geqrf, x)
    assert tau[1].eq(0).all() and tau[2].eq(0).all()


@pytest.mark.parametrize("shape", [(5, 3), (4, 4), (2, 6, 4), (2, 3, 3, 1), (7, 1), (3, 0), (2, 0, 0)], ids=str)
def test_products_of_reflections(device, seed, shape):
    a, tau = torch.geqrf(torch.randn(*shape, dtype=torch.float64))
    same_strides(*both(device, torch.linalg.householder_product, a, tau))
    both(device, torch.linalg.householder_product, a, tau[..., : shape[-1] // 2])
    # Any numbers are reflections, if not orthogonal ones.
    a, tau = torch.randn(*shape, dtype=torch.float64), torch.randn(*shape[:-2], shape[-1], dtype=torch.float64)
    both(device, torch.linalg.householder_product, a, tau, grad=a.numel() > 0)
    both(device, torch.orgqr, a, torch.zeros_like(tau))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("shape", [(5, 3), (4, 4), (2, 6, 4), (3, 5), (7, 1), (3, 0)], ids=str)
def test_products_with_reflections(device, seed, shape, left, transpose):
    a, tau = torch.geqrf(torch.randn(*shape, dtype=torch.float64))
    other = torch.randn(*shape[:-1], 2, dtype=torch.float64)
    other = other if left else other.mT.contiguous()
    same_strides(*both(device, lambda *x: torch.ormqr(*x, left, transpose), a, tau, other))
    if shape[-2] >= shape[-1] > 0:
        both(device, lambda *x: torch.ormqr(*x, left, transpose), a, tau, other, grad=True)


def test_reflections_train(device, seed):
    """The parametrization of orthogonal weights by reflections."""
    weights = []
    start = torch.randn(4, 6).double()
    for place in ("cpu", device):
        layer = torch.nn.Linear(6, 4).double()
        layer.load_state_dict({"weight": start, "bias": torch.zeros(4).double()})
        layer = torch.nn.utils.parametrizations.orthogonal(layer, orthogonal_map="householder")
        layer = layer.to(place)
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            layer(torch.ones(2, 6, dtype=torch.float64, device=place)).square().sum().backward()
            optimizer.step()
        weights.append(layer.weight.detach().cpu())
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (4, 4), (2, 5, 2), (3, 2, 4, 5)], ids=str)
def test_least_squares(device, seed, shape, driver):
    a, b = torch.randn(*shape, dtype=torch.float64), torch.randn(*shape[:-1], 3, dtype=torch.float64)
    same_strides(*both(device, lambda a, b: torch.linalg.lstsq(a, b, driver=driver), a, b))
    both(device, lambda a, b: torch.linalg.lstsq(a, b, driver=driver).solution, a, b, grad=True)
    vector = b[..., 0].contiguous()
    same_strides(*both(device, lambda a, b: torch.linalg.lstsq(a, b, driver=driver), a, vector))
    if len(shape) > 2:
        both(device, lambda a, b: torch.linalg.lstsq(a, b, driver=driver), a, b[:1].clone())
        both(device, lambda a, b: torch.linalg.lstsq(a, b, driver=driver), a[:1].clone(), b)
    both(device, lambda a, b: torch.linalg.lstsq(a, b, driver=driver), a.float(), b.float())


@pytest.mark.parametrize("driver", ["gelsy", "gelss", "gelsd"])
def test_least_squares_by_rank(device, seed, driver):
    u, v = (torch.linalg.qr(torch.randn(n, n, dtype=torch.float64)).Q for n in (6, 4))
    a = u[:, :4] * torch.tensor([4.0, 2.0, 1e-3, 0.0], dtype=torch.float64) @ v.mT
    b = torch.randn(6, 2, dtype=torch.float64)
    for rcond in (None, 0.1, 1e-8):
        ours = torch.linalg.lstsq(a.to(device), b.to(device), rcond=rcond, driver=driver)
        theirs = torch.linalg.lstsq(a, b, rcond=rcond, driver=driver)
        cut_by_another = driver == "gelsy" and rcond == 0.1  # eager by an estimate of the pivoted factor's condition
        if not cut_by_another:
            assert ours.rank.item() == theirs.rank.item()
        assert ours.singular_values.shape == theirs.singular_values.shape
        torch.testing.assert_close(ours.singular_values.cpu(), theirs.singular_values, rtol=1e-9, atol=1e-9)
        if not cut_by_another:
            torch.testing.assert_close(ours.solution.cpu(), theirs.solution, rtol=1e-6, atol=1e-6)


def test_least_squares_of_nothing(device):
    for shape in ((0, 3), (3, 0), (2, 0, 3)):
        for driver in DRIVERS:
            a, b = torch.zeros(*shape), torch.ones(*shape[:-1], 2)
            ours, theirs = (
                torch.linalg.lstsq(a.to(device), b.to(device), driver=driver),
                torch.linalg.lstsq(a, b, driver=driver),
            )
            assert [x.shape for x in ours] == [x.shape for x in theirs]
            assert ours.solution.cpu().eq(0).all()


def test_least_squares_into_given_tensors(device, seed):
    a, b = torch.randn(5, 3), torch.randn(5, 2)
    out = [torch.empty(0, device=device) for _ in range(4)]
    out[2] = out[2].long()
    torch.linalg.lstsq(a.to(device), b.to(device), driver="gelsd", out=tuple(out))
    for ours, theirs in zip(out, torch.linalg.lstsq(a, b, driver="gelsd"), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-3, atol=1e-3)


def test_least_squares_in_a_step(device, seed):
    a, b = torch.randn(5, 3), torch.randn(5, 2)
    there = a.to(device), b.to(device)
    with sojourn.step():
        x = sojourn.publish(torch.linalg.lstsq(*there).solution)
    torch.testing.assert_close(
        x.value if hasattr(x, "value") else x, torch.linalg.lstsq(a, b).solution, rtol=1e-3, atol=1e-3
    )


def test_triangular_solutions_lie_in_columns(device, seed):
    a, b = torch.randn(2, 3, 3).triu() + 3 * torch.eye(3), torch.randn(2, 3, 3)
    for left in (True, False):
        for lhs in (a, a.mT.tril().mT, a[0]):
            ours, theirs = (
                torch.linalg.solve_triangular(lhs.to(d), b.to(d), upper=True, left=left) for d in (device, "cpu")
            )
            assert ours.stride() == theirs.stride()
            torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-4)


BAD = {
    "geqrf: input must have at least 2 dimensions": lambda x: torch.geqrf(x[0, 0]),
    '"geqrf_cpu" not implemented for \'Long\'': lambda x: torch.geqrf(x.long()),
    r"greater than or equal to tau.shape\[-1\]": lambda x: torch.linalg.householder_product(x[..., :2], x[:, 0]),
    r"greater than or equal to input.shape\[-1\]": lambda x: torch.linalg.householder_product(x.mT, x[:, 0]),
    "tau dtype Float does not match": lambda x: torch.linalg.householder_product(x.double(), x[:, 0]),
    "Expected batch dimensions of tau": lambda x: torch.linalg.householder_product(x, x[0, :, :2]),
    "one dimension less than input": lambda x: torch.linalg.householder_product(x, x[0, 0]),
    r"other.shape\[-2\] must be equal to input.shape": lambda x: torch.ormqr(x, x[:, 0], x[:, :4]),
    r"other.shape\[-1\] must be equal to input.shape": lambda x: torch.ormqr(x, x[:, 0], x, left=False),
    "same number of dimensions as input": lambda x: torch.ormqr(x, x[:, 0], x[0]),
    "input has dtypeFloat and other has dtype Double": lambda x: torch.ormqr(x, x[:, 0], x.double()),
    r"should be one of \(gels, gelsy, gelsd, gelss\)": lambda x: torch.linalg.lstsq(x, x, driver="qr"),
    "lstsq: input must have at least 2": lambda x: torch.linalg.lstsq(x[0, 0], x),
    "Expected input and other to have the same dtype": lambda x: torch.linalg.lstsq(x, x.double()),
    r"input.size\(-2\) should match other.size\(-2\)": lambda x: torch.linalg.lstsq(x, x[:, :3]),
    r"\(input.dim\(\) - other.dim\(\)\) <= 1": lambda x: torch.linalg.lstsq(x[0], x),
    "doesn't handle types other than float and double": lambda x: torch.linalg.lstsq(x.long(), x.long()),
}  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_bad_arguments(device, text):
    x = torch.randn(2, 5, 3)
    for given in (x, x.to(device)):
        with pytest.raises((RuntimeError, NotImplementedError), match=text):
            BAD[text](given)


def test_many_reflections_are_refused(device):
    with pytest.raises(sojourn.Error, match="expected at most 256"):
        torch.geqrf(torch.ones(300, 300).to(device))[0].cpu()
