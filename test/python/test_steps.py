# SPDX-License-Identifier: Apache-2.0
"""Steps: what joins them, one round trip each, and what an exception leaves behind."""

import gc

import pytest
import torch
from remote_support import Count, assert_same, fresh_seed

import _sojourn
import sojourn

F64 = torch.float64


def test_pending_ops_join_the_step(owner, device):
    with Count(owner) as count:
        x = torch.arange(4.0, dtype=F64).to(device)
        y = x * 2
        with sojourn.step():
            z = y + 1
        # Everything is committed: nothing is left to send.
        sojourn.flush()
    assert count.round_trips == 1
    assert_same(
        [x, y, z],
        [torch.arange(4.0, dtype=F64), torch.arange(4.0, dtype=F64) * 2, torch.arange(4.0, dtype=F64) * 2 + 1],
    )


def test_nested_steps_join_the_outer(owner, device):
    @sojourn.step
    def inner(x):
        return x + 1

    with Count(owner) as count:
        with sojourn.step():
            x = inner(torch.zeros(2, device=device))
            with sojourn.step():
                x = inner(x) * 3
            y = sojourn.publish(x)
            assert not y.ready
    assert count.round_trips == 1
    assert y.value.tolist() == [6, 6]


def test_decorator_keeps_the_function(owner, device):
    @sojourn.step
    def function(x, *, scale=2):
        """Says what it does."""
        return {"y": x * scale}

    assert function.__name__ == "function" and function.__doc__ == "Says what it does."
    assert_same(function(torch.ones(2).to(device), scale=5), {"y": torch.full((2,), 5.0)})
    # On CPU tensors it changes nothing.
    with Count(owner) as count:
        assert function(torch.ones(2))["y"].tolist() == [2, 2]
    assert count.round_trips == 0
    for wrong in (3, "text"):
        with pytest.raises(TypeError, match="takes a function"):
            sojourn.step(wrong)


def test_methods_and_generators_of_steps(device):
    class Trainer:
        total = 0.0

        @sojourn.step
        def add(self, x):
            self.total = self.total + x.sum()

    trainer = Trainer()
    for i in range(3):
        trainer.add(torch.full((2,), float(i)).to(device))
    assert sojourn.publish(trainer.total) == 6


def test_implicit_steps(owner, device):
    with Count(owner) as count:
        x = torch.ones(3).to(device)
        for _ in range(5):
            x = x * 2
        assert owner.counters()["round_trips"] == count.before["round_trips"]
        assert sojourn.publish(x).tolist() == [32] * 3
        sojourn.flush()
    assert count.round_trips == 1


def test_an_empty_step_makes_no_round_trip(owner, device):
    with Count(owner) as count:
        with sojourn.step():
            pass
        sojourn.flush()
    assert count.round_trips == 0


def test_published_values(owner, device):
    x = torch.arange(3.0).to(device)
    with Count(owner) as count:
        with sojourn.step():
            early = sojourn.publish(x)
            tree = sojourn.publish(
                {"sum": x.sum(), "pair": (x * 2, [x > 1]), "cpu": torch.ones(1), "text": "kept", "none": None}
            )
            x.add_(10)
            assert not early.ready and "filled when the step ends" in repr(early)
            for read in (
                lambda: early.value,
                lambda: tree.value,
                lambda: float(tree["sum"]),
                lambda: early.item(),
                lambda: f"{early:.2f}",
            ):
                with pytest.raises(sojourn.ValueNeeded, match="after the step has ended"):
                    read()
    assert count.round_trips == 1
    assert early.ready and early.value.tolist() == [0, 1, 2]
    assert_same(
        tree.value,
        {
            "sum": torch.tensor(3.0),
            "pair": (torch.tensor([0.0, 2.0, 4.0]), [torch.tensor([False, False, True])]),
            "cpu": torch.ones(1),
            "text": "kept",
            "none": None,
        },
    )
    assert sojourn.publish(x).tolist() == [10, 11, 12]


