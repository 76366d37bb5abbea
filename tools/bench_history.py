# SPDX-License-Identifier: Apache-2.0
"""Ratios of tools/bench by date and commit, in a file that git tracks: docs/bench-history.csv.

One row per network, batch and number of threads. All values are ratios of medians to eager's time in the same run,
because times of different machines and hours are not comparable.
"""

import csv
import datetime
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
HISTORY = ROOT / "docs/bench-history.csv"
RATIOS = ("embedded/eager", "replayed/eager", "looped/eager", "compile/eager")
COLUMNS = ("date", "commit", "processor", "threads", "network", "batch", *RATIOS)


def commit():
    """The commit of this checkout, with a + if files differ from it."""
    words = ["git", "describe", "--always", "--abbrev=10", "--dirty=+", "--exclude=*"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def rows(settings, runs):
    """The results of one run of tools/bench, as rows of the file."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    for run in runs:
        for case in run["cases"]:
            found = [case["ratios"].get(name) for name in RATIOS]
            shown = ["" if ratio is None else f"{ratio:.3f}" for ratio in found]
            yield [today, commit(), settings["processor"], run["threads"], case["network"], case["batch"], *shown]


def append(settings, runs, path=HISTORY):
    """Adds a run at the end. A file with other columns stays unchanged."""
    is_new = not path.exists()
    if not is_new:
        with path.open(newline="") as file:
            if (found := next(csv.reader(file), [])) != list(COLUMNS):
                raise SystemExit(f"bench: {path} has the columns {', '.join(found)}, expected {', '.join(COLUMNS)}")
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows(([list(COLUMNS)] if is_new else []) + list(rows(settings, runs)))
