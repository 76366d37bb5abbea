# SPDX-License-Identifier: Apache-2.0
"""Complex numbers beside eager: parts, views and writes through them, conjugates that torch puts off, arithmetic,
gradients, transforms, eigenvectors."""

import itertools

import pytest
import torch
from eager_support import both

import sojourn


def numbers(*shape, dtype=torch.complex128):
    return torch.randn(*shape, dtype=dtype)


def same(ours, theirs, loose=1e-9):
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.is_conj() == theirs.is_conj()
    torch.testing.assert_close(ours.cpu(), theirs.resolve_conj().resolve_neg(), rtol=loose, atol=loose, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_there_and_back(device, seed, dtype):
    x = numbers(3, 4, dtype=dtype)
    remote = x.to(device)
    assert remote.dtype == dtype and remote.is_complex() and torch.equal(remote.cpu(), x)
    assert torch.equal(x.conj().to(device).cpu(), x.conj().resolve_conj())
    assert torch.equal(remote.to(torch.complex64).cpu(), x.to(torch.complex64))
    assert remote[1, 2].item() == x[1, 2].item()
    assert str(remote) == str(x).replace(")", f", device='{device}')") or "j" in str(remote)


def test_parts_are_views(device, seed):
    x = numbers(3, 4)
    remote = x.to(device)
    for view in (
        torch.view_as_real,
        torch.real,
        torch.imag,
        lambda z: z.real[1:],
        lambda z: torch.view_as_real(z.T)[..., 1],
    ):
        ours, theirs = view(remote), view(x)
        assert ours.stride() == theirs.stride() and ours.storage_offset() == theirs.storage_offset()
        assert ours._is_view()
        same(ours, theirs)
    changed, there = x.clone(), x.to(device)
    for z in (changed, there):
        z.real[1] = 7.0
        z.imag.mul_(2)
        torch.view_as_real(z)[2, :, 0].add_(1)
        z.T[0].imag = torch.zeros(3, dtype=torch.float64, device=z.device)
    same(there, changed)
    pairs = torch.randn(3, 4, 2, dtype=torch.float64)
    ours, theirs = pairs.to(device), pairs.clone()
    for y in (ours, theirs):
        z = torch.view_as_complex(y)
        z[1] *= 2j
        z[:, 2].copy_(z[:, 1])
        y[..., 0].sub_(1)
    same(ours, theirs)
    same(torch.view_as_complex(ours)[1:, 2], torch.view_as_complex(theirs)[1:, 2])


@pytest.mark.parametrize(
    "there, here", [(torch.float32, torch.int32), (torch.int64, torch.float64), (torch.float16, torch.int16)]
)
def test_bits_as_another_type(device, seed, there, here):
    x = (torch.randn(4, 6) * 100).to(there)
    ours, theirs = x.to(device), x.clone()
    for y in (ours, theirs):
        bits = y[1:].view(here)
        assert bits.dtype == here
        bits[0, ::2] = 3
        y[2, 1] = 5
    same(ours.view(here), theirs.view(here))
    same(ours, theirs)


def test_numbers_and_pairs_as_one(device, seed):
    x = numbers(3, 4)
    same(x.to(device).view(torch.float64), x.view(torch.float64))
    y = torch.randn(3, 4, dtype=torch.float64)
    same(y.to(device).view(torch.complex128), y.view(torch.complex128))


def test_conjugates_are_put_off(device, seed):
    x, y = numbers(4, 4), numbers(4, 4)
    for function in (
        lambda a, b: a.conj(), lambda a, b: a.conj().T, lambda a, b: a.conj() * b, lambda a, b: a.mH @ b,
        lambda a, b: a.conj().conj(), lambda a, b: a.conj().imag, lambda a, b: a.conj().imag + 1,
        lambda a, b: a.conj().resolve_conj(), lambda a, b: torch.cat([a.conj(), b]), lambda a, b: a.conj().sum(),
        lambda a, b: torch.vdot(a[0], b[0]), lambda a, b: a.conj().clone(), lambda a, b: a.conj()[1:].real,
        lambda a, b: torch.addmm(a, b.conj(), a.mH), lambda a, b: torch.stack([a.conj(), b.conj()]).conj(),
    ):  # fmt: skip
        same(function(x.to(device), y.to(device)), function(x, y))
    assert x.to(device).conj().is_conj() and x.to(device).conj().imag.is_neg()
    for write in (
        lambda a, b: a.conj().mul_(2j), lambda a, b: a.conj().copy_(b), lambda a, b: a.conj()[1:].copy_(b[1:].conj()),
        lambda a, b: a.conj().imag.copy_(b.real), lambda a, b: a.conj().imag.add_(1), lambda a, b: a.conj().zero_(),
        lambda a, b: a.conj().copy_(numbers(4, 4) * 0 + 1 + 2j), lambda a, b: a.copy_(b.conj()),
    ):  # fmt: skip
        ours, theirs = x.to(device), x.clone()
        write(ours, y.to(device)), write(theirs, y)
        same(ours, theirs)


FUNCTIONS = {
    "mul": lambda a, b: a * b, "div": lambda a, b: a / b, "number": lambda a, b: (a + 1j) * (2 - 3j) / (1 + 1j) - b * 2,
    "real": lambda a, b: a * 2.5 + 1, "exp": lambda a, b: a.exp(), "log": lambda a, b: a.log(), "sin": lambda a, b: a.sin(),
    "cos": lambda a, b: a.cos(), "tanh": lambda a, b: a.tanh(), "sqrt": lambda a, b: a.sqrt(), "pow": lambda a, b: a**2,
    "abs": lambda a, b: a.abs(), "angle": lambda a, b: a.angle(), "sgn": lambda a, b: a.sgn(), "sum": lambda a, b: a.sum(0),
    "mean": lambda a, b: a.mean(), "prod": lambda a, b: a.prod(1), "matmul": lambda a, b: a @ b.mH,
    "where": lambda a, b: torch.where(a.abs() > 1, a, b), "index": lambda a, b: a[[2, 0]] * b[:2], "cat": lambda a, b: torch.cat([a, b], 1),
    "reciprocal": lambda a, b: a.reciprocal(), "square": lambda a, b: a.square(), "cumsum": lambda a, b: a.cumsum(0),
    "norm": lambda a, b: torch.linalg.vector_norm(a - b), "polar": lambda a, b: torch.polar(a.real, b.imag),
    "complex": lambda a, b: torch.complex(a.real * 2, b.imag), "einsum": lambda a, b: torch.einsum("ij,kj->ik", a, b.conj()),
    "mixed": lambda a, b: a * b.real + b.abs(), "roll": lambda a, b: a.roll(1, 0) - b.flip(1), "outer": lambda a, b: torch.outer(a[0], b[1]),
    "pad": lambda a, b: torch.nn.functional.pad(a, (1, 2)), "addcmul": lambda a, b: torch.addcmul(a, a, b, value=2),
    "sinh": lambda a, b: a.sinh(), "sigmoid": lambda a, b: a.sigmoid(), "var": lambda a, b: (a - b).var(0), "std": lambda a, b: (a - b).std(),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_gradients(device, seed, name):
    both(device, FUNCTIONS[name], numbers(3, 4), numbers(3, 4), grad=True)


def test_comparisons(device, seed):
    x, y = numbers(3, 4), numbers(3, 4)
    y[0] = x[0]
    x[1, 1] = complex("nan")
    for function in (torch.eq, torch.ne):
        same(function(x.to(device), y.to(device)), function(x, y))
    for function in (torch.isnan, torch.isinf, torch.isfinite, torch.isreal):
        same(function(x.to(device)), function(x))


FOURIER = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
FOURIER_MANY = [name + dims for name in FOURIER for dims in ("2", "n")]


@pytest.mark.parametrize("norm", ["forward", "backward", "ortho"])
@pytest.mark.parametrize("name", FOURIER + FOURIER_MANY)
def test_fourier(device, seed, name, norm):
    function = getattr(torch.fft, name)
    real = name.startswith(("rfft", "ihfft"))
    for shape in ((3, 8, 5), (2, 7, 6)):
        x = torch.randn(shape, dtype=torch.float64) if real else numbers(*shape)
        both(device, lambda x: function(x, norm=norm), x, grad=True)
        both(device, lambda x: function(x.transpose(0, 2), norm=norm), x)
        if name in FOURIER:
            both(device, lambda x: function(x, n=4, dim=1, norm=norm), x, grad=True)
            both(device, lambda x: function(x, n=11, dim=0, norm=norm), x)
    if name in ("fft", "fft2", "fftn", "hfft"):
        both(device, lambda x: function(x), torch.randn(3, 4, 6, dtype=torch.float64), grad=True)


@pytest.mark.parametrize("rows", [1, 70, 300])
def test_fourier_of_many_lines(device, seed, rows):
    """Lines are shared among threads."""
    x = numbers(rows, 128, dtype=torch.complex64)
    same(torch.fft.fft(x.to(device)), torch.fft.fft(x), loose=1e-3)
    same(torch.fft.rfft(x.real.to(device), dim=0), torch.fft.rfft(x.real, dim=0), loose=1e-3)


def test_strides_of_transforms(device, seed):
    for order in itertools.permutations(range(3)):
        x = numbers(3, 4, 6).permute(order)
        for dims in ((0,), (1,), (2,), (0, 1), (2, 0), (0, 1, 2)):
            assert torch.fft.fftn(x.to(device), dim=dims).stride() == torch.fft.fftn(x, dim=dims).stride(), (
                order,
                dims,
            )
            ours, theirs = torch.fft.rfftn(x.real.to(device), dim=dims), torch.fft.rfftn(x.real, dim=dims)
            assert ours.stride() == theirs.stride(), (order, dims)
            ours, theirs = torch.fft.irfftn(x.to(device), dim=dims), torch.fft.irfftn(x, dim=dims)
            assert ours.stride() == theirs.stride(), (order, dims)


def test_short_time_transform(device, seed):
    x, window = torch.randn(2, 400, dtype=torch.float64), torch.hann_window(64, dtype=torch.float64)

    def there_and_back(x, window):
        spectrum = torch.stft(x, 64, hop_length=16, window=window, return_complex=True)
        return spectrum, torch.istft(spectrum, 64, hop_length=16, window=window)

    both(device, there_and_back, x, window, grad=True)


@pytest.mark.parametrize("complex_", [False, True])
def test_eigenvectors(device, seed, complex_):
    x = numbers(3, 5, 5) if complex_ else torch.randn(3, 5, 5, dtype=torch.float64)
    values, vectors = (y.cpu() for y in torch.linalg.eig(x.to(device)))
    wide = x.to(torch.complex128)
    torch.testing.assert_close(wide @ vectors, vectors * values[:, None, :], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(3, 5, dtype=torch.float64), rtol=1e-9, atol=1e-9)
    wanted = torch.linalg.eigvals(x)
    order = lambda z: torch.stack([row[torch.argsort(row.real * 1e3 + row.imag)] for row in z])
    torch.testing.assert_close(order(values), order(wanted), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(order(torch.linalg.eigvals(x.to(device)).cpu()), order(wanted), rtol=1e-9, atol=1e-9)

    def invariant(x):
        values = torch.linalg.eigvals(x)
        return (values.abs() ** 2).sum(-1)

    both(device, invariant, x, grad=True)
    broken = x.clone()
    broken[1, 0, 0] = float("nan")
    values = torch.linalg.eigvals(broken.to(device)).cpu()
    assert values[1].isnan().all() and values[0].isfinite().all() and values[2].isfinite().all()


def test_gradients_of_eigenvectors_twice(device, seed):
    """Of what no phase and no order of the vectors changes."""

    def slopes(function, x):
        (slope,) = torch.autograd.grad(function(x), x, create_graph=True)
        (second,) = torch.autograd.grad((slope * slope.conj()).real.sum(), x)
        return slope.detach().cpu(), second.cpu()

    def angles(x):
        vectors = torch.linalg.eig(x).eigenvectors
        return (vectors.mH @ vectors).abs().pow(2).sum()

    for draw in (torch.randn(2, 4, 4, dtype=torch.float64), numbers(4, 4)):
        x = draw / 4 + torch.diag(torch.arange(4) * 3.0)  # values well apart
        for function in (lambda x: torch.linalg.eigvals(x).abs().pow(3).sum(), angles):
            wanted = slopes(function, x.clone().requires_grad_())
            for found, theirs in zip(slopes(function, x.to(device).requires_grad_()), wanted):
                same(found, theirs, loose=1e-6)


@pytest.mark.parametrize("left", [True, False])
def test_systems_of_complex_numbers(device, seed, left):
    a, b = numbers(2, 4, 4), numbers(2, *((4, 3) if left else (3, 4)))
    both(device, lambda a, b: torch.linalg.solve(a, b, left=left), a, b, grad=True)
    both(device, lambda a, b: torch.linalg.solve(a, b[:1], left=left), a, b, grad=True)
    both(device, torch.linalg.solve, a, numbers(2, 4), grad=True)
    # By factors of another place, and those of a matrix that was solved for in an earlier step.
    factors, pivots = torch.linalg.lu_factor(a)
    for adjoint in (False, True):
        wanted = torch.linalg.lu_solve(factors, pivots, b, left=left, adjoint=adjoint)
        there = [each.to(device) for each in (factors, pivots, b)]
        same(torch.linalg.lu_solve(*there, left=left, adjoint=adjoint), wanted.resolve_conj())
    leaf, ours = a.clone().requires_grad_(), a.to(device).requires_grad_()
    x, y = torch.linalg.solve(leaf, b, left=left), torch.linalg.solve(ours, b.to(device), left=left)
    sojourn.flush()
    for found, wanted in (
        (y.detach(), x.detach()),
        (torch.autograd.grad(y.abs().sum(), ours)[0], torch.autograd.grad(x.abs().sum(), leaf)[0]),
    ):
        same(found.resolve_conj(), wanted.resolve_conj())  # eager's puts some conjugations off


def test_results_into_complex_tensors(device, seed):
    a, b, x = torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 4, 4)
    parts = (a.abs(), b)
    for function, arguments in ((torch.complex, (a, b)), (torch.polar, parts)):
        for shape in ((3, 4), (0,)):
            out = torch.empty(shape, dtype=torch.complex64, device=device)
            assert function(*(each.to(device) for each in arguments), out=out) is out
            same(out, function(*arguments), loose=1e-5)
        with pytest.raises(RuntimeError, match="dtype|type"):
            function(*(each.to(device) for each in arguments), out=torch.empty(3, 4, device=device))
    out = torch.empty(3, 4, dtype=torch.complex64, device=device)
    assert torch.linalg.eigvals(x.to(device), out=out) is out
    order = lambda z: torch.stack([row[torch.argsort(row.real * 1e3 + row.imag)] for row in z])
    torch.testing.assert_close(order(out.cpu()), order(torch.linalg.eigvals(x)), rtol=1e-3, atol=1e-3)


def test_a_step(device, seed):
    """A filter that is learned in the frequency domain: one trip per step, as eager."""
    x, y = torch.randn(8, 32, dtype=torch.float64), torch.randn(8, 32, dtype=torch.float64)
    start = numbers(17)

    def train(where):
        weight = torch.nn.Parameter(start.to(where))
        optimizer = torch.optim.Adam([weight], lr=0.1)
        inputs, targets = x.to(where), y.to(where)
        for _ in range(5):
            optimizer.zero_grad()
            found = torch.fft.irfft(torch.fft.rfft(inputs) * weight, n=32)
            (found - targets).square().mean().backward()
            optimizer.step()
        return weight.detach().cpu()

    torch.testing.assert_close(train(device), train("cpu"), rtol=1e-9, atol=1e-9)


def test_refused(device, seed):
    x = numbers(3, 3).to(device)
    with pytest.raises(RuntimeError, match="view_as_real is only supported for complex tensors"):
        torch.view_as_real(x.real)
    with pytest.raises(RuntimeError, match="last dimension of size 2"):
        torch.view_as_complex(torch.zeros(3, 3, device=device))
    with pytest.raises(RuntimeError, match="same dtype|object of scalar type"):
        torch.complex(torch.zeros(2, device=device), torch.zeros(2, dtype=torch.float64, device=device))
    with pytest.raises(RuntimeError, match="Invalid number of data points"):
        torch.fft.fft(torch.zeros(2, 0, device=device))
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.zeros(3, 3, dtype=torch.float64, device=device).add_(x)
    with pytest.raises(sojourn.Unsupported, match="dtype ComplexHalf"):
        torch.zeros(2, dtype=torch.complex32).to(device)
    halves = torch.zeros(3, 2, dtype=torch.float16, device=device)
    for call in (torch.view_as_complex, lambda x: x.view(torch.complex32)):
        with pytest.raises(sojourn.Unsupported, match="dtype ComplexHalf"):  # when it is recorded
            call(halves)
