# SPDX-License-Identifier: Apache-2.0
"""The cost of an edit: for each .td file of dialect/ and for the headers with the largest reach, the number of units
that are compiled again, and their processor time.

Counting needs no compilation: it uses the units that the last build (tools/setup --tests) compiled from the file, or
from TableGen's output for it, directly or through a precompiled header. With --build each file is really edited (a
line of an op's description, or a comment), built without ccache, and restored.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def dependencies(build):
    """object -> headers that it was compiled with, including those of its precompiled header."""
    text = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    direct: dict[str, set[str]] = {}
    current = ""
    for line in text.splitlines():
        if line.startswith("    "):
            path = line.strip()
            direct[current].add(os.path.relpath(path, build) if os.path.isabs(path) else os.path.normpath(path))
        elif line:
            current = line.split(":")[0]
            direct[current] = set()
    headers = {name: found for name, found in direct.items() if name.endswith(".gch")}
    for command in json.loads((build / "compile_commands.json").read_text()):
        included = re.search(r"-include (\S*cmake_pch\.hxx)", command["command"])
        written = re.search(r" -o (\S+)", command["command"])
        output = written[1] if written else ""
        if included and output in direct:
            header = os.path.relpath(included[1] + ".gch", build)
            direct[output] |= headers.get(header, set()) | {header}
    return direct


def generated_from(build, record, direct):
    """Files that TableGen generates from a .td file, directly or through includes."""
    name = os.path.relpath(record, build)
    included = {output for output, used in direct.items() if output.endswith(".inc") and name in used}
    text = subprocess.run(["ninja", "-C", build, "-t", "query", record], capture_output=True, text=True).stdout
    return included | {name for name in re.findall(r"\S+\.inc\b", text) if not os.path.isabs(name)}


def headers():
    """Ours: neither generated ones nor those of packages in the folder."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.h"]
    names = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / name for name in names]


def largest_heads(build, direct, number):
    """Our headers that reach the most units."""
    units: dict[str, int] = {}
    for used in (found for name, found in direct.items() if not name.endswith((".inc", ".gch"))):
        for name in used:
            units[name] = units.get(name, 0) + 1
    ours = {os.path.relpath(path, build): path for path in headers()}
    return [ours[name] for name in sorted(units, key=lambda name: -units[name]) if name in ours][:number]


def count(build, record, direct):
    is_header = record.suffix == ".h"
    outputs = {os.path.relpath(record, build)} if is_header else generated_from(build, record, direct)
    return sorted(name for name, used in direct.items() if used & outputs and not name.endswith(".inc"))


def build_cost(build, record):
    """Compiled units, processor seconds and seconds of a real edit."""
    before = record.read_text()
    edited = re.sub(r"(let description = \[\{\n)", r"\1    Measured.\n", before, count=1)
    if edited == before:
        edited = f"// Measured.\n{before}"
    environment = dict(os.environ, CCACHE_DISABLE="1")
    try:
        record.write_text(edited)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin = time.monotonic()
        done = subprocess.run(
            ["ninja", "-C", build, "-v"], capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL
        )
        seconds = time.monotonic() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            raise SystemExit(done.stdout[-4000:])
    finally:
        record.write_text(before)
    units = len(re.findall(r" -o \S+\.(?:o|gch)\b", done.stdout))
    return units, after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-folder", type=pathlib.Path, default=ROOT / "build", help="(default: build)")
    parser.add_argument("--build", action="store_true", help="really edit and build; minutes per file")
    parser.add_argument("--heads", type=int, default=12, help="number of headers (default: 12)")
    parser.add_argument("files", nargs="*", help="files from the root (default: all .td files and the --heads headers)")
    arguments = parser.parse_args()
    build = arguments.build_folder.resolve()
    direct = dependencies(build)
    records = [ROOT / name for name in arguments.files]
    for record in records:
        if not record.is_file() or record.suffix not in {".td", ".h"}:
            parser.error(f"{record.relative_to(ROOT)} is not a .td file or header of the repository")
    records = records or sorted((ROOT / "dialect").glob("*.td")) + largest_heads(build, direct, arguments.heads)
    print(f"{'file':<34}{'units':>7}" + (f"{'compiled':>10}{'CPU s':>8}{'s':>7}" if arguments.build else ""))
    for record in records:
        units = count(build, record, direct)
        line = f"{record.relative_to(ROOT).as_posix():<34}{len(units):>7}"
        if arguments.build:
            compiled, cpu, seconds = build_cost(build, record)
            line += f"{compiled:>10}{cpu:>8.0f}{seconds:>7.0f}"
        print(line, flush=True)
    print(f"of {sum(not name.endswith('.inc') for name in direct)} units, precompiled headers among them")
    if arguments.build:
        print("the files are restored; the next build compiles the units of the last one again")


if __name__ == "__main__":
    main()
