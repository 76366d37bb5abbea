# SPDX-License-Identifier: Apache-2.0
"""Finds the tests that a change reaches, for tools/check --changed; as a command it prints them.

A change of any of these files reaches a test, directly or through other files:
- for a program or library: the files from which ninja compiled or linked it, headers included;
- for a lit test: the test itself, and the programs that it names;
- for a Python test: the modules it imports, the conftest.py above it, and the files and programs that it or such a
  module names (a path from the root, or the name of a built program).
It selects too many tests rather than too few: files of the build, files that no rule knows, and deleted files reach
every test.
"""

import argparse
import ast
import dataclasses
import functools
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
# What decides how tests are built and run.
REACHES_ALL = re.compile(
    r"(.*/)?CMakeLists\.txt|cmake/.*|CMakePresets\.json|pyproject\.toml|test/conftest\.py|tools/(setup|check.*|changed.*)"
    r"|tools/(packages|requirements|sources).*\.txt"
)
# Read by people, or by tools that no test starts; tests that name them are reached all the same.
REACHES_NAMED = re.compile(
    r".*\.md|LICENSE|\.(editorconfig|gitignore|clang-.*)|docs/.*|tools/.*|examples/.*|test/(mutants|edits)/.*"
)
PACKAGES = {"sojourn": "frontend/sojourn", "sojourn_numpy": "owner/numpy"}
_PACKAGED = tuple(f"{folder}/" for folder in PACKAGES.values())
EXTENSION = "_sojourn"


@dataclasses.dataclass(frozen=True)
class Tests:
    """Tests by runner, in order: lit files or folders, GoogleTest programs, files or folders of pytest."""

    lit: list[pathlib.Path]
    programs: list[pathlib.Path]
    pytest: list[pathlib.Path]

    def __contains__(self, name):
        """Of a test by its file from the root, or by its program."""
        paths = {path.relative_to(ROOT).as_posix() for path in [*self.lit, *self.programs, *self.pytest]}
        return name in paths or f"build/bin/{name}" in paths


def everything():
    return Tests([ROOT / "test"], sorted((BUILD / "bin").glob("*-tests")), [ROOT / "test"])


def git(*words, split="\0"):
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"tools/check --changed: git {' '.join(words)}: {done.stderr.strip()}")
    return [name for name in done.stdout.split(split) if name]


def changed_files(base):
    """Files that differ from a revision: edited, new, or deleted."""
    names = git("diff", "--name-only", "--no-renames", "-z", base) + git(
        "ls-files", "-z", "--others", "--exclude-standard"
    )
    return sorted(set(names))


