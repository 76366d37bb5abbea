# SPDX-License-Identifier: Apache-2.0
"""Runs one case in this process, at `cpu` or at an embedded `owner`, and writes what it computed to a file.

    library_worker.py PACKAGE cpu|owner --seed N --out FILE

The file has CPU tensors only, and where the optimizers stepped. tools/libraries.py starts this and compares.
"""

from __future__ import annotations

import argparse
import collections
import os
import pathlib
import random
import sys
import tempfile

# Before any library is imported. No case fetches anything, and none looks for another accelerator.
for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "DISABLE_TELEMETRY"):
    os.environ[variable] = "1"
os.environ["MPLBACKEND"] = "agg"

import library_support  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch.optim.optimizer import register_optimizer_step_pre_hook  # noqa: E402

import sojourn  # noqa: E402


class Watch:
    """Notes at every optimizer's step where its parameters are, and on the CPU what they were before the first."""

    def __init__(self, place):
        self.place, self.counts, self.devices, self.before = place, collections.Counter(), set(), {}
        self.optimizers = []  # kept, so that no two have one id
        register_optimizer_step_pre_hook(self)

    def __call__(self, optimizer, arguments, options):
        self.counts[id(optimizer)] += 1
        self.optimizers.append(optimizer)
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.devices.add(str(parameter.device))
                if self.place.owner is None and id(parameter) not in self.before:
                    self.before[id(parameter)] = (parameter, parameter.detach().clone())


def on_cpu(value):
    """A tree of tensors, numbers and arrays as CPU tensors and lists."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, np.ndarray | np.generic):
        return torch.as_tensor(np.array(value))
    if isinstance(value, dict):
        return {str(key): on_cpu(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [on_cpu(each) for each in value]
    return value


def run(package: str, at: str, seed: int) -> dict:
    owner = sojourn.local() if at == "owner" else None
    device = owner.device if owner else torch.device("cpu")
    case = library_support.cases()[package]
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    with tempfile.TemporaryDirectory(prefix="sojourn-library-") as folder:
        os.chdir(folder)  # some libraries write to the folder that they are started in
        place = library_support.Place(device, owner, pathlib.Path(folder))
        watch = Watch(place)
        found = case.run(place)
        stands = {str(parameter.device) for parameter in found.model.parameters()}
        names = {id(parameter): name for name, parameter in found.model.named_parameters()}
        result = {
            "losses": on_cpu(list(found.losses)),
            "values": on_cpu(found.values),
            "state": on_cpu(dict(found.model.state_dict())),
            "before": {names[key]: tensor for key, (_, tensor) in watch.before.items() if key in names},
            "stepped": sorted(watch.devices),
            "steps": max(watch.counts.values(), default=0),
            "stands": sorted(stands),
            "device": str(device),
            "torch": str(torch.__version__),
            "sent": sojourn.counters()["steps"] if owner else 0,
        }
        os.chdir("/")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("place", choices=["cpu", "owner"])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.save(run(arguments.package, arguments.place, arguments.seed), arguments.out)


if __name__ == "__main__":
    sys.exit(main())
