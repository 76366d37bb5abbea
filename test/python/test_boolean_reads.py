# SPDX-License-Identifier: Apache-2.0
"""`x[mask]`: its size is read off the mask, where that was uploaded from here or may be read."""

import io

import numpy as np
import pytest
import torch
from private_support import make_table

import sojourn

READS = {
    "list": lambda x, m: x[m[:, 0].tolist()], "numpy": lambda x, m: x[m[:, 0].numpy()],
    "list behind a dim": lambda x, m: x[:, m[0].tolist()], "list beside a number": lambda x, m: x[m[:, 0].tolist(), 1],
    "uploaded": lambda x, m: x[m.to(x.device)], "uploaded rows": lambda x, m: x[m[:, 1].to(x.device)],
    "computed": lambda x, m: x[x > 0], "of part of a dim": lambda x, m: x[1:][(x[:, 0] > 0)[1:]],
    "computed and an index": lambda x, m: x[x[:, 0] > 0, 2], "none true": lambda x, m: x[x > 1e9],
    "whole": lambda x, m: x[x == x], "under a window": lambda x, m: x.T[m.to(x.device).T],
}  # fmt: skip


@pytest.mark.parametrize("name", READS)
@pytest.mark.filterwarnings("ignore:a value is read here")
def test_outside_of_steps(device, seed, name):
    x, mask = torch.randn(6, 5, dtype=torch.float64), torch.rand(6, 5) > 0.4
    results = []
    for there in (device, torch.device("cpu")):
        y = x.to(there).requires_grad_()
        found = READS[name](y, mask)
        (grad,) = torch.autograd.grad((found**2).sum(), y)
        results.append((found.detach().cpu(), grad.cpu()))
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_masks_that_were_uploaded_select_inside_of_steps(counted, seed):
    """As graph networks train: on some nodes of all. One round trip per step, whatever was sent before."""
    torch.manual_seed(seed)
    nodes, labels, train = torch.randn(40, 6), torch.randint(0, 3, (40,)), torch.rand(40) > 0.5
    results, trips = [], counted.round_trips()
    for device in (counted.device, torch.device("cpu")):
        torch.manual_seed(seed)
        model = torch.nn.Linear(6, 3).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        x, y, mask = nodes.to(device), labels.to(device), train.to(device)

        def step():
            loss = torch.nn.functional.cross_entropy(model(x)[mask], y[mask])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        if device.type == "cpu":
            results.append([step().item() for _ in range(8)])
            continue
        losses = []
        for _ in range(8):
            with sojourn.step():
                losses.append(sojourn.publish(step()))
        results.append([float(loss) for loss in losses])
    assert counted.round_trips() == trips + 8
    torch.testing.assert_close(torch.tensor(results[0]), torch.tensor(results[1]), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.* is traced, not replayed")
def test_a_replayed_step_looks_at_each_mask(device, seed, rng):
    """As many true elements, at other places."""
    w = torch.zeros(4, device=device)

    @sojourn.step(replay=True)
    def total(x, mask):
        w.add_(1)
        return sojourn.publish((x[mask] * torch.arange(1.0, 4.0, device=device)).sum())

    x = torch.randn(6, dtype=torch.float32)
    for call in range(12):
        if call not in (1, 2, 3):  # alike so often that it would be replayed
            mask = torch.zeros(6, dtype=torch.bool)
            mask[rng.sample(range(6), 3)] = True
        found = total(x.to(device), mask.to(device))
        wanted = (x[mask] * torch.arange(1.0, 4.0)).sum()
        torch.testing.assert_close(torch.tensor(float(found)), wanted)


@pytest.mark.filterwarnings("ignore:a value is read here")
def test_a_mask_that_was_written_to_is_another(device, seed):
    mask = (torch.arange(6) % 2 == 0).to(device)
    x = torch.arange(6.0).to(device)
    sojourn.flush()
    with sojourn.step():
        kept = x[mask]
    mask[1] = True
    with sojourn.step(), pytest.raises(sojourn.ValueNeeded, match="boolean-indexed"):
        x[mask]
    sojourn.flush()
    with sojourn.step(), pytest.raises(sojourn.ValueNeeded, match="boolean-indexed"):
        x[mask]
    assert x[mask].tolist() == [0, 1, 2, 4]
    assert kept.tolist() == [0, 2, 4]


def test_windows_of_a_mask_and_files_of_it(device, seed):
    """What is known of it does not depend on what was sent or saved before."""
    here, x = torch.rand(5, 4) > 0.5, torch.randn(5, 4)
    mask, there = here.to(device), x.to(device)
    windows = (lambda t: t, lambda t: t[1:4], lambda t: t[None], lambda t: t.T, lambda t: t[:, 2], lambda t: t[::2, 1:])
    for way in (lambda: None, sojourn.flush, lambda: torch.save({"mask": mask}, io.BytesIO())):
        way()
        for window in windows:
            with sojourn.step():
                found = window(there)[window(mask)]
            assert torch.equal(found.cpu(), window(x)[window(here)])


def test_other_refusals_stay_what_they_are(device):
    """The text of an error before is not taken for that of this one."""
    x = torch.randn(4).to(device)
    sojourn.flush()
    with sojourn.step(), pytest.raises(sojourn.Refused):
        x.cpu()
    with sojourn.strict(), pytest.raises(sojourn.ValueNeeded, match="a separate round trip"):
        x[x > 0]


def test_a_mask_written_in_the_step_that_uploads_it(device):
    x = torch.arange(3.0).to(device)
    with sojourn.step():
        mask = torch.tensor([True, False, True], device=device)
        mask[1] = True
    with sojourn.step(), pytest.raises(sojourn.ValueNeeded, match="boolean-indexed"):
        x[mask]


def test_computed_masks_are_refused_inside_of_steps(device, seed):
    x = torch.randn(5).to(device)
    with sojourn.step(), pytest.raises(sojourn.ValueNeeded, match="torch.where"):
        x[x > 0]


def test_masks_of_the_wrong_shape(device):
    for x in (torch.zeros(3, 4), torch.zeros(3, 4).to(device)):
        for index in ([True, False], np.array([True] * 4), torch.ones(3, 3, dtype=torch.bool, device=x.device)):
            with pytest.raises(IndexError, match="shape of the mask"):
                x[index]


def test_private_masks_are_not_read(seed):
    rows = torch.randn(64, generator=torch.Generator().manual_seed(seed))
    with sojourn.local() as owner:
        table = make_table(owner, {"x": rows.numpy()}, {"x": (-3, 3)})
        x = next(iter(table.batches(["x"], size=32)))[:, 0]
        with pytest.raises(sojourn.ValueNeeded, match="use torch.where"):
            x[x > 0]
        # What was pending still is.
        mean = sojourn.publish(x.mean(), epsilon=1.0)
        assert abs(float(mean)) < 3