def default_base():
    """The commit at which this branch left main; on main itself, the last commit."""
    for main in ("main", "origin/main"):
        done = subprocess.run(["git", "merge-base", main, "HEAD"], cwd=ROOT, capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.strip()
    raise SystemExit("tools/check --changed: there is no branch main; name a revision: tools/check --changed REVISION")


@functools.cache
def tracked():
    """Existing files that git tracks or would track."""
    names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return [name for name in names if (ROOT / name).is_file()]


def from_root(path):
    """A path of the build as a path from the root, or None if it lies elsewhere."""
    whole = os.path.normpath(path if os.path.isabs(path) else BUILD / path)
    name = os.path.relpath(whole, ROOT)
    return None if name.startswith("..") else name


def ninja(*words):
    done = subprocess.run(["ninja", "-C", str(BUILD), *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit("tools/check --changed needs a build: run tools/setup --tests")
    return done.stdout.splitlines()


# --- Programs and libraries --------------------------------------------------------------------------------------------


@functools.cache
def headers():
    """Object or generated file -> files that its last compilation read."""
    found: dict[str, set[str]] = {}
    current = ""
    for line in ninja("-t", "deps"):
        if line.startswith("    "):
            if name := from_root(line.strip()):
                found[current].add(name)
        elif line:
            current = line.split(":")[0]
            found[current] = set()
    return found


@functools.cache
def targets():
    return frozenset(line.partition(":")[0] for line in ninja("-t", "targets", "all"))


@functools.cache
def programs():
    """Name of each program and shared library of the build -> its path in build/."""
    paths = [path for path in sorted(targets()) if re.fullmatch(r"(?:.*/)?bin/[\w-]+|(?:lib|python)/[\w.-]+\.so", path)]
    return {pathlib.Path(path).name.split(".")[0]: path for path in paths if "CMakeFiles" not in path}


@functools.cache
def commands():
    """Source -> the command that compiles it, from one of its targets."""
    return {
        name: entry["command"]
        for entry in json.loads((BUILD / "compile_commands.json").read_text())
        if (name := from_root(entry["file"]))
    }


@functools.cache
def sources_of_program(name):
    """Files from which a program is built, from the root, and those of programs that its tests start."""
    inputs = ninja("-t", "inputs", programs()[name])
    found: set[str] = set()
    for each in inputs:
        found |= headers().get(each, set())
        if (path := from_root(each)) and not path.startswith("build/"):
            found.add(path)
    # Generated headers stand for what they are generated from.
    generated = {path.removeprefix("build/") for path in found if path.startswith("build/")}
    made = [path for path in generated if path in targets()]
    found |= {path for path in map(from_root, ninja("-t", "inputs", *made) if made else []) if path}
    found = found.union(*(headers().get(path, set()) for path in made))
    started = {pathlib.Path(path).name for path in _defined_paths(found)} & programs().keys() - {name}
    for program in started:
        found |= sources_of_program(program)
    # Files beside a test's sources that are not compiled are its data.
    folders = {str(pathlib.PurePosixPath(path).parent) for path in found if path.startswith("test/")}
    beside = {path for path in tracked() if any(path.startswith(f"{folder}/") for folder in folders)}
    return frozenset(found | {path for path in beside if not path.endswith((".cpp", ".h", ".py"))})


def _defined_paths(sources):
    """Paths into the build that the commands of tests define, such as the path of a program to start."""
    for source in sources:
        if source.startswith("test/"):
            yield from re.findall(r'=\\*"(/[^"\\ ]+/build/bin/[\w-]+)', commands().get(source, ""))


# --- Python ------------------------------------------------------------------------------------------------------------


@functools.cache
def modules():
    """Name of a module outside the packages -> its files."""
    found: dict[str, list[str]] = {}
    for name in tracked():
        if name.endswith(".py") and not name.startswith(_PACKAGED):
            found.setdefault(pathlib.PurePosixPath(name).stem, []).append(name)
    return found


def _imported(text):
    """Full names of the modules that a file imports. A file that does not parse yields none; it is itself a change."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


@functools.cache
def _package(name):
    """Files of a package and of the packages that it imports, and whether it loads the extension."""
    files = {path for path in tracked() if path.startswith(f"{PACKAGES[name]}/") and path.endswith(".py")}
    text = "\n".join((ROOT / path).read_text() for path in sorted(files))
    imported = set(re.findall(r"^\s*(?:from|import) (\w+)", text, re.MULTILINE)) - {name}
    if "sojourn_wire" in imported:
        files |= _schemas()
    loads = EXTENSION in imported
    for other in imported & PACKAGES.keys():
        more, also = _package(other)
        files, loads = files | more, loads or also
    return files, loads


def _schemas():
    return {path for path in tracked() if path.endswith(".fbs")}


@functools.cache
def _folders():
    """Folder from the root -> the files below it."""
    found: dict[str, set[str]] = {}
    for path in tracked():
        for folder in pathlib.PurePosixPath(path).parents:
            found.setdefault(str(folder), set()).add(path)
    return found


def _named_files(text):
    """Files that a text names by their path from the root, or by the path of a folder."""
    joined = {"/".join(re.findall(r'"([^"]+)"', path)) for path in re.findall(r'ROOT((?: / "[\w./-]+")+)', text)}
    words = {word for word in re.findall(r"[\w.-]+(?:/[\w.-]+)*", text) if "/" in word or "." in word}
    for name in joined | words:
        if name in _folders()["."]:
            yield name
        elif name in joined or "/" in name:
            yield from _folders().get(name, ())


def _named_programs(text):
    """Programs of the build that a text starts. A name without a hyphen counts only in a path or in quotes."""
    for name in programs():
        if re.search(rf"(?<![\w-]){name}(?![\w-])" if "-" in name else rf"bin/{name}\b|[\"']{name}[\"']", text):
            yield name


@functools.cache
def _next_to(path):
    """The files that one Python file imports or names, and the programs that it starts."""
    text = (ROOT / path).read_text(errors="replace")
    files, started = set(_named_files(text)), set(_named_programs(text))
    # Modules imported by a computed name are found by the name's last word.
    made = re.findall(r"import_module\([\"'](\w+)|spec_from_file_location\([^,]+, ROOT / \"[\w/]*?(\w+)\.py", text)
    for module in [*_imported(text), *filter(None, (name for pair in made for name in pair))]:
        top = module.partition(".")[0]
        if top in PACKAGES:
            more, loads = _package(top)
            files |= more
            started |= {EXTENSION} if loads else set()
        if top == EXTENSION:
            started.add(EXTENSION)
        if top == "sojourn_wire":
            files |= _schemas()
        if top not in sys.stdlib_module_names:
            files |= {each for part in module.split(".") for each in modules().get(part, [])}
    return files, started


@functools.cache
def sources_of_python(name):
    """Files that a Python file imports or names, directly or through others."""
    found, started, wait = {name}, set(), [name]
    while wait:
        files, more = _next_to(wait.pop())
        started |= more
        # Packages are whole already.
        wait += [path for path in files - found if path.endswith(".py") and not path.startswith(_PACKAGED)]
        found |= files
    for program in started:
        found |= sources_of_program(program)
    return frozenset(found)


def sources_of_pytest(name):
    above = [str(folder / "conftest.py") for folder in pathlib.PurePosixPath(name).parents]
    return set().union(*(sources_of_python(path) for path in [name, *(path for path in above if path in tracked())]))


# --- lit ---------------------------------------------------------------------------------------------------------------


def sources_of_lit(name):
    """The lines of a lit test that name files: only its RUN lines, not FileCheck's patterns."""
    text = "\n".join(re.findall(r"RUN:.*", (ROOT / name).read_text(errors="replace")))
    folder = pathlib.PurePosixPath(name).parent
    beside = {f"{folder}/{path}" for path in re.findall(r"%S/([\w./-]+)", text)}
    found = {name, "test/lit.cfg.py", *_named_files(text), *beside}
    for program in programs():
        if re.search(rf"(?<![\w-]){program}(?![\w-])", text):
            found |= sources_of_program(program)
    return found


# --- The answer --------------------------------------------------------------------------------------------------------


@functools.cache
def made_of():
    """Every test, by its file from the root or its program, with its files."""
    found = {name: sources_of_pytest(name) for name in tracked() if re.fullmatch(r"test/(?:.*/)?test_\w+\.py", name)}
    lits = [name for name in tracked() if re.fullmatch(r"test/.*\.(mlir|test)", name)]
    found |= {name: sources_of_lit(name) for name in lits if not re.search("/(Inputs|golden)/", name)}
    return found | {path.name: sources_of_program(path.name) for path in everything().programs}


def reached_by(files):
    """Tests that these files reach."""
    files = {name for name in files if not name.startswith("build/")}
    known = set().union(*made_of().values())
    there = set(tracked())
    strange = [name for name in files if name not in known and not (name in there and REACHES_NAMED.fullmatch(name))]
    if strange or any(REACHES_ALL.fullmatch(name) for name in files):
        return everything()
    hit = sorted(name for name, sources in made_of().items() if sources & files)
    return Tests(
        [ROOT / name for name in hit if name.endswith((".mlir", ".test"))],
        [path for path in everything().programs if path.name in hit],
        [ROOT / name for name in hit if name.endswith(".py")],
    )


def reached(base):
    """Tests that the changes since a revision reach; prints a summary."""
    files = changed_files(base)
    tests = reached_by(files)
    print(f"[check] {len(files)} files differ from {base[:12]}: {', '.join(files[:6])}{', ...' if files[6:] else ''}")
    if tests == everything():
        print("[check] they reach every test")
    else:
        print(f"[check] they reach {summary(tests)}")
    return tests


def summary(tests):
    return f"{len(tests.lit)} lit tests, {len(tests.programs)} GoogleTest programs, {len(tests.pytest)} files of pytest"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="files from the root (default: those that differ from --base)")
    parser.add_argument(
        "--base", help="a revision (default: the commit at which this branch left main; on main, the last commit)"
    )
    arguments = parser.parse_args()
    files = arguments.files or changed_files(arguments.base or default_base())
    tests = reached_by(files)
    for path in [*tests.lit, *tests.programs, *tests.pytest]:
        print(path.relative_to(ROOT))
    print(summary(tests), file=sys.stderr)


if __name__ == "__main__":
    main()
