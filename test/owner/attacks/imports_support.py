# SPDX-License-Identifier: Apache-2.0
"""Files that a data owner is given to import, and the command that imports them."""

import os
import pathlib
import re
import signal
import subprocess
import time

import numpy as np
import pyarrow
import pyarrow.feather
import pyarrow.parquet

ROOT = pathlib.Path(__file__).resolve().parents[3]
COMMAND = ROOT / "build/bin/sojourn-owner"
FORMATS = ["csv", "tsv", "parquet", "arrow", "feather", "npz"]

# No text of a row is a declared category, so none may be shown.
TERMS = ["--rows-are-subjects", "--bound=x=0:1", "--categories=who=a,b", "--fill=who=a", "--fill=x=0.5"]


def words(file, store, name="t", *more) -> list[str]:
    return [str(word) for word in (COMMAND, "import", file, "--name", name, "--store", store, *more)]


def bring(file, store, *more, name="t", code=1, seconds=120) -> str:
    """Imports a file; all that was shown."""
    done = subprocess.run(words(file, store, name, *more), capture_output=True, timeout=seconds)
    shown = (done.stdout + done.stderr).decode(errors="backslashreplace")
    assert done.returncode == code, (done.returncode, shown)
    return shown


def tool(*given, code=0) -> str:
    done = subprocess.run([str(word) for word in (COMMAND, *given)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def text_file(rows, delimiter=",") -> bytes:
    return "".join(delimiter.join(map(str, row)) + "\n" for row in rows).encode()


def table_file(kind: str, path: pathlib.Path, canary: str, count: int, generator) -> None:
    """Columns `who`, a text with the canary in each row, and `x`, numbers; an .npz has its first bytes as a number."""
    x, who = generator.uniform(0, 1, count), [f"{canary}-{row}" for row in range(count)]
    table = pyarrow.table({"who": who, "x": x})
    if kind in ("csv", "tsv"):
        path.write_bytes(text_file([("who", "x"), *zip(who, x)], "\t" if kind == "tsv" else ","))
    elif kind == "parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=count // 2)
    elif kind == "feather":
        pyarrow.feather.write_feather(table, path, compression="zstd")
    elif kind == "arrow":
        with pyarrow.ipc.new_file(path, table.schema) as file:
            file.write_table(table, max_chunksize=count // 2)
    else:
        np.savez_compressed(path, x=x, who=np.full(count, int.from_bytes(canary[:8].encode(), "little")))


def left(store: pathlib.Path) -> set[str]:
    """Files of tables."""
    return set(os.listdir(store / "datasets")) if (store / "datasets").exists() else set()


def large_csv(path: pathlib.Path, megabytes: int) -> pathlib.Path:
    """Takes seconds to read."""
    with path.open("wb") as file:
        file.write(b"x,y\n")
        for _ in range(megabytes):
            file.write(b"0.12345,0.25\n" * (2**20 // 13))
    return path


def child_of(process: subprocess.Popen, seconds=60) -> int:
    """The process that reads the file."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        try:
            found = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        except OSError:
            break
        if found:
            return int(found[0])
        time.sleep(0.001)
    raise AssertionError(f"no process reads the file; the import ended with {process.poll()}")


def started(child: int, seconds=30) -> None:
    """Waits until it is under its limits."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        limits = pathlib.Path(f"/proc/{child}/limits").read_text()
        if re.search(r"Max open files +256 ", limits):
            return
        time.sleep(0.001)
    raise AssertionError(limits)


SIGNALS = {int(each): each.name for each in signal.Signals}
