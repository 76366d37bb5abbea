# SPDX-License-Identifier: Apache-2.0
"""Every optimizer and schedule of torch.optim at owners and on the CPU: losses, parameters, what is kept; trips."""

import copy
import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler
from torch.optim.swa_utils import SWALR
from zoo_runs_support import compiled, differences, largest, left, trips_needed
from zoo_script_support import STEPS, state_of

import sojourn

OPTIMIZERS = {
    "SGD": {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-3}, "Adam": {"lr": 1e-3, "amsgrad": True},
    "AdamW": {"lr": 1e-3}, "Adamax": {"lr": 2e-3}, "NAdam": {"lr": 1e-3}, "RAdam": {"lr": 2e-3}, "Adagrad": {"lr": 0.02},
    "Adadelta": {"lr": 1.0}, "RMSprop": {"lr": 1e-3, "momentum": 0.5, "centered": True}, "Rprop": {"lr": 1e-3},
    "ASGD": {"lr": 0.05}, "Adafactor": {"lr": 1e-2}, "LBFGS": {"lr": 0.1, "max_iter": 3}, "Muon": {"lr": 0.02},
}  # fmt: skip
#: They have no foreach form.
PLAIN = {"LBFGS", "Muon"}
#: It looks at values between the parts of a step; outside of explicit steps it may, at a trip each.
READS = {"LBFGS"}
#: Of a tensor's largest element; and what rounding leaves of it. Measured: under 1e-14 in all.
TOLERANCE = 1e-10, 1e-14
#: A search goes other ways by rounding, and its numbers are differences of what is nearly the same once it has found:
#: measured 3e-8 in 50 runs.
#: ASGD's foreach form makes its rates from float32 counters: 1e-7.
#: Muon makes a bfloat16 (2^-8) of its momentum and goes on from there: a last bit decides which. 1e-2 in 50 runs.
WIDER = {("LBFGS", False): (1e-6, 1e-6), ("ASGD", True): (1e-6, 1e-14), ("Muon", False): (6e-2, 1e-14)}


def net(place, bias=True):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 16, bias), nn.Tanh(), nn.Linear(16, 2, bias)).double().to(place)


def draw(seed, count):
    draws = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(8, 5, generator=draws).double(), torch.randn(8, 2, generator=draws).double()) for _ in range(count)
    ]


def groups_of(model, options):
    first, second = (list(part.parameters()) for part in (model[0], model[2]))
    return [{"params": first}, {"params": second, "lr": options["lr"] / 2}]


def assert_near(found, wanted, tolerance):
    relative, least = tolerance
    for name, far in differences(found, wanted).items():
        assert far <= least + relative * largest(wanted[name]), f"{name}: differs by {far} of {largest(wanted[name])}"


def test_all_are_here():
    """SparseAdam takes sparse gradients alone, which are refused."""
    every = {name for name, kind in vars(torch.optim).items() if inspect.isclass(kind)}
    assert OPTIMIZERS.keys() == every - {"Optimizer", "SparseAdam"}
    assert SCHEDULES.keys() == set(lr_scheduler.__all__) - {"LRScheduler"} | {"SWALR"}


