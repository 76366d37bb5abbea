# SPDX-License-Identifier: Apache-2.0
"""gather and scatter whose index covers less than the tensor, in every dim, with gradients: eager's values."""

import pytest
import torch
from remote_support import assert_same, shared_owner

SHAPE = (4, 3, 5)


def cases():
    for dim in range(3):
        for cut in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 2), (2, 1, 3)]:
            yield dim, tuple(size - less for size, less in zip(SHAPE, cut))


CALLS = {
    "gather": lambda x, i, u, dim: x.gather(dim, i),
    "take_along_dim": lambda x, i, u, dim: torch.take_along_dim(x[tuple(map(slice, i.shape))], i % i.shape[dim], dim),
    "scatter": lambda x, i, u, dim: x.scatter(dim, i, u),
    "scatter of a number": lambda x, i, u, dim: x.scatter(dim, i, 2.5),
    "scatter_add": lambda x, i, u, dim: x.scatter_add(dim, i, u),
    "scatter_reduce sum": lambda x, i, u, dim: x.scatter_reduce(dim, i, u, "sum"),
    "scatter_reduce mean": lambda x, i, u, dim: x.scatter_reduce(dim, i, u, "mean"),
    "scatter_reduce mean of new": lambda x, i, u, dim: x.scatter_reduce(dim, i, u, "mean", include_self=False),
    "scatter_reduce amax": lambda x, i, u, dim: x.scatter_reduce(dim, i, u, "amax"),
    "scatter_reduce amin of new": lambda x, i, u, dim: x.scatter_reduce(dim, i, u, "amin", include_self=False),
}


@pytest.mark.parametrize("runtime", ["native", "numpy"])
@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients(seed, runtime, name):
    device = shared_owner(runtime).device
    for dim, shape in cases():
        # Eager gives a source a gradient only where it has the shape of the index.
        x, u = torch.randn(SHAPE, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)
        i = torch.randint(0, SHAPE[dim], shape)
        if name == "scatter":  # of two writes to one place either may win in eager
            i = torch.rand(SHAPE).argsort(dim)[tuple(map(slice, shape))]
        results = []
        for place in ("cpu", device):
            a, b = (value.clone().to(place).requires_grad_() for value in (x, u))
            y = CALLS[name](a, i.to(place), b, dim)
            (y * y).sum().backward()
            results.append([y, a.grad] + ([b.grad] if b.grad is not None else []))
        assert_same(results[1], results[0], f"{name} along {dim} of {shape}", rtol=1e-10, atol=1e-12)
