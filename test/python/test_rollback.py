# SPDX-License-Identifier: Apache-2.0
"""What a failing step leaves behind: everything as it was, in values, form and host state."""

import copy

import pytest
import torch
import torch.nn.functional as F
from alias_programs import Program
from remote_support import Count, assert_same, fresh_seed

import sojourn

F64 = torch.float64


def make(kind, seed):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2)
    ).to(F64)
    kinds = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        "adam": lambda p: torch.optim.Adam(p, lr=0.05),
        "adam-plain": lambda p: torch.optim.Adam(p, lr=0.05, foreach=False),
        "adamw-capturable": lambda p: torch.optim.AdamW(p, lr=0.05, capturable=True),
        "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
    }
    return model, kinds[kind]


def states(optimizer):
    return {i: dict(optimizer.state[p]) for i, p in enumerate(p for g in optimizer.param_groups for p in g["params"])}


FAILING = [("native", kind, "first") for kind in ("sgd", "adam", "adam-plain", "adagrad")]
FAILING += [("native", "adam", "last"), ("numpy", "sgd", "first")]


@pytest.mark.parametrize("owner,kind,zero", FAILING, indirect=["owner"])
@pytest.mark.parametrize("where", ["before", "forward", "between", "after", "compile"])
def test_an_exception_takes_everything_back(owner, device, kind, where, zero):
    """Steps that fail at different places, in between steps that count; eager never runs the failed ones."""
    seed = fresh_seed(f"{kind} {where}")
    model, build = make(kind, seed)
    remote = copy.deepcopy(model)
    sojourn.to_owner(remote, owner)
    optimizer, remote_optimizer = build(model.parameters()), build(remote.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    remote_schedule = torch.optim.lr_scheduler.StepLR(remote_optimizer, 1, 0.9)

    def train(model, optimizer, x, y, fail=None):
        if zero == "first":
            optimizer.zero_grad()
        if fail == "before":
            raise ZeroDivisionError
        loss = F.cross_entropy(model(x), y)
        if fail == "forward":
            loss.item()
        loss.backward()
        if fail == "between":
            raise ZeroDivisionError
        optimizer.step()
        if fail == "after":
            for group in optimizer.param_groups:
                group["lr"] = 1e6
            raise ZeroDivisionError
        if zero == "last":
            optimizer.zero_grad()
        if fail == "compile":
            sojourn.publish(loss)
            model[0].weight.data.mul_(2)
            raise sojourn.Error("as a failing compile would")
        return loss

    step = sojourn.step(train)
    failing = {1, 2, 4} if where != "after" else {0, 2, 3}
    for i in range(6):
        x, y = torch.randn(4, 3, dtype=F64), torch.randint(0, 2, (4,))
        rx, ry = x.to(device), y.to(device)
        if i in failing:
            with Count(owner) as count:
                with pytest.raises((ZeroDivisionError, sojourn.Error)):
                    step(remote, remote_optimizer, rx, ry, fail=where)
            assert count.round_trips == 0 and count.of["steps_dropped"] <= 1
        # The batch that was uploaded before is still there.
        loss = train(model, optimizer, x, y)
        remote_loss = step(remote, remote_optimizer, rx, ry)
        schedule.step(), remote_schedule.step()
        assert_same(remote_loss, loss, "loss")
    assert_same(dict(remote.state_dict()), dict(model.state_dict()), "model", rtol=1e-11)
    assert_same(states(remote_optimizer), states(optimizer), "optimizer", rtol=1e-11)
    assert remote_optimizer.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]


def test_tensors_of_a_dropped_step(owner, device):
    before = torch.ones(3, dtype=F64).to(device)
    view = before[1:]
    sojourn.flush()
    pending = before * 3
    with Count(owner) as count:
        pass
    with pytest.raises(KeyError):
        with sojourn.step():
            uploaded = torch.full((2,), 5.0, dtype=F64).to(device)
            new = before + uploaded.sum()
            view.mul_(100)
            pending.zero_()
            seen = sojourn.publish(new)
            raise KeyError("mine")
    for use in (
        lambda: new + 1,
        lambda: sojourn.publish(new),
        lambda: new[0] + 1,
        lambda: new.add_(1),
        lambda: torch.cat([before, new]),
    ):
        with pytest.raises(sojourn.Error, match="no value.*dropped.*recompute"):
            use()
            sojourn.flush()
    with pytest.raises(sojourn.Error, match="dropped"):
        seen.value
    assert "shape=(3,)" in repr(new) and new.shape == (3,)
    assert_same(
        [before, view, pending], [torch.ones(3, dtype=F64), torch.ones(2, dtype=F64), torch.full((3,), 3.0, dtype=F64)]
    )
    # An upload holds its own value.
    assert_same(uploaded, torch.full((2,), 5.0, dtype=F64))
    assert count.round_trips == 0


def test_copy_from_the_cpu_into_a_computed_tensor_rolls_back(device):
    x = torch.ones(3).to(device) * 2
    with pytest.raises(KeyError):
        with sojourn.step():
            x.copy_(torch.full((3,), 7.0))
            raise KeyError
    assert sojourn.publish(x).tolist() == [2, 2, 2]


def test_an_exception_in_an_inner_step_drops_the_outer(owner, device):
    x = torch.ones(2).to(device)
    with Count(owner) as count:
        with pytest.raises(KeyError):
            with sojourn.step():
                x.mul_(5)
                with sojourn.step():
                    x.add_(1)
                    raise KeyError
    assert count.round_trips == 0
    assert sojourn.publish(x).tolist() == [1, 1]


