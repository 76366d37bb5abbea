# SPDX-License-Identifier: Apache-2.0
"""Shapes of recorded calls come from the rules alone: no kernel for the meta device that torch has in Python is asked.

These cost a hundred times what a rule does, and an op without a rule is refused; so none may ever stand in for one.
"""

import contextlib
import os
import sys

import pytest
import torch
from training_support import MODELS, OPTIMIZERS, loss_and_gradients

import sojourn

FOLDER = os.path.dirname(torch.__file__)
KERNELS = tuple(os.path.join(FOLDER, name) for name in ("_meta_registrations", "_refs", "_decomp", "_prims"))


@contextlib.contextmanager
def listening():
    """Names of the Python kernels that are called, those of a backward pass among them."""
    heard = []

    def listen(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(KERNELS):
            heard.append(frame.f_code.co_name)

    with torch.autograd.set_multithreading_enabled(False):
        sys.setprofile(listen)
        try:
            yield heard
        finally:
            sys.setprofile(None)


def test_kernels_in_python_are_heard(owner):
    meta = torch.ones(3, device="meta")

    def ask(_):
        torch.dot(meta, meta)

    with listening() as heard:
        ask(None)
    assert heard
    x = torch.ones(3).to(owner.device).requires_grad_()
    x.register_hook(ask)
    with listening() as heard:
        x.sum().backward()
    assert heard


@pytest.mark.parametrize("model", MODELS)
def test_a_training_step_asks_none(model, rng, owner):
    case = MODELS[model](rng, 2, smooth=False)
    optimizer = OPTIMIZERS["adam"](list(case.module.parameters()), foreach=False)
    sojourn.to_owner(case.module, owner, optimizer)
    before = owner.counters()["ops_recorded"]
    with listening() as heard:
        for x, y in case.batches:
            loss_and_gradients(case.module, optimizer, x.to(owner.device), y.to(owner.device))
    assert owner.counters()["ops_recorded"] > before and heard == []
