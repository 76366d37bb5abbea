# SPDX-License-Identifier: Apache-2.0
"""Shapes that the runtime has loops of its own for, against eager: short windows, convolutions of few channels, sums of
squares, writes along a line, and chains that take up what arguments alone were used for."""

import pytest
import torch
from remote_support import assert_same, shared_owner
from torch.nn import functional as F

import sojourn

DRAWS = range(12)


def there(*tensors):
    return [tensor.to(shared_owner().device) for tensor in tensors]


def data(rng, shape):
    """Numbers with ties, of a type that windows are compared in, sometimes with a NaN."""
    kind = rng.choice(["f32", "f64", "ties", "i64"])
    if kind == "i64":
        return torch.randint(-5, 6, shape)
    x = torch.randint(-2, 3, shape).double() if kind == "ties" else torch.randn(shape, dtype=torch.float64)
    if rng.random() < 0.3:
        x.view(-1)[rng.randrange(x.numel())] = float("nan")
    return x.float() if kind == "f32" else x


@pytest.mark.parametrize("draw", DRAWS)
def test_short_windows(rng, draw):
    window, stride, dilation = rng.randint(1, 4), rng.randint(1, 3), rng.randint(1, 2)
    padding = rng.randint(0, window // 2)
    reach = dilation * (window - 1) + 1
    least = max(dilation, reach - 2 * padding)  # a side below the dilation is refused
    sides = [rng.randint(least, reach + rng.choice([3, 20, 300])) for _ in range(2)]
    if rng.random() < 0.3:
        sides = [least] * 2  # one window, and nothing behind it
    x = data(rng, (rng.randint(1, 3), rng.randint(1, 9), *sides))
    settings = {"stride": stride, "padding": padding, "dilation": dilation, "return_indices": True}
    (remote,) = there(x)
    value, where = F.max_pool2d(remote, window, **settings)
    expected, expected_where = F.max_pool2d(x, window, **settings)
    what = f"{tuple(x.shape)} {x.dtype} window {window} {settings}"
    assert_same(value, expected, what, rtol=0, atol=0)
    if not x.is_floating_point() or not x.isnan().any():
        assert_same(where, expected_where, what)


@pytest.mark.parametrize("draw", DRAWS)
def test_gradient_of_short_windows(rng, draw):
    window = rng.randint(2, 3)
    x = torch.randn(rng.randint(1, 5), rng.randint(1, 4), rng.randint(4, 30), rng.randint(4, 30))
    mine, theirs = x.clone().requires_grad_(), x.to(shared_owner().device).requires_grad_()
    stride = rng.randint(1, window)  # overlapping windows add up
    for input_, gradient in ((mine, None), (theirs, None)):
        y = F.max_pool2d(input_, window, stride)
        (y * torch.arange(y.numel(), device=y.device).view(y.shape)).sum().backward()
    assert_same(theirs.grad, mine.grad, f"{tuple(x.shape)} window {window} stride {stride}", rtol=1e-5)


@pytest.mark.parametrize("draw", DRAWS)
def test_convolutions_of_few_channels(rng, draw):
    channels, filters = rng.randint(1, 4), rng.randint(1, 20)
    kernel = (rng.randint(1, 8), rng.randint(1, 8))
    settings = {
        "stride": rng.randint(1, 3),
        "padding": (rng.randint(0, 3), rng.randint(0, 3)),
        "dilation": rng.choice([1, 1, 2]),
    }
    shape = (rng.choice([1, 2, 40]), channels, rng.randint(15, 40), rng.randint(15, 40))
    x = torch.randn(shape, dtype=torch.float64)
    w = torch.randn(filters, channels, *kernel, dtype=torch.float64)
    results = []
    for x_, w_ in ((x.clone(), w.clone()), there(x, w)):
        x_.requires_grad_()
        w_.requires_grad_()
        y = F.conv2d(x_, w_, **settings)
        (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype, device=y.device).view(y.shape)).sum().backward()
        results.append((y.detach(), x_.grad, w_.grad))
    assert_same(results[1], results[0], f"{shape} {tuple(w.shape)} {settings}", rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("draw", DRAWS)
def test_sums_of_squares(rng, draw):
    rank = rng.randint(1, 3)
    shape = [rng.choice([1, 3, 17, 40]) for _ in range(rank)]
    if rng.random() < 0.4:
        shape[rng.randrange(rank)] = 1030  # more than a block
    dims = tuple(range(rng.randint(0, rank - 1), rank)) if rng.random() < 0.8 else (0,)
    x = torch.randn(shape, dtype=rng.choice([torch.float32, torch.float64]))
    if rng.random() < 0.3:
        x = x.transpose(0, -1)
    (remote,) = there(x)
    exact = (x.double() * x.double()).sum(dims).to(x.dtype)
    tolerance = 1e-6 if x.dtype == torch.float32 else 1e-13
    assert_same((remote * remote).sum(dims), exact, f"{shape} {dims}", rtol=tolerance, atol=0)
    square = remote * remote  # wanted for itself as well
    assert_same((square, square.sum(dims)), (x * x, exact), f"{shape} {dims}", rtol=tolerance, atol=0)


@pytest.mark.parametrize("draw", DRAWS)
def test_writes_along_a_line(rng, draw):
    rank = rng.randint(1, 3)
    shape = [rng.randint(1, 30) for _ in range(rank)]
    dim = rng.choice([rank - 1, rng.randrange(rank)])
    index_shape = [rng.randint(0 if k == dim else 1, size) for k, size in enumerate(shape)]
    index_shape[dim] = rng.randint(0, 40)
    dtype = rng.choice([torch.float32, torch.float64, torch.int64, torch.int32, torch.float16])
    index = torch.randint(0, shape[dim], index_shape)
    source = torch.randint(-9, 10, index_shape).to(dtype)
    base = torch.full((), rng.randint(-3, 3), dtype=dtype).expand(shape) if rng.random() < 0.5 else None
    x = base.clone() if base is not None else torch.randint(-9, 10, shape).to(dtype)
    remote_index, remote_source = there(index, source)
    start = (
        torch.full(shape, x.view(-1)[0].item(), dtype=dtype, device=remote_index.device) if base is not None else None
    )
    (remote,) = there(x) if start is None else (start,)
    what = f"{shape} {index_shape} dim {dim} {dtype}"
    assert_same(remote.scatter_add(dim, remote_index, remote_source), x.scatter_add(dim, index, source), what)
    # Of numbers that meet at one place any may stay: here they are equal.
    one = torch.full(index_shape, 7).to(dtype)
    assert_same(remote.scatter(dim, remote_index, one.to(remote.device)), x.scatter(dim, index, one), what)
    line = torch.randint(0, shape[dim], (rng.randint(1, 5),))
    rows = torch.randint(-9, 10, [len(line) if k == dim else size for k, size in enumerate(shape)]).to(dtype)
    assert_same(remote.index_add(dim, *there(line, rows)), x.index_add(dim, line, rows), what)


@pytest.mark.parametrize("draw", DRAWS)
def test_what_arguments_alone_give_waits_for_its_use(rng, draw):
    shape = (rng.choice([3, 64, 90]), rng.choice([5, 64, 100]))
    moment, weight, x = torch.randn(shape), torch.randn(shape), torch.randn(shape[1], shape[1])
    factor = torch.rand(())

    def step(moment, weight, x, factor):
        early = moment * 0.9
        scaled = weight * factor
        chained = (early + 1.0) * scaled
        first = weight @ x
        second = first @ x
        return early + second, chained - first, scaled.sum(), chained if draw % 2 else second, (weight * 2.0).t()

    remote = sojourn.step(step)(*there(moment, weight, x, factor))
    assert_same(remote, step(moment, weight, x, factor), f"{shape}", rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("draw", DRAWS)
def test_gradients_of_each_image_by_weights(rng, draw):
    """As one convolution whose groups are images."""
    images, channels, filters = rng.randint(2, 30), rng.randint(1, 4), rng.randint(1, 9)
    kernel, padding, stride = (rng.randint(1, 4), rng.randint(1, 4)), rng.randint(0, 2), rng.randint(1, 2)
    x = torch.randn(1, images * channels, rng.randint(6, 20), rng.randint(6, 20), dtype=torch.float64)
    w = torch.randn(images * filters, channels, *kernel, dtype=torch.float64)
    gradients = []
    for x_, w_ in ((x, w.clone()), there(x, w)):
        w_.requires_grad_()
        y = F.conv2d(x_, w_, None, stride, padding, groups=images)
        (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype, device=y.device).view(y.shape)).sum().backward()
        gradients.append(w_.grad)
    assert_same(gradients[1], gradients[0], f"{tuple(x.shape)} {tuple(w.shape)}", rtol=1e-9, atol=1e-9)
