# SPDX-License-Identifier: Apache-2.0
"""Replayed steps give what traced ones give, bit for bit, and the function does not run; what is refused says why."""

import copy

import pytest
import torch
import torch.nn.functional as F
from remote_support import shared_owner
from replay_support import OPTIMIZERS, Twins, batch, classify, mlp, same
from torch import nn

import sojourn

STEPS = 100


@pytest.fixture(params=["native", "numpy"])
def device(request):
    sojourn.flush()
    return shared_owner(request.param).device


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(device, seed, name):
    twins = Twins(device, mlp, OPTIMIZERS[name], classify)
    for _ in range(STEPS):
        twins(*batch(device))
    # RAdam's first step that rectifies has other constants, and is traced again.
    twins.check(STEPS - (4 if name in ("RAdam", "RAdam in loops") else 3))


SCHEDULERS = {
    "each step": lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.97),
    "now and then": lambda o: torch.optim.lr_scheduler.StepLR(o, 17),
    "one cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.05, total_steps=STEPS),
}


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("optimizer", ["SGD momentum", "Adam", "AdamW"])
def test_schedulers(device, seed, name, optimizer):
    twins = Twins(device, mlp, OPTIMIZERS[optimizer], classify)
    schedulers = [SCHEDULERS[name](o) for o in twins.optimizers]
    for _ in range(STEPS):
        twins(*batch(device))
        for scheduler in schedulers:
            scheduler.step()
    twins.check(STEPS - 5)


def test_dropout_draws_new_seeds(device, seed):
    def make():
        return nn.Sequential(nn.Linear(6, 40), nn.Dropout(0.4), nn.Linear(40, 3))

    twins = Twins(device, make, OPTIMIZERS["Adam"], classify)
    losses = [float(sojourn.publish(twins(*fixed))) for fixed in [batch(device)] * STEPS]
    assert len(set(losses)) > STEPS // 2
    twins.check(STEPS - 3)


def test_accumulated_gradients(device, seed):
    def body(model, optimizer, x, y, is_last):
        loss = F.cross_entropy(model(x), y) / 4
        loss.backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    twins = Twins(device, mlp, OPTIMIZERS["Adam"], body)
    for number in range(STEPS):
        twins(*batch(device), number % 4 == 3)
    twins.check(STEPS - 20)


