# SPDX-License-Identifier: Apache-2.0
"""torch.compile beside this package: what it watches in optimizers breaks no graph of local training."""

import pytest
import torch
from torch._dynamo.utils import counters
from torch.optim import optimizer as optimizers


def frames_and_breaks(model):
    """Of an optimizer's compiled update."""
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    torch._dynamo.reset()
    counters.clear()
    update = torch.compile(optimizer.step, backend="eager")
    for _ in range(3):
        update()
    return counters["frames"]["total"], sum(counters["graph_break"].values())


@pytest.mark.filterwarnings("ignore")
def test_updates_compile_as_without_the_package(monkeypatch, seed):
    torch.manual_seed(seed)
    model = torch.nn.Linear(3, 2)
    assert optimizers._global_optimizer_pre_hooks
    here = frames_and_breaks(model)
    monkeypatch.setattr(optimizers, "_global_optimizer_pre_hooks", type(optimizers._global_optimizer_pre_hooks)())
    assert here == frames_and_breaks(model)
