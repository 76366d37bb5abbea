# SPDX-License-Identifier: Apache-2.0
"""The tasks of tools/bench_utility.py: each trains privately as the benchmark does, and its tables say what was measured.

Opacus is not here; the other side's numbers are made up, and those of the table follow from them by hand.
"""

import argparse
import pathlib
import sys

import pytest
import torch

import sojourn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import bench_utility
from utility_tasks import TASKS


@pytest.mark.parametrize("name", TASKS)
def test_a_step_of_each_task_is_proved(name, seed):
    task = TASKS[name]()
    model = bench_utility.new_model(task, seed % 2**31)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with sojourn.local() as owner:
        table = owner.register("table", task.columns, policy="private", bounds=task.bounds)
        owner.grant("table", epsilon=20, delta=1e-5)
        optimizer = torch.optim.Adam(model.parameters(), lr=task.rate)
        sojourn.to_owner(model, owner, optimizer)
        with sojourn.privacy(table, noise_multiplier=1.0, delta=1e-5, clip=task.clip, metric_share=0.0):
            x, y = next(iter(table.batches(task.features, label=task.label, size=task.size)))
            with sojourn.step():
                task.loss(model, table, x, y).backward()
                optimizer.step()
        after = sojourn.publish(model.state_dict())
    assert all(torch.isfinite(value).all() for value in after.values())
    assert any(not torch.equal(value, before[key]) for key, value in after.items())


def test_the_table_is_what_was_found():
    arguments = argparse.Namespace(tasks=["cancer"], epsilon=[1.0], seeds=2)
    found = {"cancer/open/0": {"accuracy": 0.9}, "cancer/open/1": {"accuracy": 1.0}}
    for seed, (ours, theirs) in enumerate([(0.8, 0.7), (0.9, 0.82)]):
        found[f"cancer/sojourn/1/{seed}"] = {"accuracy": ours, "noise": 2.5}
        found[f"cancer/opacus/1/{seed}"] = {"accuracy": theirs, "noise": 2.25}
    lines = bench_utility.table_text(found, arguments).splitlines()
    assert lines[2] == "| breast cancer | none | 95.0 ± 7.1 | | | |"
    # Differences 10 and 8: mean 9, deviation sqrt(2), of two runs 1.
    assert lines[3] == "| breast cancer | 1 | 85.0 ± 7.1 | 76.0 ± 8.5 | +9.0 ± 1.0 | 2.5, 2.25 |"
