# SPDX-License-Identifier: Apache-2.0
"""Type promotion over a grid: dtype pairs x {tensor, 0-dim tensor, Python scalar}, both runtimes.

Eager decides dtype and value. All ops of one row of the grid travel in one program.
"""

import itertools

import pytest
import torch
from remote_support import fresh_seed, shared_owner

import sojourn

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
]  # fmt: skip
SCALARS = [True, 3, -2, 2.5, -0.75]
OPS = {
    "add": lambda a, b: a + b,
    "add.alpha": lambda a, b: torch.add(a, b, alpha=2),
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "div.floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "pow": lambda a, b: a**b,
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
}


def values(dtype, shape, generator, positive=False):
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype.is_floating_point:
        result = torch.randn(shape, generator=generator).to(dtype)
        return result.abs() + 0.5 if positive else result
    low = 1 if positive or dtype == torch.uint8 else -5
    return torch.randint(low, 6, shape, generator=generator).to(dtype)


class Grid:
    """Calls recorded on both sides; compared after one publish."""

    def __init__(self, device):
        self.device, self.names, self.remote, self.eager, self.faults = device, [], [], [], []

    def call(self, name, function, *operands):
        moved = [o.to(self.device) if isinstance(o, torch.Tensor) else o for o in operands]
        try:
            expected = function(*operands)
        except (RuntimeError, TypeError) as failure:
            try:
                function(*moved)
                self.faults.append(f"{name}: eager raises {failure}")
            except type(failure) as same:
                # Our texts may name the op and the line around eager's.
                if str(failure).splitlines()[0] not in str(same):
                    self.faults.append(f"{name}: eager says {str(failure)[:150]!r}, ours {str(same)[:150]!r}")
            except Exception as other:
                self.faults.append(
                    f"{name}: eager raises {type(failure).__name__} {failure}, ours {type(other).__name__} {other}"
                )
            return
        try:
            got = function(*moved)
        except Exception as failure:
            self.faults.append(f"{name}: {type(failure).__name__}: {str(failure)[:200]}")
            return
        if got.dtype != expected.dtype or got.shape != expected.shape:
            self.faults.append(
                f"{name}: {got.dtype} {tuple(got.shape)}, eager {expected.dtype} {tuple(expected.shape)}"
            )
            return
        self.names.append(name)
        self.remote.append(got)
        self.eager.append(expected)

    def finish(self):
        for name, got, expected in zip(self.names, sojourn.publish(self.remote), self.eager):
            if got.dtype != expected.dtype:
                self.faults.append(f"{name}: published as {got.dtype}, eager {expected.dtype}")
            elif not close(got, expected):
                self.faults.append(f"{name}: {got.flatten()[:6].tolist()}, eager {expected.flatten()[:6].tolist()}")
        assert not self.faults, f"{len(self.faults)} of {len(self.names)} differ:\n" + "\n".join(self.faults[:25])


# One unit of the result's last place for the exact ops, few for pow; half types round once.
RTOL = {torch.float16: 4e-3, torch.bfloat16: 3.2e-2, torch.float32: 4e-6, torch.float64: 1e-13}


def close(got, expected):
    if not expected.is_floating_point():
        return torch.equal(got, expected)
    rtol = RTOL[expected.dtype]
    return torch.allclose(got.double(), expected.double(), rtol=rtol, atol=rtol * 1e-3, equal_nan=True)


def integral(operand):
    return not (operand.dtype.is_floating_point if isinstance(operand, torch.Tensor) else isinstance(operand, float))


def shapes(generator):
    n = int(torch.randint(1, 6, (), generator=generator))
    return [((n, 3), (n, 3)), ((n, 3), ()), ((), (n, 3)), ((), ())]


@pytest.mark.parametrize("runtime", ["native", "numpy"])
@pytest.mark.parametrize("left", DTYPES, ids=str)
def test_tensor_pairs(runtime, left):
    """Every right dtype, {dim, dim}, {dim, 0-dim}, {0-dim, dim}, {0-dim, 0-dim}."""
    grid = Grid(shared_owner(runtime).device)
    generator = torch.Generator().manual_seed(fresh_seed(f"{left}"))
    for right in DTYPES:
        for a_shape, b_shape in shapes(generator):
            for name, function in OPS.items():
                # Division by integer zero and negative integer powers have no value in eager either.
                positive = name.startswith(("div", "pow"))
                a = values(left, a_shape, generator, positive)
                b = values(right, b_shape, generator, positive)
                if name == "div.floor" and left in (torch.float16, torch.bfloat16) and a_shape and not b_shape:
                    continue  # Eager does not round a 0-dim divisor to the half type; floor shows that as a whole unit.
                if name == "div.floor" and right == torch.bool:
                    b = torch.ones_like(b)
                grid.call(f"{name} {left}{a_shape} {right}{b_shape}", function, a, b)
    grid.finish()


