#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the page of NumPy's names: which of them `sojourn.numpy` has, and why others are left out.

tools/numpy_names.py             the page, as Markdown
tools/numpy_names.py --missing   the names that are missing, one per line
"""

from __future__ import annotations

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build/python"))

import numpy  # noqa: E402

import sojourn.numpy as remote  # noqa: E402
from sojourn.numpy import _names as names  # noqa: E402

SPACES = {
    "numpy": (numpy, remote, list(numpy.__all__)),
    "numpy.linalg": (numpy.linalg, remote.linalg, list(numpy.linalg.__all__)),
    "numpy.fft": (numpy.fft, remote.fft, list(numpy.fft.__all__)),
    "numpy.random.Generator": (
        numpy.random.Generator, remote.random.Generator,
        [name for name in dir(numpy.random.Generator) if not name.startswith("_")],
    ),
}  # fmt: skip


def states(space: str) -> dict[str, str]:
    """Per name "own", "numpy" (NumPy's own object: a dtype, a constant), "left out" or "missing"."""
    reference, ours, listed = SPACES[space]
    found = {}
    for name in sorted(listed):
        value = getattr(ours, name, None)
        if space == "numpy" and name in names.LEFT_OUT:
            found[name] = "left out"
        elif value is None and name not in ("newaxis",):
            found[name] = "missing"
        else:
            found[name] = "numpy" if value is getattr(reference, name) and name in names.NUMPYS else "own"
    return found


def coverage(space: str) -> tuple[int, int]:
    """Names that are there, and all that are not on the list of names left out."""
    counted = [state for state in states(space).values() if state != "left out"]
    return sum(state != "missing" for state in counted), len(counted)


def page() -> str:
    lines = [
        "# NumPy's names\n",
        f"Names of NumPy {numpy.__version__} in `sojourn.numpy`. Left out are files, printing, dates, strings, records and "
        "functions on Python objects; their list is `frontend/sojourn/numpy/_names.py`. "
        "[The guide](../guides/numpy.md) shows how the namespace is used.\n",
        "| namespace | names | there | |\n|---|---|---|---|",
    ]
    for space in SPACES:
        there, total = coverage(space)
        lines.append(f"| `{space}` | {total} | {there} | {100 * there / total:.1f} % |")
    for space in SPACES:
        found = states(space)
        for state, title in (
            ("own", "Functions on remote arrays"),
            ("numpy", "NumPy's own objects"),
            ("missing", "Missing"),
        ):
            chosen = [f"`{name}`" for name, each in found.items() if each == state]
            if chosen:
                lines.append(f"\n## {title} ({space})\n\n{', '.join(chosen)}")
    reasons: dict[str, list[str]] = {}
    for name, reason in names.LEFT_OUT.items():
        reasons.setdefault(reason, []).append(f"`{name}`")
    lines.append("\n## Left out\n\n| names | reason |\n|---|---|")
    lines += [f"| {', '.join(sorted(chosen))} | {reason} |" for reason, chosen in reasons.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missing", action="store_true", help="list the missing names")
    if parser.parse_args().missing:
        for space in SPACES:
            for name, state in states(space).items():
                if state == "missing":
                    print(f"{space}.{name}")
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
