# SPDX-License-Identifier: Apache-2.0
"""Trains the zoo's scripts, in a process of their own, each with its programs dumped phase by phase into a folder.

    python zoo_dumps_support.py FOLDER STEPS

A process compiles a program once, so one that has trained these models would dump nothing. Beside the programs of a
script `hashes.json` lists what its owner was sent.
"""

import json
import os
import pathlib
import sys

import torch
from zoo_support import ZOO

import sojourn


def folder_of(root, name) -> pathlib.Path:
    return pathlib.Path(root) / name.replace(" ", "-").replace(",", "")


def train(name, root, steps):
    """The script's steps at an owner of its own."""
    folder = folder_of(root, name)
    folder.mkdir()
    os.environ["SOJOURN_DUMP"] = str(folder)
    with sojourn.local() as owner:
        script = ZOO[name](owner.device, torch.float32)
        step = sojourn.step(lambda i: sojourn.publish(script.step(i).detach()))
        for i in range(steps):
            step(i)
        hashes = [info["hash"] for info in owner.programs()]
    (folder / "hashes.json").write_text(json.dumps(hashes))


if __name__ == "__main__":
    torch.set_num_threads(1)
    for each in ZOO:
        train(each, sys.argv[1], int(sys.argv[2]))
