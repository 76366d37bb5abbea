# SPDX-License-Identifier: Apache-2.0
"""Optimizers and helpers whose Python code looks at values: inside of explicit steps, in one trip each, with eager's
results."""

import copy
import io
import warnings

import pytest
import torch
from remote_support import Count, assert_same, shared_owner
from torch import nn

import sojourn

OPTIONS = {
    "ASGD": [
        {"lr": 0.05},
        {"lr": 0.02, "lambd": 0.01, "alpha": 0.6, "t0": 3.0, "weight_decay": 0.1},
        {"lr": 0.05, "maximize": True, "weight_decay": 0.01},
    ],
    "Adafactor": [
        {"lr": 0.05},
        {"lr": 2.0, "d": 1.5, "beta2_decay": -0.5, "weight_decay": 0.1, "eps": (1e-8, 0.2)},
        {"lr": 0.01, "maximize": True},
    ],
    "RAdam": [{"lr": 0.01}, {"lr": 0.02, "betas": (0.8, 0.9), "weight_decay": 0.1}, {"lr": 0.02, "maximize": True}],
    "NAdam": [{"lr": 0.01}, {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True}],
}
CASES = [(name, k) for name, all_options in OPTIONS.items() for k in range(len(all_options))]


class Shapes(nn.Module):
    """Parameters of 0 to 3 dims."""

    def __init__(self):
        super().__init__()
        self.tensors = nn.ParameterList(torch.randn(shape) for shape in ((), (5,), (4, 3), (2, 3, 4), (1, 6)))

    def forward(self, x):
        return sum((p * x).sin().sum() + (p * p).mean() * x for p in self.tensors)


@pytest.fixture(params=["native", "numpy"])
def owner(request):
    return shared_owner(request.param)


def stepper(model, optimizer, x):
    def step(i):
        optimizer.zero_grad()
        loss = model(x[i])
        loss.backward()
        optimizer.step()
        return loss

    return step


def assert_alike(optimizers, models, rtol, atol):
    found, wanted = (
        sojourn.publish(model.state_dict()) if at else model.state_dict() for at, model in enumerate(models)
    )
    assert_same(list(wanted.values()), list(found.values()), rtol=rtol, atol=atol)
    states = [optimizer.state_dict() for optimizer in optimizers]
    assert states[0]["param_groups"] == states[1]["param_groups"]
    for ours, theirs in zip(states[1]["state"].values(), states[0]["state"].values()):
        assert ours.keys() == theirs.keys()
        for name, value in theirs.items():
            there = ours[name].cpu() if isinstance(ours[name], torch.Tensor) else ours[name]
            assert_same([there], [value], name, rtol=rtol, atol=atol) if value is not None else None