def test_a_short_last_batch_and_other_modes(device, seed):
    def make():
        return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 3))

    def body(model, optimizer, x, y):
        return classify(model, optimizer, x, y) if model.training else F.cross_entropy(model(x), y)

    twins = Twins(device, make, OPTIMIZERS["SGD momentum"], body)
    for number in range(STEPS):
        for model in twins.models:
            model.train(number % 10 < 7)
        twins(*batch(device, 4 if number % 5 == 4 else 10))
    twins.check(STEPS // 2)


def test_gradients_and_published_values(device, seed):
    def body(model, optimizer, x, y):
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {"loss": sojourn.publish(loss), "parts": (sojourn.publish({"a": logits.mean(0)}), logits.T, 3), "x": x}

    twins = Twins(device, mlp, OPTIMIZERS["Adam"], body)
    for _ in range(20):
        result = twins(*batch(device))
        assert isinstance(result["loss"], sojourn.Published)
        same(*([p.grad for p in model.parameters()] for model in twins.models))
    twins.check(17)


def test_tensors_from_the_host(device, seed):
    """CPU arguments are uploaded again; numbers are followed."""

    def body(model, optimizer, x, y, scale):
        return classify(model, optimizer, x.to(device) * scale, y.to(device))

    twins = Twins(device, mlp, OPTIMIZERS["Adam"], body)
    for number in range(30):
        twins(torch.randn(10, 6), torch.randint(0, 3, (10,)), 0.5 + number / 7)
    twins.check(26)


def test_batches_of_a_table(seed):
    owner = sojourn.local()
    rows = 100
    columns = {f"f{i}": torch.randn(rows) for i in range(6)} | {"y": torch.randint(0, 3, (rows,))}
    table = owner.register("t", columns, policy="open")
    twins = Twins(owner.device, mlp, OPTIMIZERS["Adam"], classify)
    for x, y in table.batches(features=[f"f{i}" for i in range(6)], label="y", size=32, epochs=8):
        twins(x.float(), y)
    twins.check(8 * 4 - 8)


def test_private_steps_are_the_same_programs_at_the_same_price(seed):
    rows = 200
    columns = {"a": torch.rand(rows), "b": torch.rand(rows), "y": torch.randint(0, 2, (rows,))}
    found = []
    for replay in (False, True):
        owner = sojourn.local()
        bounds = {"a": (0.0, 1.0), "b": (0.0, 1.0), "y": (0, 1)}
        table = owner.register("p", columns, policy="private", bounds=bounds)
        owner.grant("p", epsilon=8, delta=1e-5)
        model = nn.Linear(2, 2).to(owner.device)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        calls = [0]

        def train(x, y, model=model, optimizer=optimizer, calls=calls):
            calls[0] += 1
            return classify(model, optimizer, x.float(), y).detach()

        step = sojourn.step(train, replay=replay)
        with sojourn.privacy(table, epsilon=2, delta=1e-5) as run:
            for x, y in table.batches(["a", "b"], label="y", size=20, epochs=3):
                step(x, y)
        found.append((run.epsilon, run.taken, {program["hash"] for program in owner.programs()}))
        assert calls[0] == (30 if not replay else 3), sojourn.explain()
    assert found[0] == found[1]


def test_a_changed_option_is_traced(device, seed):
    twins = Twins(device, mlp, OPTIMIZERS["AdamW"], classify)
    for number in range(30):
        for optimizer in twins.optimizers:
            optimizer.param_groups[0]["maximize"] = number >= 10
            optimizer.param_groups[0]["weight_decay"] = 0.0 if number < 20 else 0.1
            optimizer.param_groups[0]["betas"] = (0.9 if number < 25 else 0.8, 0.999)
        twins(*batch(device))
    twins.check(17)
    assert "for the first time" in sojourn.explain()


def test_loaded_weights_and_frozen_parameters(device, seed):
    twins = Twins(device, mlp, OPTIMIZERS["Adam"], classify)
    saved = {}
    for number in range(40):
        if number == 10:
            saved = [(copy.deepcopy(m.state_dict()), copy.deepcopy(o.state_dict()))
                     for m, o in zip(twins.models, twins.optimizers)]  # fmt: skip
        if number == 20:
            for model, optimizer, (weights, state) in zip(twins.models, twins.optimizers, saved):
                model.load_state_dict(weights)
                optimizer.load_state_dict(state)
        if number == 30:
            for model in twins.models:
                model[0].weight.requires_grad_(False)
        twins(*batch(device))
    twins.check(25)


def test_an_exception_in_the_middle(device, seed):
    def body(model, optimizer, x, y, fails):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if fails:
            raise ZeroDivisionError
        return loss

    twins = Twins(device, mlp, OPTIMIZERS["Adam"], body)
    for number in range(24):
        given = batch(device)
        if number % 6 == 5:
            for step in twins.steps:
                with pytest.raises(ZeroDivisionError):
                    step(*given, True)
        else:
            twins(*given, False)
    twins.check(13)


def test_two_owners(seed):
    first, second = shared_owner("native"), sojourn.local()
    models = [nn.Linear(4, 2).to(owner.device) for owner in (first, second)]
    optimizers = [torch.optim.Adam(model.parameters()) for model in models]
    twins = copy.deepcopy(models)
    twin_optimizers = [torch.optim.Adam(model.parameters()) for model in twins]
    calls = [0, 0]

    def body(models, optimizers, number, x, y):
        calls[number] += 1
        losses = []
        for model, optimizer, data in zip(models, optimizers, (x, y)):
            optimizer.zero_grad()
            loss = model(data).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses

    @sojourn.step
    def traced(x, y):
        return body(models, optimizers, 0, x, y)

    @sojourn.step(replay=True)
    def replayed(x, y):
        return body(twins, twin_optimizers, 1, x, y)

    for _ in range(20):
        data = torch.randn(5, 4)
        given = data.to(first.device), data.to(second.device)
        same(traced(*given), replayed(*given))
    same([m.state_dict() for m in models], [m.state_dict() for m in twins])
    assert calls == [20, 3]


def test_a_state_that_is_carried_is_passed(device, seed):
    """What a call leaves in Python and the next one reads is no argument, which is refused; passed on, it is one."""
    cell = nn.GRUCell(4, 4).to(device)
    kept = {"h": torch.zeros(2, 4).to(device)}

    @sojourn.step(replay=True)
    def hidden(x):
        kept["h"] = cell(x, kept["h"]).detach()
        return kept["h"].sum()

    @sojourn.step(replay=True)
    def passed(x, h):
        return cell(x, h).detach()

    with pytest.warns(UserWarning, match="hidden.*take it as an argument"):
        for _ in range(4):
            hidden(torch.randn(2, 4).to(device))
    assert hidden.replayed == 0
    h = plain = torch.zeros(2, 4).to(device)
    for _ in range(6):
        x = torch.randn(2, 4).to(device)
        h, plain = passed(x, h), cell(x, plain).detach()
        same(h, plain)
    assert passed.replayed == 3, sojourn.explain()


def test_equal_arguments_are_told_apart(device, seed):
    """Arguments that were one tensor, or equal, in the traced calls need not be so later."""
    outside = torch.randn(3).to(device)
    bodies = {
        "remote": lambda x, y: x * 2 + y,
        "closure": lambda x, y: x * y + outside,
        "host": lambda x, y: x.to(device) * 2 + y.to(device),
    }
    for name, body in bodies.items():
        step = sojourn.step(body, replay=True)
        for number in range(12):
            x, y = torch.randn(3), torch.randn(3)
            if number < 4:
                y = x
            if name != "host":
                x = x.to(device) if name == "remote" or number > 5 else outside
                y = x if number < 4 else y.to(device)
            if name == "host" and number < 4:
                y = x = torch.ones(3) * (number // 2)
            same(step(x, y), body(x, y))
        assert step.replayed >= 4, sojourn.explain()

    base = torch.randn(12).to(device)
    part = sojourn.step(lambda x: x + 1, replay=True)
    for number in range(8):
        x = base[number : number + 4]
        same(part(x), x + 1)


def test_a_number_of_the_host_is_refused(device, seed):
    count = {"n": 0.0}

    @sojourn.step(replay=True)
    def counted(x):
        count["n"] += 1.5
        return x * count["n"]

    x = torch.randn(3).to(device)
    counted(x)
    with pytest.raises(sojourn.Unsupported, match=rf"1\.5, then 3.*{__file__}:\d+.*float argument"):
        counted(x)
    # The refused call was dropped; the tensor is as it was.
    assert sojourn.publish(x).shape == (3,)


def test_what_a_replay_would_leave_out_is_refused(device, seed):
    model = mlp().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    @sojourn.step(replay=True)
    def with_scheduler(x, y):
        loss = classify(model, optimizer, x, y)
        scheduler.step()
        return loss

    with pytest.warns(UserWarning, match="call the scheduler after the step"):
        for _ in range(5):
            with_scheduler(*batch(device))
    assert with_scheduler.replayed == 0

    @sojourn.step(replay=True)
    def seeds_again(x):
        torch.manual_seed(1)
        return x + torch.randn(x.shape, device=x.device)

    with pytest.warns(UserWarning, match="it draws random numbers otherwise than by its ops"):
        for _ in range(5):
            seeds_again(batch(device)[0])
    assert seeds_again.replayed == 0


def test_an_argument_that_gets_a_gradient(device, seed):
    """A replay gives gradients to parameters and to arguments that require one."""

    @sojourn.step(replay=True)
    def call(x, y):
        x.grad = y * 2
        return y + 1

    with pytest.warns(UserWarning, match="sets the gradient of an argument that requires none"):
        for at in range(5):
            x, y = torch.zeros(3).to(device), torch.full((3,), float(at)).to(device)
            call(x, y)
            assert sojourn.publish(x.grad).value.tolist() == [2.0 * at] * 3
    assert call.replayed == 0


@pytest.mark.parametrize("begins", [True, False])
def test_an_argument_that_begins_or_ceases_to_require_a_gradient(device, seed, begins):
    @sojourn.step(replay=True)
    def call(x, y):
        x.requires_grad_(begins)
        return y + 1

    with pytest.warns(UserWarning, match="changes whether an argument or a parameter requires a gradient"):
        for _ in range(5):
            x = torch.zeros(3).to(device).requires_grad_(not begins)
            call(x, torch.ones(3).to(device))
            assert x.requires_grad == begins
    assert call.replayed == 0


def test_a_parameter_that_a_call_freezes(device, seed):
    layer = torch.nn.Linear(3, 2).to(device)

    @sojourn.step(replay=True)
    def call(x):
        for parameter in layer.parameters():
            parameter.requires_grad_(False)
        return layer(x)

    with pytest.warns(UserWarning, match="changes whether an argument or a parameter requires a gradient"):
        for _ in range(5):
            layer.requires_grad_()
            call(torch.ones(1, 3).to(device))
            assert not layer.weight.requires_grad
    assert call.replayed == 0


def test_counters_and_texts(device, seed):
    @sojourn.step(replay=True)
    def double(x, *, by=2.0):
        """Twice."""
        return x * by

    assert double.__doc__ == "Twice." and double.__name__ == "double"
    x = torch.randn(3).to(device)
    before = sojourn.counters()
    for by in (2.0, 2.0, 2.0, 3.0, 4.0, 5.0):
        same(double(x, by=by), sojourn.publish(x) * by)
    after = sojourn.counters()
    assert after["programs_compiled"] - before["programs_compiled"] == 1
    assert double.replayed == 3 and double.traced == 3, sojourn.explain()
    with pytest.raises(sojourn.Error, match="functions"), sojourn.step(replay=True):
        pass
