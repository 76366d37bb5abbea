# SPDX-License-Identifier: Apache-2.0
"""Groups whose tables are shared as sums: members see totals alone, and training equals that on all rows."""

import math
import re

import pytest
import torch
from parties_support import COLUMNS, close, made_hospitals, trained
from torch import nn

import sojourn

STEP_OF_GRID = 2.0**-42


@pytest.fixture
def hospitals(rng):
    yield from made_hospitals(rng, range(40, 80), share="sums")


@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.SGD])
def test_a_model_trains_on_masked_sums_as_on_all_rows(hospitals, rng, make):
    three, seed = hospitals(), rng.randrange(1000)
    assert three.parties.sums == "masked" and "sums='masked'" in repr(three.parties)
    net, losses = trained(three.table, three.parties.device, seed, make=make, size=48, drop=True)
    expected, plain_losses = trained(three.pooled, "cpu", seed, make=make, size=48, drop=True)
    close(sojourn.publish(net.state_dict()), expected.state_dict())
    close(torch.stack([loss.cpu() for loss in losses]), torch.stack(plain_losses))


def test_sums_are_those_of_the_rows_to_the_step_of_the_grid(hospitals, rng):
    five = hospitals(30, 40, 50, 60, 70)
    table, pooled = five.table, five.pooled
    age = table["age"].double()
    wide = torch.outer(age, torch.linspace(-1, 1, 3001, dtype=torch.float64, device=age.device)).sum(0)
    found = {
        "sum": age.sum(),
        "ones": (age * 0 + 1).sum(),
        "count": (age > 0).sum(),
        "pixels": table["image"].long().sum(0),
        "half": (age.half() / 64).sum(),
        "wide": wide,
    }
    found = {name: value.cpu() for name, value in found.items()}
    plain = pooled["age"].double()
    assert abs(found["sum"].item() - plain.sum().item()) <= 5 * STEP_OF_GRID + 1e-12
    assert found["ones"].item() == 250 and found["count"].item() == (plain > 0).sum().item()
    assert torch.equal(found["pixels"], pooled["image"].long().sum(0))
    torch.testing.assert_close(found["half"], (plain.half() / 64).sum(), rtol=2e-3, atol=2e-3)
    expected = torch.outer(plain, torch.linspace(-1, 1, 3001, dtype=torch.float64)).sum(0)
    assert (found["wide"] - expected).abs().max().item() <= 5 * STEP_OF_GRID + 1e-11, "in shares of the members"


def test_what_is_outside_the_grid_is_nan(hospitals):
    three = hospitals()
    age = three.table["age"].double()
    count = len(three.all("age"))
    most = 2.0**20 / 3
    each = age * 0 + 1
    near = (each * (most / 81)).sum()  # of up to 80 rows at each
    beyond = (each * most).sum()
    nothing = (each * math.nan).sum()
    beside = torch.stack([each, each * math.inf], 1).sum(0)
    assert abs(near.item() - count * (most / 81)) <= 1e-6
    assert math.isnan(beyond.item()) and math.isnan(nothing.item())
    assert torch.isnan(beside.cpu()).all(), "of a tensor with such an element, as a whole"
    assert each.sum().item() == count, "other sums of the same exchange are whole"


def refusal(text: str):
    return pytest.raises(sojourn.Refused, match=re.escape(text))


def test_values_that_are_no_sums_over_rows_of_three_are_refused(hospitals):
    three = hospitals()
    alice, bob, _ = three.owners
    means = [owner.dataset("patients")["age"].mean() for owner in (alice, bob)]
    with refusal("this step shows a value that is no sum over rows of all members") as found:
        (means[0].to(three.parties.device) + means[1].to(three.parties.device)).item()
    total = torch.zeros((), device=three.parties.device)
    assert total.item() == 0 and three.parties.where(total) == "copies at all members"
    with refusal("is shared with member 1"):
        total.copy_(means[0].to(three.parties.device))
        total.item()
    assert "test_parties_sums.py" in str(found.value), "the scientist's line"
    two = sojourn.parties(alice, bob)
    assert two.sums == "clear"
    with refusal("of a sum of two members each knows the other one's part"):
        two.rows("patients")["age"].sum().item()
    clear = sojourn.parties(*three.owners, sums="clear")
    with refusal("this group shows sums without masks"):
        clear.rows("patients")["age"].sum().item()
    for group in (two, clear):
        group.close()


def test_sums_over_few_rows_are_refused(hospitals):
    three = hospitals(7, 40, 40)
    with refusal("as sums over at least 8 rows (groups.least_rows), and this step has one over 7 of this owner"):
        three.table["age"].sum().item()
    few = hospitals()
    with refusal("rows (groups.least_rows), and this step has one over"):
        for x, _ in few.table.batches(COLUMNS, label="relapse", size=6, seed=1):
            x.sum().item()


def test_a_group_may_ask_for_masks(hospitals):
    three = hospitals(share="clear")
    assert three.parties.sums == "clear"
    masked = sojourn.parties(*three.owners, sums="masked")
    total = masked.rows("patients")["age"].double().sum().item()
    assert abs(total - three.all("age").double().sum().item()) <= 3 * STEP_OF_GRID + 1e-12
    masked.close()


def test_a_layer_that_normalizes_the_batch_and_replay(hospitals, rng):
    three, seed = hospitals(), rng.randrange(1000)

    def model(number):
        torch.manual_seed(number)
        return nn.Sequential(nn.Linear(3, 6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 2))

    net, _ = trained(three.table, three.parties.device, seed, model=model, size=48, drop=True)
    expected, _ = trained(three.pooled, "cpu", seed, model=model, size=48, drop=True)
    close(sojourn.publish(net.state_dict()), expected.state_dict(), 1e-4)


def test_the_log_says_what_is_masked(hospitals):
    three = hospitals()
    three.table["age"].sum().item()
    text = three.owners[1].programs(with_text=True)[-1]["text"]
    assert "// exchange 0, masked sums over roles 0, 1 and 2: tensor<f32>" in text, text