@pytest.mark.parametrize("runtime", ["native", "numpy"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_python_scalars(runtime, side):
    grid = Grid(shared_owner(runtime).device)
    generator = torch.Generator().manual_seed(fresh_seed("scalars"))
    for dtype, scalar, shape in itertools.product(DTYPES, SCALARS, [(2, 3), ()]):
        for name, function in OPS.items():
            positive = name.startswith(("div", "pow"))
            a = values(dtype, shape, generator, positive)
            if side == "left" and name == "add.alpha":
                continue
            if name == "div.floor" and dtype == torch.bool and side == "left":
                continue  # Some of its divisors are False.
            if dtype == torch.uint8 and not isinstance(scalar, float) and scalar < 0:
                continue  # Wraps in eager by a conversion that C++ leaves open.
            operands = (a, scalar) if side == "right" else (scalar, a)
            grid.call(f"{name} {operands!r}", function, *operands)
    grid.finish()


@pytest.mark.parametrize("runtime", ["native", "numpy"])
def test_where(runtime):
    grid = Grid(shared_owner(runtime).device)
    generator = torch.Generator().manual_seed(fresh_seed("where"))
    for left, right in itertools.product(DTYPES, DTYPES):
        for a_shape, b_shape in shapes(generator):
            mask = values(torch.bool, (a_shape or b_shape) or (2,), generator)
            a, b = values(left, a_shape, generator), values(right, b_shape, generator)
            grid.call(f"where {left}{a_shape} {right}{b_shape}", torch.where, mask, a, b)
    for dtype, scalar in itertools.product(DTYPES, [True, 3, 2.5]):
        mask, a = values(torch.bool, (2, 3), generator), values(dtype, (2, 3), generator)
        grid.call(f"where {dtype} {scalar}", torch.where, mask, a, scalar)
        grid.call(f"where {scalar} {dtype}", torch.where, mask, scalar, a)
    grid.call("where scalars", lambda m: torch.where(m, 1.5, 2), mask)
    grid.finish()


@pytest.mark.parametrize("runtime", ["native", "numpy"])
def test_cat_and_stack(runtime):
    grid = Grid(shared_owner(runtime).device)
    generator = torch.Generator().manual_seed(fresh_seed("cat"))
    for left, right in itertools.product(DTYPES, DTYPES):
        a, b = values(left, (2, 3), generator), values(right, (4, 3), generator)
        grid.call(f"cat {left} {right}", lambda x, y: torch.cat([x, y]), a, b)
        grid.call(f"cat {left} {right} empty", lambda x, y: torch.cat([x, y[:0], x]), a, b)
        grid.call(f"stack {left} {right}", lambda x, y: torch.stack([x, y[:2]], 1), a, b)
    grid.finish()


@pytest.mark.parametrize("runtime", ["native", "numpy"])
def test_sums_and_in_place(runtime):
    grid = Grid(shared_owner(runtime).device)
    generator = torch.Generator().manual_seed(fresh_seed("sum"))
    for dtype in DTYPES:
        for shape in [(3, 5), (), (0, 2)]:
            # Of one sign: where a sum cancels, eager's own rounding is all that is left of it.
            x = values(dtype, shape, generator, True)
            grid.call(f"sum {dtype}{shape}", torch.sum, x)
            grid.call(f"mean {dtype}{shape}", torch.mean, x)
            grid.call(f"prod {dtype}{shape}", torch.prod, x)
            for to in (torch.int64, torch.float32, torch.float64):
                grid.call(f"sum {dtype}{shape} to {to}", lambda v, to=to: v.sum(dtype=to), x)
            if shape:
                grid.call(f"sum {dtype}{shape} dim", lambda v: v.sum(-1, keepdim=True), x)
                grid.call(f"cumsum {dtype}{shape}", lambda v: v.cumsum(0), x)
    # In place the target keeps its dtype; what does not fit is an error with eager's text.
    for left, right in itertools.product(DTYPES, DTYPES):
        a, b = values(left, (2, 3), generator, True), values(right, (3,), generator, True)
        for name in ("add_", "mul_", "div_", "copy_"):
            grid.call(f"{name} {left} {right}", lambda x, y, name=name: getattr(x.clone(), name)(y), a, b)
    for dtype, scalar in itertools.product(DTYPES, [True, 3, 2.5]):
        a = values(dtype, (2, 3), generator, True)
        for name in ("add_", "mul_", "div_", "fill_"):
            grid.call(f"{name} {dtype} {scalar}", lambda x, name=name, s=scalar: getattr(x.clone(), name)(s), a)
    grid.finish()


@pytest.mark.parametrize("runtime", ["native", "numpy"])
def test_conversions(runtime):
    """`to` between all dtypes, special values where eager defines them."""
    grid = Grid(shared_owner(runtime).device)
    generator = torch.Generator().manual_seed(fresh_seed("to"))
    for left, right in itertools.product(DTYPES, DTYPES):
        x = values(left, (4,), generator, positive=right == torch.uint8)
        grid.call(f"{left} to {right}", lambda v, right=right: v.to(right), x)
    special = torch.tensor([float("inf"), float("-inf"), float("nan"), -0.0, 1e30, 65504.0, 1e-8])
    for left, right in itertools.product(DTYPES[6:], DTYPES[6:]):
        grid.call(f"special {left} to {right}", lambda v, right=right: v.to(right), special.to(left))
    grid.finish()


@pytest.mark.parametrize("default", [torch.float32, torch.float64])
def test_default_dtype(default):
    """Integer division and Python floats follow the default dtype of the moment."""
    grid = Grid(shared_owner().device)
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        for dtype in DTYPES:
            a = values(dtype, (3,), torch.Generator().manual_seed(1), True)
            grid.call(f"div {dtype}", lambda v: v / 3, a)
            grid.call(f"mul {dtype}", lambda v: v * 0.3, a)
            grid.call(f"sin {dtype}", torch.sin, a)
        grid.finish()
    finally:
        torch.set_default_dtype(before)


def test_zero_dim_cpu_operands():
    """A 0-dim CPU tensor takes part as an input of its own dtype, not as a Python number."""
    device = shared_owner().device
    for left, right in itertools.product(DTYPES, DTYPES):
        a = values(left, (3,), torch.Generator().manual_seed(2), True)
        b = values(right, (), torch.Generator().manual_seed(3), True)
        expected = a * b
        got = a.to(device) * b
        assert got.dtype == expected.dtype, (left, right)
        assert close(sojourn.publish(got), expected), (left, right)