@pytest.mark.parametrize("foreach", [False, True], ids=["plain", "foreach"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name, k", CASES)
def test_steps(owner, seed, name, k, dtype, foreach):
    x = torch.randn(9, dtype=dtype)
    models = [Shapes().to(dtype)]
    models.append(copy.deepcopy(models[0]).to(owner.device))
    optimizers = [getattr(torch.optim, name)(m.parameters(), foreach=foreach, **OPTIONS[name][k]) for m in models]
    eager, there = (stepper(m, o, v) for m, o, v in zip(models, optimizers, (x, x.to(owner.device))))
    sojourn.flush()
    for i in range(6):
        loss = eager(i)
        with Count(owner) as count:
            with sojourn.step():
                ours = sojourn.publish(there(i).detach())
        assert count.round_trips == 1
        assert_same([ours.value], [loss.detach()], rtol=1e-4, atol=1e-4)
    # ASGD's foreach form makes its rates from float32 counters.
    float32 = 1e-6 if name == "ASGD" and foreach else 0
    tolerance = float32 or 1e-10 if dtype == torch.float64 else 2e-5
    assert_alike(optimizers, models, tolerance, tolerance)
    # What is saved goes on in eager, and what eager saved goes on there.
    kept = [io.BytesIO(), io.BytesIO()]
    for file, optimizer in zip(kept, optimizers):
        torch.save(optimizer.state_dict(), file)
    local, remote = (copy.deepcopy(models[0]) for _ in range(2))
    remote = remote.to(owner.device)
    fresh = [getattr(torch.optim, name)(m.parameters(), foreach=foreach, **OPTIONS[name][k]) for m in (local, remote)]
    for optimizer, state in zip(fresh, (kept[1], kept[0])):
        state.seek(0)
        optimizer.load_state_dict(torch.load(state))
    steps = [eager, stepper(local, fresh[0], x), stepper(remote, fresh[1], x.to(owner.device))]
    for i in range(6, 9):
        steps[0](i), steps[1](i)
        with Count(owner) as count, sojourn.step():
            steps[2](i)
        assert count.round_trips == 1
    tolerance = float32 or 1e-7 if dtype == torch.float64 else 4e-5  # states were rounded to what is saved
    for other in (local, remote.cpu()):
        assert_same(list(other.parameters()), list(models[0].parameters()), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["ASGD", "Adafactor"])
def test_halves(owner, seed, name, dtype):
    weights = torch.randn(6, 4).to(dtype)
    slopes = [torch.randn(6, 4).to(dtype) for _ in range(3)]
    ends = []
    for place in ("cpu", owner.device):
        p = nn.Parameter(weights.clone().to(place))
        optimizer = getattr(torch.optim, name)([p], lr=0.1)
        for slope in slopes:
            p.grad = slope.to(place)
            with sojourn.step():
                optimizer.step()
        ends.append(p.detach().cpu().float())
    assert not torch.equal(ends[0], weights.float())
    room = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(ends[1], ends[0], rtol=room, atol=room)


def test_adafactor_of_what_is_not_finite(owner, seed):
    ends = []
    for place in ("cpu", owner.device):
        parameters = [nn.Parameter(torch.ones(2, 3, device=place)), nn.Parameter(torch.ones(4, device=place))]
        optimizer = torch.optim.Adafactor(parameters, lr=0.1)
        parameters[0].grad = torch.tensor([[1.0, float("nan"), 2.0], [0.5, 1.0, -1.0]]).to(place)
        parameters[1].grad = torch.tensor([1.0, float("inf"), 2.0, 0.0]).to(place)
        with sojourn.step():
            optimizer.step()
        ends.append([p.detach().cpu() for p in parameters])
    assert ends[0][0].isnan().all() and not ends[0][1].isnan().all()
    assert_same(ends[1], ends[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("unscaled", [False, True])
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_grad_scaler(owner, seed, name, unscaled):
    """Steps whose gradients are not finite are skipped at the owner; the scale falls and grows as eager's."""
    x = torch.randn(8, 5, 4)
    x[2, 0, 0] = x[5, 1, 1] = float("inf")
    model = nn.Linear(4, 3)
    found = []
    for place in ("cpu", owner.device):
        m = copy.deepcopy(model).to(place)
        optimizer = getattr(torch.optim, name)(m.parameters(), lr=0.05)
        scaler = torch.amp.GradScaler(torch.device(place).type, init_scale=64.0, growth_interval=2)

        def train(batch):
            optimizer.zero_grad()
            scaler.scale(m(batch).square().mean()).backward()
            if unscaled:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()

        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for batch in x.to(place):
                if place == "cpu":
                    train(batch)
                else:
                    with sojourn.step():
                        train(batch)
        told = [str(each.message) for each in said if "fused=True" in str(each.message)]
        assert len(told) == (place != "cpu") and all(name in text for text in told)
        found.append((scaler.get_scale(), *(p.detach().cpu() for p in m.parameters())))
    assert found[0][0] == found[1][0] != 64.0
    assert_same(list(found[1][1:]), list(found[0][1:]), rtol=1e-5, atol=1e-6)


def test_grad_scaler_of_others(owner):
    m = nn.Linear(4, 3).to(owner.device)
    optimizer, scaler = torch.optim.RMSprop(m.parameters()), torch.amp.GradScaler("owner")
    with pytest.raises(sojourn.ValueNeeded, match="RMSprop.*use SGD, Adam, AdamW or Adagrad"):
        with sojourn.step():
            scaler.scale(m(torch.ones(2, 4, device=owner.device)).sum()).backward()
            scaler.step(optimizer)


def test_clipping_of_what_is_not_finite(owner, seed):
    x = torch.randn(4, 4)
    model = nn.Linear(4, 3)
    there = copy.deepcopy(model).to(owner.device)
    for m, place in ((model, "cpu"), (there, owner.device)):
        m(x.to(place)).square().sum().backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5, error_if_nonfinite=True)
    with pytest.warns(UserWarning, match="not checked; publish the norm"), sojourn.step():
        ours = sojourn.publish(nn.utils.clip_grad_norm_(there.parameters(), 0.5, error_if_nonfinite=True))
    assert_same(
        [ours.value, *(p.grad.cpu() for p in there.parameters())],
        [norm, *(p.grad for p in model.parameters())],
        rtol=1e-4,
        atol=1e-6,
    )
    there.weight.grad[0, 0] = float("nan")
    for get in (
        nn.utils.clip_grad_norm_,
        lambda p, *_, **options: nn.utils.get_total_norm([w.grad for w in p], **options),
    ):
        with pytest.raises(RuntimeError, match="non-finite"):
            get(there.parameters(), 0.5, error_if_nonfinite=True)  # outside of steps it is read


def test_torchs_line_is_named(owner):
    """Where torch asks there is nothing to publish: the message says which line of torch it is."""
    p = nn.Parameter(torch.ones(3, device=owner.device))
    optimizer = torch.optim.LBFGS([p])
    with pytest.raises(sojourn.ValueNeeded) as caught, sojourn.step():
        optimizer.step(lambda: (p * p).sum())
    assert "torch/optim/lbfgs.py:" in str(caught.value) and "test_torch_optimizers.py:" in str(caught.value)
    assert "outside of explicit steps" in str(caught.value) and "publish" not in str(caught.value)
    with pytest.raises(sojourn.ValueNeeded, match=r"publish it \(sojourn.publish\)"), sojourn.step():
        float(p.sum())
