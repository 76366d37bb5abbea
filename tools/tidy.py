# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over a few files, with .clang-tidy and the build's compile commands; for `tools/lint --tidy`."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess

import layers

TOOL = "clang-tidy-22"  # of the LLVM that the build links


def changed(root):
    """C++ files that differ from the commit at which this branch left main, including untracked ones."""

    def lines(*words):
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
        return done.stdout.split("\n") if done.returncode == 0 else []

    base = next(filter(None, lines("merge-base", "main", "HEAD")), "HEAD")
    names = lines("diff", "--name-only", "--diff-filter=d", base) + lines("ls-files", "--others", "--exclude-standard")
    return sorted({name for name in names if name.endswith((".cpp", ".h"))})


def units_of(name, compiled, root):
    """The units to compile for a file: itself, a header's own source, else a source that includes it."""
    if name in compiled:
        return [name]
    if pathlib.PurePosixPath(name).suffix != ".h":
        return []
    own = str(pathlib.PurePosixPath(name).with_suffix(".cpp"))
    if own in compiled:
        return [own]
    return [each for each in sorted(compiled) if name in (header for _, header in layers.includes(root / each))][:1]


def main(names, root, report=None):
    """Returns 1 if clang-tidy has finds, else 0, also if the tool is missing.

    `report`: a file for the counts of units, as tools/check reads them.
    """
    counts = look_at(names, root)
    if report is not None:
        report.write_text(json.dumps(counts))
    return 1 if counts["failed"] else 0


def look_at(names, root):
    """Numbers of units without finds and with finds; one skipped if the tool or the build is missing."""
    tool, commands = shutil.which(TOOL), root / "build/compile_commands.json"
    if tool is None:
        print(f"tidy: skipped: {TOOL} is not installed; tools/setup --all installs it")
        return {"passed": 0, "failed": 0, "skipped": 1}
    if not commands.exists():
        print("tidy: skipped: build/compile_commands.json is missing; tools/setup builds and writes it")
        return {"passed": 0, "failed": 0, "skipped": 1}
    paths = [pathlib.Path(entry["file"]) for entry in json.loads(commands.read_text())]
    compiled = {path.relative_to(root).as_posix() for path in paths if path.is_relative_to(root) and path.exists()}
    given = [pathlib.Path(os.path.relpath(pathlib.Path(name).resolve(), root)).as_posix() for name in names]
    names = given or changed(root)
    wanted: dict[str, None] = {}
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name in names:
        units = units_of(name, compiled, root)
        wanted.update(dict.fromkeys(units))
        if not units:
            print(f"tidy: {name}: skipped: no command in build/compile_commands.json compiles it")

    def look(unit):
        # GCC's precompiled headers lie beside those that they were made from, and clang reads only the latter.
        command = [tool, "--quiet", "-p", root / "build", "--extra-arg=-Wno-ignored-gch", root / unit]
        done = subprocess.run([str(word) for word in command], cwd=root, capture_output=True, text=True)
        lines = {line.replace(f"{root}/", "") for line in done.stdout.splitlines()}
        # Of other files that the unit includes only what keeps clang from reading them.
        said = sorted(
            line
            for line in lines
            if ": error: " in line or (": warning: " in line and line.partition(":")[0] in {*names, unit})
        )
        return unit, said, done

    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for unit, said, done in pool.map(look, wanted):
            verdict = f"{len(said)} found" if said else "ok" if done.returncode == 0 else "FAILED"
            print(f"tidy: {unit}: {verdict}", flush=True)
            for line in said or (done.stderr.strip().splitlines()[-5:] if done.returncode else []):
                print(f"  {line}")
            counts["failed" if said or done.returncode else "passed"] += 1
    print(f"tidy: {len(wanted)} units, {counts['failed']} with finds")
    return counts
