# SPDX-License-Identifier: Apache-2.0
"""A client, a process of a served owner, whose step takes long."""

import subprocess
import sys

CLIENT = """
import sys, torch, sojourn
owner = sojourn.connect(sys.argv[1], timeout=600)
x = torch.ones(int(sys.argv[3]), int(sys.argv[3])).to(owner.device)
sojourn.flush()
print("begins", flush=True)
try:
    for _ in range(int(sys.argv[2])):
        x = torch.tanh(x @ x)
    sojourn.flush()
    print("ended", flush=True)
except sojourn.Error as error:
    print(type(error).__name__, error, flush=True)
"""


def long_step(process, products: int, side: int) -> subprocess.Popen:
    """Begins a step of so many products of square matrices; its output tells how the step ended."""
    command = [sys.executable, "-c", CLIENT, process.address, str(products), str(side)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "begins\n"
    return child