def test_published_is_the_same_class_on_the_cpu(device):
    def run(where):
        x = torch.ones((), device=where) * 2
        with sojourn.step():
            published = sojourn.publish(x + 1)
        return published

    results = [run("cpu"), run(device)]
    assert type(results[0]) is type(results[1]) is sojourn.Published
    for published in results:
        assert published.ready and float(published) == 3 and int(published) == 3 and published.item() == 3
        assert f"{published:.1f}" == "3.0" and "Published" in repr(published)
    outside = [sojourn.publish(torch.ones(2, device=where)) for where in ("cpu", device)]
    assert all(isinstance(value, torch.Tensor) and value.device.type == "cpu" for value in outside)


def test_early_reading_is_refused_on_the_cpu_too():
    """One script serves both: what fails at an owner fails on the CPU."""
    with sojourn.step():
        published = sojourn.publish(torch.ones(1))
        with pytest.raises(sojourn.ValueNeeded):
            published.value
    assert published.value == 1


def test_published_is_a_copy(device):
    x = torch.ones(2)
    value = sojourn.publish(x)
    value.add_(1)
    assert x.tolist() == [1, 1]
    y = torch.ones(2, requires_grad=True, device=device)
    assert not sojourn.publish(y * 2).requires_grad


def test_publish_of_views_expanded_and_empty(device):
    x = torch.arange(6.0).reshape(2, 3)
    r = x.to(device)
    views = lambda t: [t.t(), t[:, 1], t[0, 0], t[:0], t[:1].expand(4, 3), t.flip(0), t.diagonal()]
    assert_same(views(r), views(x))
    with sojourn.step():
        inside = sojourn.publish(views(r))
    assert_same(inside.value, views(x))


def test_warm_steps(owner, device):
    """From the second step on nothing is compiled and no program travels."""
    w = torch.ones(4, 4, dtype=F64).to(device)
    sojourn.flush()

    @sojourn.step
    def train(x, rate):
        nonlocal w
        w = w - rate * (x.t() @ x)
        return w.sum()

    counts = []
    for i in range(6):
        x = torch.randn(3, 4, dtype=F64)
        with Count(owner) as count:
            loss = train(x.to(device), 0.1 / (i + 1))
        counts.append(count.of)
        del loss
    assert [c["round_trips"] for c in counts] == [1] * 6
    assert [c["programs_compiled"] for c in counts[1:]] == [0] * 5 and counts[5]["cache_hits"] == 1
    assert counts[5]["bytes_up"] < 1024 and counts[0]["bytes_up"] > counts[5]["bytes_up"]
    assert len({c["live_handles"] for c in counts[1:]}) == 1


def test_handles_are_released(owner, device):
    gc.collect()
    sojourn.flush()
    before = owner.counters()["live_handles"]
    kept = [torch.ones(2).to(device) * i for i in range(5)]
    sojourn.flush()
    assert owner.counters()["live_handles"] >= before + 5
    del kept
    assert owner.counters()["live_handles"] == before


def test_forced_hash_collisions(device):
    """Every trace has the same hash; the full comparison tells them apart."""
    _sojourn.force_hash_collisions(True)
    try:
        for i in range(3):
            for function in (
                lambda t: t + 1,
                lambda t: t * 2,
                lambda t: t.sum(0),
                lambda t: t.t(),
                lambda t: t[:, 1:] - t[:, :1],
                torch.sin,
            ):
                x = torch.randn(2, 3, dtype=F64)
                assert_same(function(x.to(device)), function(x))
    finally:
        _sojourn.force_hash_collisions(False)


