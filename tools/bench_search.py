# SPDX-License-Identifier: Apache-2.0
"""The time of a search over many tables of one owner: `.venv/bin/python tools/bench_search.py`."""

import argparse
import pathlib
import statistics
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "build/python"))

import sojourn

WARDS = ("icu", "surgery", "children", "heart")
SEARCHES: dict[str, dict] = {
    "a word of one table": {"text": "patients_777 pressure"},
    "a tag of a quarter": {"tag": "icu", "text": "_77"},
    "columns of all, few words": {"columns": ["age", "bmi"], "text": "ward_99"},
    "nothing": {"text": "there is no such word"},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=10_000, help="tables of the owner (%(default)s)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of each search (%(default)s)")
    given = parser.parse_args()
    with sojourn.local() as owner:
        columns = {name: torch.arange(2.0) for name in ("age", "bmi", "dose", "pulse")}
        for index in range(given.tables):
            name = f"patients_{index}"
            owner._embedded.register(name, columns, "open")
            owner._embedded.describe(name, f"Blood pressure, hourly, ward_{index % 100}", [WARDS[index % 4]])
            if index % 500 == 0:
                print(f"\r{index} of {given.tables} tables", end="", file=sys.stderr)
        print(file=sys.stderr)
        times: dict[str, list] = {what: [] for what in SEARCHES}
        for _ in range(given.rounds):
            for what, search in SEARCHES.items():
                begin = time.perf_counter()
                found = sojourn.search(owner, **search)
                times[what].append((time.perf_counter() - begin, len(found)))
        for what, taken in times.items():
            print(f"{what:28} {1e3 * statistics.median(t for t, _ in taken):8.2f} ms   {taken[0][1]} found")


if __name__ == "__main__":
    main()
