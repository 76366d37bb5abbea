# SPDX-License-Identifier: Apache-2.0
"""Reductions with a dtype, or into an `out` of another one: values, or the class of the error, of eager torch."""

import pytest
import torch
from remote_support import fresh_seed

DTYPES = [
    torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64, torch.complex64,
    torch.complex128,
]  # fmt: skip
REDUCTIONS = {name: getattr(torch, name) for name in ("sum", "mean", "prod", "cumsum", "cumprod", "all", "any")}
#: Eager has no kernel for these.
LEFT = {("cumsum", torch.bool), ("cumprod", torch.bool)}


def drawn(dtype, seed):
    """With zeros, and complex numbers that have one part only. None is negative: bytes of those are the compiler's."""
    generator = torch.Generator().manual_seed(seed)
    parts = torch.randint(0, 4, (2, 3, 4), generator=generator) * 0.75
    values = torch.complex(parts[0], parts[1]) if dtype.is_complex else parts[0]
    return values.to(dtype)


def outcome(call):
    try:
        return call().cpu()
    except (RuntimeError, NotImplementedError) as error:
        return type(error), str(error)


def check(found, wanted, what=""):
    if isinstance(wanted, tuple):
        assert isinstance(found, tuple) and issubclass(found[0], RuntimeError), (found, wanted)
        return
    assert not isinstance(found, tuple), (found, wanted)
    tolerance = 2e-3 if wanted.dtype == torch.float16 else 1e-5
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance, msg=lambda m: f"{what}: {m}")


def compare(device, name, other, options):
    """A reduction of each dtype at an owner and on the CPU; `options`: of its call at a place. `other`: the dtype that
    they ask for."""
    seed = fresh_seed(name)
    for dtype in DTYPES if (name, other) not in LEFT else ():
        x = drawn(dtype, seed)
        runs = [lambda at=at: REDUCTIONS[name](x.to(at), 0, **options(at)) for at in (device, "cpu")]
        check(*map(outcome, runs), dtype)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("into", DTYPES)
def test_into_an_out(device, name, into):
    shape = (3, 4) if name.startswith("cum") else (4,)
    compare(device, name, into, lambda at: {"out": torch.zeros(shape, dtype=into).to(at)})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod", "mean"])
@pytest.mark.parametrize("given", DTYPES)
def test_with_a_dtype(device, name, given):
    compare(device, name, given, lambda at: {"dtype": given})


def test_gradients_of_real_sums(device):
    x = drawn(torch.complex128, fresh_seed("gradients"))
    found = []
    for at in (device, "cpu"):
        leaf = x.to(at).requires_grad_()
        (torch.sum(leaf, 0, dtype=torch.float64) ** 2).sum().backward()
        found.append(leaf.grad.cpu())
    torch.testing.assert_close(*found)


def test_an_out_that_is_read_keeps_its_shape(device):
    """Elementwise operations would change the shape of what they read."""
    for at in (device, "cpu"):
        empty = torch.zeros(0, 1).to(at)
        mask = torch.zeros(0, dtype=torch.bool).to(at)
        for call in (
            lambda: torch.where(mask, empty, empty, out=empty),
            lambda: torch.add(empty, torch.zeros(0).to(at), out=empty),
        ):
            with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
                call()
        assert torch.add(empty, torch.zeros(0).to(at), out=torch.zeros(0, 1).to(at)).shape == (0, 0)


def test_zeros_of_expanded_tensors_in_lists(device):
    for at in (device, "cpu"):
        base, other = torch.ones(2, 1).to(at), torch.ones(3).to(at)
        view = base.expand(2, 3)
        torch._foreach_zero_([view, other])
        assert base.cpu().tolist() == [[0], [0]] and other.cpu().tolist() == [0, 0, 0]
        assert base._version == view._version == other._version == 1