def test_losing_an_owner():
    """A transport that fails in the middle: a clear error, values unknown, no hang, others unaffected."""
    embedded = _sojourn.EmbeddedOwner()
    alive = True

    def handle(request):
        if not alive:
            raise sojourn.ConnectionLost("the cable is out")
        return embedded.handle(request)

    session = _sojourn.Session(handle, "fragile")
    device = torch.device("owner", session.index)
    x = torch.ones(3).to(device)
    sojourn.flush()
    alive = False
    y = x + 1
    with pytest.raises(sojourn.ConnectionLost, match="cable"):
        sojourn.publish(y)
    with pytest.raises(sojourn.ConnectionLost, match="cable"):
        with sojourn.step():
            z = x * 2
    with pytest.raises(sojourn.Error, match="no value"):
        z + 1
    alive = True
    assert sojourn.publish(x * 3).tolist() == [3, 3, 3]
    session.close()
    with pytest.raises(sojourn.Error, match="closed"):
        x + 1


def test_a_closed_owner():
    owner = sojourn.local()
    x = torch.ones(2).to(owner.device)
    y = x * 2
    device = owner.device
    owner.close()
    for use in (lambda: y + 1, lambda: sojourn.publish(x), lambda: torch.ones(2, device=device)):
        with pytest.raises(sojourn.Error, match="closed"):
            use()
    owner.close()
    assert "owner" in repr(x)


def test_an_owner_closed_in_or_after_a_step():
    """What belonged to it says so; the other owners go on."""
    for inside in (False, True):
        owner, other = sojourn.local(), sojourn.local()
        table = owner.register("t", {"a": [1.0, 2.0]}, policy="open")
        x = torch.ones(3).to(owner.device)
        y = x * 2
        with pytest.raises(ZeroDivisionError):
            with sojourn.step():
                z = y * 3
                if inside:
                    owner.close()
                raise ZeroDivisionError
        owner.close()
        uses = [torch.neg, torch.neg, lambda _: table["a"], lambda _: torch.ones(2, device=owner.device)]
        for use, tensor in zip(uses, [y, z, None, None]):
            with pytest.raises(sojourn.Error, match="closed|has no value"):
                use(tensor)
        del x, y, z
        assert sojourn.publish(torch.ones(2).to(other.device) + 1).tolist() == [2, 2]
        other.close()


def test_devices_of_owners_in_cycles_are_used_again():
    """An owner kept by a cycle of objects (a traceback, a model with hooks) gives its device back when all are taken."""
    for _ in range(40):
        with sojourn.local() as owner:
            kept = {"x": torch.ones(3, device=owner.device)}
            kept["self"] = kept
        del kept, owner


def test_closed_owners_that_tensors_keep_are_named():
    kept = []
    with pytest.raises(
        sojourn.Error, match=r"owners in one process.*\(\d+ are closed, but tensors on them still exist"
    ):
        for _ in range(40):
            with sojourn.local() as owner:
                kept.append(torch.ones(3, device=owner.device))
    del kept, owner
    with sojourn.local() as owner:
        assert sojourn.publish(torch.ones(3, device=owner.device) + 1).tolist() == [2, 2, 2]


def test_uploads_are_copies(device):
    host = torch.ones(3)
    x = host.to(device)
    host.zero_()
    assert sojourn.publish(x).tolist() == [1, 1, 1]


def test_gradient_accumulation_over_steps(device):
    seed = fresh_seed("accumulation")
    results = []
    for where in ("cpu", device):
        torch.manual_seed(seed)
        w = torch.randn(3, dtype=F64).to(where).requires_grad_()
        for i in range(4):
            with sojourn.step():
                (w * torch.randn(3, dtype=F64).to(where)).sum().backward()
        results.append([w, w.grad])
    assert_same(results[1], results[0])


def test_flush_inside_a_step_waits_for_its_end(owner, device):
    with Count(owner) as count:
        with sojourn.step():
            x = torch.ones(2).to(device)
            sojourn.flush()
            y = x + 1
    assert count.round_trips == 1 and sojourn.publish(y).tolist() == [2, 2]
