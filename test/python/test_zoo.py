# SPDX-License-Identifier: Apache-2.0
"""The zoo (zoo_support.py) trained at owners and on the CPU: losses, parameters, buffers, optimizers' state; trips."""

import subprocess
import sys

import pytest
import torch
from zoo_runs_support import assert_near, differences, on_cpu, other_runs, outside_of_band, run
from zoo_support import RANDOM, STEPS, ZOO

import sojourn

#: Trips of a step beyond one: what marks an end (a second optimizer; an upload after the loop's own step).
MORE = {"GAN": 1, "ResNet": 1, "nn.Transformer": 1}
SAME = [name for name in ZOO if name not in RANDOM]


@pytest.mark.parametrize("name", ZOO)
def test_float64(owner, seed, name):
    wanted = on_cpu(name, torch.float64)
    found = run(ZOO[name], owner.device, torch.float64)
    assert found.script.parameters() >= 100_000
    assert found.trips <= 1 + MORE.get(name, 0), f"{found.trips} trips in a step"
    assert found.losses[-5:].mean() <= found.losses[:2].mean() / 2, found.losses
    assert found.programs <= 8, sojourn.explain()
    if name not in RANDOM:  # other draws: the loss has fallen
        assert_near(found, wanted)


@pytest.mark.parametrize("name", SAME)
def test_declared_steps(owner, seed, name):
    """With the step declared every script takes one trip for each, the three of MORE too."""
    found = run(ZOO[name], owner.device, torch.float64, declared=True)
    assert found.trips == 1
    assert found.programs <= 8, sojourn.explain()
    assert_near(found, on_cpu(name, torch.float64))


def test_the_average_is_compared():
    """The diffusion script's averaged weights are beside the weights, and are not the same."""
    state = on_cpu("diffusion", torch.float64).state
    averages = {name.removeprefix("average module."): x for name, x in state.items() if "average module." in name}
    assert averages.keys() == dict(on_cpu("diffusion", torch.float64).script.model.state_dict()).keys()
    assert all(not torch.equal(x, state[name]) for name, x in averages.items())
    assert state["average n_averaged"] == STEPS


@pytest.mark.parametrize("name", SAME)
def test_float32(owner, seed, name):
    """Losses and state within the band of eager runs (zoo_runs_support.py), in fifty steps on both runtimes."""
    found = run(ZOO[name], owner.device, torch.float32)
    outside = outside_of_band(found, on_cpu(name, torch.float32), other_runs(name, seed))
    assert not outside, f"(differs by, band): {outside}"


def off_by_a_hundredth(script):
    """Each step is a hundredth too long; no number that is kept says so."""
    (optimizer,), rates = script.optimizers, []

    def before(*_):
        rates[:] = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] *= 1.01

    def after(*_):
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate

    optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(after)


@pytest.mark.parametrize("name", ["MLP", "VAE", "GPT", "diffusion"])
def test_the_band_is_narrow(seed, name):
    """Steps too long by a hundredth are outside with the losses and many tensors, where no kink parts eager's runs."""
    wanted = on_cpu(name, torch.float32)
    found = run(ZOO[name], "cpu", torch.float32, change=off_by_a_hundredth)
    outside = outside_of_band(found, wanted, other_runs(name, seed))
    assert "losses" in outside and len(outside) > len(differences(found.state, wanted.state)) / 4


@pytest.mark.parametrize("name", ["GPT", "ResNet", "MLP"])
def test_bfloat16_autocast(owner, seed, name):
    """Under autocast the loss falls as without; the first one is that of the CPU's autocast to bfloat16's precision."""
    first = []
    for place in ("cpu", owner.device):
        script = ZOO[name](place, torch.float32)
        losses = []
        for i in range(STEPS):
            with torch.autocast(torch.device(place).type, dtype=torch.bfloat16):
                losses.append(script.step(i).item())
        assert losses[-1] < losses[0] / 2
        first.append(losses[0])
    assert first[0] == pytest.approx(first[1], rel=0.02)


def test_weights_go_to_a_file_that_plain_torch_loads(owner, seed, tmp_path):
    script = ZOO["CNN"](owner.device, torch.float32)
    for i in range(3):
        script.step(i)
    torch.save(
        {"model": script.model.state_dict(), "optimizer": script.optimizers[0].state_dict()}, tmp_path / "weights.pt"
    )
    x = torch.randn(2, 3, 16, 16)
    script.model.eval()
    torch.save({"x": x, "y": script.model(x.to(owner.device)).detach().cpu()}, tmp_path / "sample.pt")
    plain = (
        "import sys, torch\n"
        "from zoo_support import ZOO\n"
        "assert 'sojourn' not in sys.modules\n"
        "script = ZOO['CNN']('cpu', torch.float32)\n"
        "kept = torch.load(sys.argv[1], weights_only=True)\n"
        "script.model.load_state_dict(kept['model'])\n"
        "script.optimizers[0].load_state_dict(kept['optimizer'])\n"
        "sample = torch.load(sys.argv[2], weights_only=True)\n"
        "script.model.eval()\n"
        "torch.testing.assert_close(script.model(sample['x']), sample['y'], rtol=1e-4, atol=1e-5)\n"
    )
    command = [sys.executable, "-c", plain, tmp_path / "weights.pt", tmp_path / "sample.pt"]
    done = subprocess.run(command, cwd=__file__.rsplit("/", 1)[0], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
