# SPDX-License-Identifier: Apache-2.0
"""People with text, categories, dates and missing entries: as Python's values, as files, as terms of a command line."""

import datetime
import pathlib
import subprocess

import pyarrow
import pyarrow.feather
import pyarrow.parquet

import sojourn

ROOT = pathlib.Path(__file__).resolve().parents[2]
DAY = datetime.date(1970, 1, 1)
ARMS = ["placebo", "low", "high", "other"]


def tool(*words, code=0):
    words = [ROOT / "build/bin/sojourn-owner", *map(str, words)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def people(rng, rows=40):
    """Columns with missing entries, as Python's values."""

    def gaps(values):
        return [None if rng.random() < 0.2 else value for value in values]

    start = datetime.datetime(2023, 5, 1)
    return {
        "arm": [*gaps(rng.choice(ARMS[:3]) for _ in range(rows - 4)), "high", "low", "placebo", None],
        "ward": [*gaps(rng.choice([3, 5, 7]) for _ in range(rows - 4)), 3, 5, 7, None],
        "age": [*gaps(rng.randrange(18, 90) for _ in range(rows - 1)), 33],
        "visit": [*gaps(DAY + datetime.timedelta(days=rng.randrange(-9000, 19000)) for _ in range(rows - 1)), DAY],
        "seen": [*gaps(start + datetime.timedelta(seconds=rng.randrange(10**7)) for _ in range(rows - 1)), start],
        "dose": [rng.uniform(0, 5) for _ in range(rows)],
    }


FILLS = {
    "arm": "low", "ward": 5, "age": 40, "visit": datetime.date(2000, 2, 29),
    "seen": datetime.datetime(2023, 6, 1, 12, 30),
}  # fmt: skip
CATEGORIES = {"arm": ARMS, "ward": [7, 5, 3]}
BOUNDS = {
    "age": (20, 80), "dose": (0, 5), "visit": (datetime.date(1960, 1, 1), datetime.date(2020, 12, 31)),
    "seen": (datetime.datetime(2023, 1, 1), datetime.datetime(2023, 8, 1, 18, 15)),
}  # fmt: skip


def csv_text(data):
    """As programs write it: nothing for a missing entry."""
    rows = zip(*data.values())
    cell = {None: ""}
    return "\n".join([",".join(data), *(",".join(cell.get(each, str(each)) for each in row) for row in rows)]) + "\n"


def arrow_table(data):
    """With a dictionary for the texts, large texts, and times of another unit."""
    table = pyarrow.table(data)
    arm = pyarrow.chunked_array([
        pyarrow.array(data["arm"][:9]).dictionary_encode(), pyarrow.array(data["arm"][9:]).dictionary_encode()
    ])  # fmt: skip
    seen = pyarrow.array(data["seen"], pyarrow.timestamp("ns", tz="UTC"))
    return table.set_column(0, "arm", arm).set_column(4, "seen", pyarrow.chunked_array([seen]))


def save(kind, data, folder):
    path = folder / f"people.{kind}"
    if kind in ("csv", "tsv"):
        path.write_text(csv_text(data).replace(",", "," if kind == "csv" else "\t"))
    elif kind == "parquet":
        pyarrow.parquet.write_table(arrow_table(data), path)
    else:
        pyarrow.feather.write_feather(arrow_table(data), path, compression="uncompressed")
    return path


def options(bounds=BOUNDS, fills=FILLS, categories=CATEGORIES):
    words = []
    for column, (lower, upper) in bounds.items():
        words += ["--bound", f"{column}={getattr(lower, 'isoformat', lower.__str__)()}:{upper}"]
    for column, fill in fills.items():
        words += ["--fill", f"{column}={fill}"]
    for column, names in categories.items():
        words += ["--categories", f"{column}={','.join(map(str, names))}"]
    return words


def described(table):
    return [tuple(column) for column in table.columns]


def read(table):
    return {
        name: values.tolist()
        for name, values in sojourn.publish({c.name: table[c.name] for c in table.columns}).items()
    }


def same(found, expected):
    assert described(found) == described(expected)
    assert read(found) == read(expected)


def bring(path, name, store, *words, code=0):
    """An open table by the command."""
    return tool("import", path, "--name", name, "--policy", "open", "--store", store, *words, code=code)