def test_an_inner_exception_that_is_caught(owner, device):
    """The outer step goes on; what the inner one recorded belongs to it."""
    x = torch.ones(2).to(device)
    with sojourn.step():
        x.mul_(5)
        try:
            with sojourn.step():
                x.add_(1)
                raise KeyError
        except KeyError:
            pass
        x.mul_(2)
    assert sojourn.publish(x).tolist() == [12, 12]


def test_a_step_that_cannot_be_compiled(owner, device):
    """A compiler's error comes at the step's end, names the line, and takes the step back."""
    x = torch.ones(3, dtype=F64).to(device)
    optimizer = torch.optim.Adam([x.requires_grad_()])
    sojourn.flush()
    with sojourn.local() as private_owner:
        column = private_owner.register("p", {"a": [1.0, 2.0]}, policy="private", bounds={"a": (0, 2)})["a"]
        kept = torch.ones(2, dtype=column.dtype).to(private_owner.device)
        sojourn.flush()
        with pytest.raises(sojourn.Refused, match="private"):
            with sojourn.step():
                kept.mul_(7)
                sojourn.publish(column.sum())
        assert sojourn.publish(kept).tolist() == [1, 1]
    assert optimizer.state == {}


def test_a_failing_step_gives_tensors_their_form_back():
    """Layouts in place, out= and resize_ of empty tensors, `.data =`; failing in Python and at the owner."""
    with sojourn.local() as owner:
        column = owner.register("p", {"a": [1.0, 2.0]}, policy="private", bounds={"a": (0, 2)})["a"]
        x = torch.arange(6.0, device=owner.device).reshape(2, 3)
        row, empty, other = x[:1], torch.empty(0, device=owner.device), torch.ones(4, device=owner.device)
        computed = torch.nn.Parameter(torch.zeros(2, device=owner.device))
        uploaded = torch.nn.Parameter(torch.zeros(2).to(owner.device))
        tensors = [x, row, empty, other, computed, uploaded]
        for failure in ("in Python, nothing sent", "in Python", "at the owner"):
            before = [(t.shape, t.stride(), t.storage_offset(), t.dtype) for t in tensors]
            with pytest.raises(ZeroDivisionError if "Python" in failure else sojourn.Refused):
                with sojourn.step():
                    x.t_()
                    x.add_(1)
                    row.squeeze_(0).unsqueeze_(1)
                    torch.add(other, 1, out=empty)
                    computed.data = other.to(F64) * 2
                    uploaded.data = uploaded.detach() + 1
                    uploaded.data = x.detach()
                    assert x.shape == (3, 2) and row.shape == (3, 1) and empty.shape == (4,)
                    assert computed.dtype == F64 and uploaded.shape == (3, 2)
                    if "Python" in failure:
                        raise ZeroDivisionError
                    sojourn.publish(column.sum())
            assert [(t.shape, t.stride(), t.storage_offset(), t.dtype) for t in tensors] == before
            if "nothing sent" in failure:
                continue
            expected = [torch.arange(6.0).reshape(2, 3), torch.arange(3.0)[None], torch.empty(0), torch.ones(4)]
            assert_same(sojourn.publish([t.detach() for t in tensors]), [*expected, torch.zeros(2), torch.zeros(2)])
        live = owner.counters()["live_handles"]
        uploaded.data = x.detach()
        sojourn.flush()
        assert owner.counters()["live_handles"] == live - 1  # shares x's; nothing keeps the old one


def test_gradients_of_a_leaf_that_a_failed_step_reshaped(device):
    """A graph of the failed step lives on, and with it torch's accumulator for the leaf's shape of then."""
    leaf = torch.ones(2, dtype=F64).to(device).requires_grad_()
    with pytest.raises(KeyError):
        with sojourn.step():
            with torch.no_grad():
                leaf.unsqueeze_(0)
            kept = leaf * 2
            raise KeyError
    with sojourn.step():
        (leaf * 3).sum().backward()
    assert kept.shape == (1, 2) and leaf.grad.shape == (2,)
    assert_same(leaf.grad, torch.full((2,), 3.0, dtype=F64))


def test_a_leaf_that_a_failed_step_reshaped_and_shaped_back_has_one_accumulator(device):
    leaf, calls = torch.ones(1, 2, dtype=F64).to(device).requires_grad_(), []
    leaf.register_post_accumulate_grad_hook(lambda x: calls.append(x.shape))
    before = leaf * 2
    sojourn.flush()
    with pytest.raises(KeyError):
        with sojourn.step():
            with torch.no_grad():
                leaf.squeeze_(0).unsqueeze_(0)
            raise KeyError
    with sojourn.step():
        (before + leaf * 3).sum().backward()
    assert calls == [(1, 2)]
    assert_same(leaf.grad, torch.full((1, 2), 5.0, dtype=F64))


def test_random_steps_of_which_some_fail(device):
    """Random views and writes in steps; eager skips the failed ones. Every live tensor agrees after each."""
    seed = fresh_seed("failing steps")
    for i in range(4):
        program = Program(seed + i, steps=40)
        kept = program.decisions
        generator = torch.Generator().manual_seed(seed + i)
        cpu = [torch.randn(*shape, dtype=F64, generator=generator) for shape in program.bases]
        remote = [t.to(device) for t in cpu]
        for start in range(0, len(kept), 5):
            fails = kept[start][9] < 0.4
            try:
                with sojourn.step():
                    mine = list(remote)
                    for decision in kept[start : start + 5]:
                        program.step(mine, decision, device)
                    if fails:
                        raise KeyError
                    remote = mine
            except KeyError:
                assert fails
                continue
            assert not fails
            for decision in kept[start : start + 5]:
                program.step(cpu, decision, "cpu")
        assert_same(remote, cpu, f"program {seed + i}")
