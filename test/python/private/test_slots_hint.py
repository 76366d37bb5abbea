# SPDX-License-Identifier: Apache-2.0
"""Code that counts on the rows of a private batch meets its slots: torch's error says so, and what to do. Where no private
draw is met, errors are torch's own."""

import re

import pytest
import torch
import torch.nn.functional as F
from private_support import make_table, numpy_rng, own_owner  # noqa: F401

import sojourn

ROWS, SIZE, WIDTH = 3000, 128, 5


@pytest.fixture
def arrays(rng):
    return {"x": rng.uniform(-1, 1, (ROWS, WIDTH)), "y": rng.integers(0, 3, ROWS), "t": rng.uniform(0, 1, ROWS)}


BOUNDS = {"x": (-1, 1), "y": (0, 2), "t": (0, 1)}


def zeros(x, *sizes, dtype=torch.float32):
    return torch.zeros(sizes, dtype=dtype, device=x.device)


# Code written as if a batch had SIZE rows; x [slots, WIDTH], t [slots].
MISTAKES = {
    "view": lambda x, t: x.view(SIZE, -1),
    "view of a column": lambda x, t: t.view(SIZE, 1),
    "view of what is computed": lambda x, t: F.relu(x * 2).view(SIZE, -1),
    "reshape": lambda x, t: x.reshape(SIZE, -1),
    "reshape of a transpose": lambda x, t: x.T.reshape(WIDTH, SIZE),
    "unflatten": lambda x, t: t.unflatten(0, (SIZE, 1)),
    "expand": lambda x, t: t.expand(2, SIZE),
    "sum with a constant": lambda x, t: t + zeros(t, SIZE),
    "constant first": lambda x, t: zeros(t, SIZE) - t,
    "in place": lambda x, t: t.add_(zeros(t, SIZE)),
    "into a buffer": lambda x, t: zeros(t, SIZE).copy_(t),
    "into a part of a buffer": lambda x, t: zeros(t, 2 * SIZE)[:SIZE].copy_(t),
    "item of a buffer": lambda x, t: zeros(t, SIZE).__setitem__(slice(None), t),
    "where": lambda x, t: torch.where(t > 0, t, zeros(t, SIZE)),
    "weights of rows": lambda x, t: (x * zeros(t, SIZE, 1)).sum(),
    "mse_loss": lambda x, t: F.mse_loss(t, zeros(t, SIZE)),
    "mse_loss of what is computed": lambda x, t: F.mse_loss(x.square().sum(1), zeros(t, SIZE)),
    "mse_loss with a CPU target": lambda x, t: F.mse_loss(t, torch.zeros(SIZE)),
    "l1_loss": lambda x, t: F.l1_loss(zeros(t, SIZE), t),
    "smooth_l1_loss": lambda x, t: F.smooth_l1_loss(t, zeros(t, SIZE)),
    "cross_entropy": lambda x, t: F.cross_entropy(x, zeros(t, SIZE, dtype=torch.int64)),
    "cross_entropy of shares": lambda x, t: F.cross_entropy(x, zeros(t, SIZE, WIDTH)),
    "nll_loss": lambda x, t: F.nll_loss(x.log_softmax(1), zeros(t, SIZE, dtype=torch.int64)),
    "matmul": lambda x, t: zeros(x, 3, SIZE) @ x,
    "matmul of a vector": lambda x, t: zeros(x, SIZE) @ x,
    "matrix times column": lambda x, t: torch.mv(zeros(x, 3, SIZE), t),
    "bmm": lambda x, t: torch.bmm(zeros(x, SIZE, 2, WIDTH), x[:, :, None]),
    "linear": lambda x, t: F.linear(t, zeros(x, 3, SIZE)),
    "einsum": lambda x, t: torch.einsum("bi,b->i", x, zeros(t, SIZE)),
    "cat": lambda x, t: torch.cat([x, zeros(x, SIZE, 1)], 1),
    "stack": lambda x, t: torch.stack([t, zeros(t, SIZE)]),
    "mask": lambda x, t: x[zeros(t, SIZE) > 0],
    "split": lambda x, t: x.split([SIZE // 2, SIZE - SIZE // 2]),
}  # fmt: skip
# Checked by torch in Python, where nobody else looks: a note at the end of the step.
NOTED = {
    "binary_cross_entropy_with_logits": lambda x, t: F.binary_cross_entropy_with_logits(t, zeros(t, SIZE)),
    "binary_cross_entropy": lambda x, t: torch.nn.BCELoss()(t, zeros(t, SIZE)),
}


def batch_of(table, size=SIZE):
    x = next(iter(table.batches("x", size=size)))
    return x, x[:, 0] * 1


def hint(slots):
    return re.escape(f"this batch of a private table has {slots} slots for its {SIZE} rows") + r".*x\.shape\[0\].*size="


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_explained(owner, arrays, name):
    table = make_table(owner, arrays, BOUNDS)
    x, t = batch_of(table)
    with pytest.raises((RuntimeError, ValueError, IndexError), match=hint(x.shape[0])) as undeclared:
        MISTAKES[name](x, t)
    sojourn.flush()  # of a batch that an earlier step has drawn, too
    with pytest.raises(undeclared.type, match=hint(x.shape[0])):
        MISTAKES[name](x, t)
    with torch.inference_mode(), pytest.raises(undeclared.type, match=hint(x.shape[0])):
        MISTAKES[name](*batch_of(table))
    with pytest.raises(undeclared.type, match=hint(x.shape[0])) as declared:
        with sojourn.step():
            MISTAKES[name](*batch_of(table))
    for found in (undeclared, declared):
        assert str(found.value).count("slots for its") == 1
        assert not getattr(found.value, "__notes__", [])


@pytest.mark.parametrize("name", NOTED)
def test_a_check_in_python_is_noted(owner, arrays, name):
    table = make_table(owner, arrays, BOUNDS)
    with pytest.raises(ValueError) as found:
        with sojourn.step():
            x, t = batch_of(table)
            with sojourn.step():
                NOTED[name](x, t)
    (note,) = found.value.__notes__
    assert re.match(hint(x.shape[0]), note)


@pytest.mark.parametrize("name", MISTAKES | NOTED)
def test_open_tables_and_uploads_have_no_slots(owner, arrays, rng, name):
    """The same sizes without a private draw: torch's text, as on the CPU."""
    table = make_table(owner, arrays, BOUNDS)
    slots = batch_of(table)[0].shape[0]
    sojourn.flush()
    opened = make_table(owner, arrays, BOUNDS, name="open", policy="open")
    for x in (batch_of(opened, slots)[0], torch.rand(slots, WIDTH).to(owner.device), opened["x"][:slots].float()):
        with pytest.raises((RuntimeError, ValueError, IndexError)) as found:
            with sojourn.step():
                (MISTAKES | NOTED)[name](x.detach().clone(), x[:, 0])
        assert "slots" not in str(found.value) and not getattr(found.value, "__notes__", [])


def test_other_mistakes_on_private_batches(owner, arrays):
    """Sizes that have nothing to do with the batch."""
    x, t = batch_of(make_table(owner, arrays, BOUNDS))
    for mistake in (lambda: x.view(7, -1, 11), lambda: t + zeros(t, 3), lambda: x @ zeros(x, 3, 3)):
        with pytest.raises(RuntimeError) as found, sojourn.step():
            mistake()
        assert "slots" not in str(found.value) and not getattr(found.value, "__notes__", [])


def test_features_as_many_as_rows(owner, rng):
    """Other sizes of the batch itself are no rows, and neither are sums of sizes."""
    arrays = {"x": rng.uniform(-1, 1, (ROWS, SIZE))}
    x = next(iter(make_table(owner, arrays, {"x": (-1, 1)}).batches("x", size=SIZE)))
    mistakes = (
        lambda: x @ zeros(x, 64, 10),
        lambda: F.linear(x, zeros(x, 10, 64)),
        lambda: x.sum(5),
        lambda: x.view(SIZE - 28, 28),
    )
    for mistake in mistakes:
        with pytest.raises((RuntimeError, IndexError)) as found, sojourn.step():
            mistake()
        assert "slots" not in str(found.value) and not getattr(found.value, "__notes__", [])


def test_numbers_within_other_words(owner, arrays):
    x, _ = batch_of(make_table(owner, arrays, BOUNDS))
    slots = x.shape[0]
    for text in (f"{slots} units, lr 0.{SIZE}", f"run-{SIZE}/epoch_{slots}.pt", f"x{SIZE} and {slots}y"):
        with pytest.raises(ValueError) as found, sojourn.step():
            x.sum()
            raise ValueError(text)
        assert not getattr(found.value, "__notes__", [])
    with pytest.raises(ValueError) as found, sojourn.step():
        x.sum()
        raise ValueError(f"expected {SIZE}, found {slots}.")
    assert len(found.value.__notes__) == 1


def test_an_error_that_cannot_be_read_ends_its_step(owner, arrays):
    class Unreadable(ValueError):
        def __str__(self):
            raise OSError("no text")

    x, _ = batch_of(make_table(owner, arrays, BOUNDS))
    with pytest.raises(Unreadable), sojourn.step():
        x.sum()
        raise Unreadable
    with sojourn.step():
        kept = torch.ones(2).to(owner.device) + 1
    assert kept.tolist() == [2, 2]


def test_wrapped_tensors(owner, arrays):
    """Those of torch.func have the device and no slots."""
    x, _ = batch_of(make_table(owner, arrays, BOUNDS))
    with pytest.raises(RuntimeError):
        torch.func.grad(lambda a: torch.einsum("bi,b->i", a, zeros(a, SIZE)).sum())(x)


def test_a_step_that_is_compiled_ahead(arrays):
    """Slots are known from the description."""
    table = sojourn.table_spec(
        ROWS, {"t": torch.float64, "y": torch.int64}, {name: BOUNDS[name] for name in "ty"}, policy="private"
    )
    with sojourn.offline(), pytest.raises(RuntimeError, match=r"slots for its 128 rows"):
        sojourn.compile(
            lambda t, y: t.view(SIZE, -1).sum(),
            tables={"people": table},
            batches=lambda people: people.batches(["t"], label="y", size=SIZE),
        )


def test_the_way_out_works(owner, arrays):
    """Sizes taken from the batch; on the CPU the same lines."""
    for table in (make_table(owner, arrays, BOUNDS), sojourn.plain(arrays)):
        x, t = batch_of(table)
        count = x.shape[0]
        with sojourn.step():
            loss = F.mse_loss(x.view(count, -1).sum(1), zeros(t, count))
            published = sojourn.publish(loss, bound=25.0)
        assert float(published) > -100


def test_values_are_as_without_the_checks(owner, rng):
    """Ops that pass by the hint give what they give on the CPU, gradients too."""
    x, y = torch.rand(6, 4, dtype=torch.float64), torch.rand(6, 4, dtype=torch.float64)
    labels = torch.from_numpy(rng.integers(0, 4, 6))

    def run(x, y, labels):
        x = x.clone().requires_grad_()
        a, b = torch.broadcast_tensors(x[:, None], y[None])
        total = (
            F.nll_loss(x.log_softmax(1), labels)
            + F.cross_entropy(x, labels, label_smoothing=0.25)
            + torch.einsum("bi,bj->ij", x, y).square().sum()
            + (a * b).sum()
            + (x.T.reshape(2, -1) * x.unflatten(0, (2, 3)).reshape(2, -1)).sum()
        )
        total.backward()
        return total.detach(), x.grad

    expected = run(x, y, labels)
    found = sojourn.publish(run(*(value.to(owner.device) for value in (x, y, labels))))
    torch.testing.assert_close(tuple(found), expected)
