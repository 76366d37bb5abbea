# SPDX-License-Identifier: Apache-2.0
"""Modes of a script's thread do not reach the kernels of an owner in its process."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import sojourn


class Spoiling(TorchDispatchMode):
    """Changes the result of each operation on host tensors."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.device.type == "cpu" and result.is_floating_point():
            result.fill_(42.0)
        return result


def test_a_dispatch_mode_sees_no_kernel_of_the_owner():
    x = torch.rand(4, 4, dtype=torch.float64) + 1
    with sojourn.local() as owner:
        remote = x.to(owner.device)
        mode = Spoiling()
        with mode:
            values = [
                torch.digamma(remote),
                torch.linalg.cholesky(remote @ remote.T + torch.eye(4, device=owner.device)),
            ]
            sojourn.flush()
        found = sojourn.publish(values)
        assert any("digamma" in name for name in mode.seen) and not any("out" in name for name in mode.seen)
    torch.testing.assert_close(found[0], torch.digamma(x))
    torch.testing.assert_close(
        found[1], torch.linalg.cholesky(x @ x.T + torch.eye(4)).to(torch.float64), rtol=1e-6, atol=1e-6
    )


def test_autocast_of_the_processor_changes_no_kernel_of_the_owner():
    x, w = torch.rand(64, 64), torch.rand(64, 64)
    with sojourn.local() as owner:
        a, b = x.to(owner.device), w.to(owner.device)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            made = (
                a @ b,
                torch.linalg.solve_triangular(b.triu() + 8 * torch.eye(64, device=owner.device), a, upper=True),
            )
            sojourn.flush()
        found = sojourn.publish(list(made))
    assert found[0].dtype == torch.float32
    torch.testing.assert_close(found[0], x @ w)
    torch.testing.assert_close(found[1], torch.linalg.solve_triangular(w.triu() + 8 * torch.eye(64), x, upper=True))