@pytest.mark.parametrize("foreach", [False, True], ids=["plain", "foreach"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(owner, seed, name, foreach):
    """Fifty undeclared steps with two groups and a schedule; state saved in the middle and loaded by a new one."""
    if foreach and name in PLAIN:
        return
    options = OPTIMIZERS[name] | ({} if name in PLAIN else {"foreach": foreach})
    # Batches that change under a search lead it astray: eager's own losses part by thousands then.
    batches = draw(seed, 1 if name == "LBFGS" else 5)

    def train(place):
        model = net(place, bias=name != "Muon")
        # LBFGS takes one group.
        start = model.parameters() if name == "LBFGS" else groups_of(model, options)
        make = lambda groups: getattr(torch.optim, name)(groups, **options)
        optimizer, losses = make(start), []
        schedule = lr_scheduler.ExponentialLR(optimizer, 0.99)
        for i in range(STEPS):
            x, y = (part.to(place) for part in batches[i % len(batches)])

            def closure():
                optimizer.zero_grad()
                loss = F.mse_loss(model(x), y)
                loss.backward()
                return loss

            loss = optimizer.step(closure) if name == "LBFGS" else closure()
            if name != "LBFGS":
                optimizer.step()
            schedule.step()
            losses.append(loss.detach())
            if i == 24:
                kept = copy.deepcopy(optimizer.state_dict())
                optimizer = make([{"params": group["params"]} for group in optimizer.param_groups])
                optimizer.load_state_dict(kept)
                schedule = lr_scheduler.ExponentialLR(optimizer, 0.99)
        reads = sojourn.counters()["reads"]
        return left({"losses": torch.stack(losses), **model.state_dict(), **flat(state_of(optimizer))}), reads

    before = sojourn.counters()["reads"]
    (wanted, _), (found, reads) = train("cpu"), train(owner.device)
    assert name in READS or reads == before, "read by the optimizer"
    losses = found["losses"]
    assert losses[-5:].mean() < losses[:5].mean()
    assert_near(found, wanted, WIDER.get((name, foreach), TOLERANCE))


def flat(state):
    """LBFGS keeps lists of tensors, and numbers that it has read."""
    parts = {}
    for name, x in state.items():
        many = x if isinstance(x, list) and not name.startswith("group") else [x]
        for at, each in enumerate(many):
            computed = isinstance(each, float) and not name.startswith("group")
            parts[f"{name} {at}"] = torch.tensor(each, dtype=torch.float64) if computed else each
    return parts


def sequence(optimizer):
    parts = [lr_scheduler.LinearLR(optimizer, 0.1, total_iters=8), lr_scheduler.ExponentialLR(optimizer, 0.93)]
    return lr_scheduler.SequentialLR(optimizer, parts, milestones=[8])


def chain(optimizer):
    parts = [lr_scheduler.ConstantLR(optimizer, 0.2, 6), lr_scheduler.CosineAnnealingLR(optimizer, 30)]
    return lr_scheduler.ChainedScheduler(parts, optimizer)


SCHEDULES = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, [lambda n: 1 / (1 + 0.1 * n), lambda n: 0.95**n]),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda n: 0.9 if n % 3 else 1.05),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 7, 0.6),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [5, 20, 30], 0.5),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, 0.3, 6),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, 0.2, 1.0, 15),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.97),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 45, 2.0),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 20, 1e-4),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 7, 2, 1e-4),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 1e-3, 0.02, 8, mode="triangular2"),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.02, STEPS),
    "SequentialLR": sequence,
    "ChainedScheduler": chain,
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=1, cooldown=1),
    "SWALR": lambda o: SWALR(o, 1e-3, anneal_epochs=9),
}  # fmt: skip
#: The two that move momentum move the first of Adam's betas; SGD with momentum has it by name.
MOVED = {"SGD": {"lr": 0.02, "momentum": 0.9}, "AdamW": {"lr": 2e-3}}


@pytest.mark.parametrize("declared", [False, True], ids=["undeclared", "declared"])
@pytest.mark.parametrize("kind", MOVED)
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(owner, seed, name, kind, declared):
    """Rates are eager's by each step, no rate makes a program, and one trip brings the loss that a plateau is told by;
    optimizer and schedule are saved in the middle and loaded by new ones."""
    batches = draw(seed, 5)

    def train(place):
        model = net(place)
        make = lambda groups: getattr(torch.optim, kind)(groups, **MOVED[kind])
        optimizer = make(groups_of(model, MOVED[kind]))
        schedule = SCHEDULES[name](optimizer)
        losses, rates, most = [], [], 0

        def step(i):
            x, y = (part.to(place) for part in batches[i % 5])
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            return sojourn.publish(loss.detach()) if declared else loss

        sojourn.flush()
        start, trips = compiled(), trips_needed()
        for i in range(STEPS):
            loss = (sojourn.step(step) if declared else step)(i).item()
            assert type(loss) is float
            schedule.step(loss) if name == "ReduceLROnPlateau" else schedule.step()
            losses.append(loss)
            rates.append([(group["lr"], group.get("momentum"), group.get("betas")) for group in optimizer.param_groups])
            now = trips_needed()
            most, trips = max(most, now - trips), now
            if i == 24:
                kept = copy.deepcopy([optimizer.state_dict(), schedule.state_dict()])
                optimizer = make([{"params": group["params"]} for group in optimizer.param_groups])
                schedule = SCHEDULES[name](optimizer)
                optimizer.load_state_dict(kept[0])
                schedule.load_state_dict(kept[1])
        programs = compiled() - start
        losses = torch.tensor(losses, dtype=torch.float64)
        return left({"losses": losses, **model.state_dict(), **state_of(optimizer)}), rates, most, programs

    wanted, rates, _, _ = train("cpu")
    found, ours, trips, programs = train(owner.device)
    assert ours == rates
    assert len({group[0] for group, _ in rates}) > 1, "the schedule did nothing"
    assert trips == 1
    assert programs <= 4, sojourn.explain()
    assert_near(found, wanted, TOLERANCE)
