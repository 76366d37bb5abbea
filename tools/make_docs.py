#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the documentation site from docs/, the READMEs of the folders and the built product.

    tools/docs             build/docs/html/index.html
    tools/docs --open      and show it in a browser
    tools/docs --quick     without the pages that run the product (errors, coverage, promotion, NumPy)

Warnings are errors, broken links among them. Generated pages (commands, limits, errors, promotion, coverage, NumPy's names) are made
anew each time; the pages of operators and libraries show the results that tools/sweep.py and tools/libraries have kept.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import webbrowser

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
SITE = BUILD / "docs"
SOURCE, HTML = SITE / "source", SITE / "html"
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "dialect/STATUS.md"]
COMMANDS = ["sojourn", "sojourn-owner", "sojourn-opt", "sojourn-translate"]
SCRIPTS = [
    f"tools/{name}"
    for name in ("setup", "demo", "check", "bench", "docs", "lint", "libraries", "rules", "mutants", "fuzz")
]
# Pages that are made, not written.
MADE = [
    f"docs/reference/{name}.md"
    for name in ("commands", "limits", "cpp", "errors", "coverage", "operators", "libraries", "promotion", "numpy")
]
LIMITS = {
    "Types and values": "dialect/Bounds.h",
    "Categories of tables": "runtime/wire/Meaning.h",
    "Programs and runs": "runtime/Limits.h",
    "Owners": "owner/Limits.h",
}
HEADERS = {
    "Owners, tables, steps": "frontend/Sojourn.h",
    "Tables and batches": "frontend/tables/Table.h",
    "Artifacts": "frontend/ahead/Artifact.h",
}


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"docs: {command[0]} failed:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


def tracked_pages():
    names = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "docs", "*README.md").split()
    return [name for name in dict.fromkeys([*names, *PAGES]) if (ROOT / name).is_file()]


LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def linked(text, name, pages):
    """Links to folders lead to their README; files that are no pages are named without a link."""

    def replace(match):
        label, target = match[1], match[2]
        path = target.partition("#")[0]
        if "://" in target or not path:
            return match[0]
        place = (ROOT / name).parent / path
        readme = place / "README.md"
        if place.is_dir() and readme.is_file():
            relative = os.path.relpath(readme, (ROOT / name).parent)
            return f"[{label}]({relative})"
        there = os.path.relpath(place, ROOT)
        is_page = there in pages or (SOURCE / there).exists()
        return match[0] if is_page or not place.exists() else label

    parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else LINK.sub(replace, part) for part in parts)


def write(name, text):
    path = SOURCE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def stage(pages):
    """Copies the pages. Each keeps its place in the tree, so that relative links hold."""
    for name in pages:
        path = ROOT / name
        if path.suffix == ".md":
            write(name, linked(path.read_text(), name, pages))
        else:
            (SOURCE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, SOURCE / name)


def help_of(command, words=()):
    environment = dict(os.environ, SOJOURN_STORE="$HOME/.local/share/sojourn")
    return run(*command, *words, "--help", env=environment).rstrip()


def subcommands(text):
    _, _, below = text.partition("\nSubcommands:\n")
    return re.findall(r"^  (\S+)", below.partition("\n\n")[0], re.MULTILINE)


def commands():
    """Every command with its help, subcommands included."""
    text = "# Commands\n\n"
    for name in COMMANDS[:2]:
        program = [BUILD / "bin" / name]
        main = help_of(program)
        text += f"## {name}\n\n```text\n{main}\n```\n\n"
        for first in subcommands(main):
            below = help_of(program, [first])
            text += f"### {name} {first}\n\n```text\n{below}\n```\n\n"
            for second in subcommands(below):
                text += f"#### {name} {first} {second}\n\n```text\n{help_of(program, [first, second])}\n```\n\n"
    for name in COMMANDS[2:]:
        # MLIR's own options fill pages.
        own = [line for line in help_of([BUILD / "bin" / name]).splitlines() if "sojourn" in line.lower()]
        text += (
            f"## {name}\n\n```text\n" + "\n".join(own) + f"\n```\n\n`{name} --help` lists MLIR's own options, too.\n\n"
        )
    for name in SCRIPTS:
        text += f"## {name}\n\n```text\n{help_of([ROOT / name])}\n```\n\n"
    return text


def number(expression, known):
    """A bound as a reader writes it; `known`: the constants before it."""
    value = known.get(expression, expression).replace("'", "")
    value = re.sub(r"\b(?:size_t|int64_t|uint32_t)\{(\d+)\}", r"\1", value)
    value = re.sub(r"(?<=\d)u\b", "", value)
    if not re.fullmatch(r"[\d\s<*+()-]+", value):
        return f"`{expression}`"
    found = eval(value)  # digits and shifts alone
    for unit, name in ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi")):
        if found >= unit and found % unit == 0:
            return f"{found // unit} {name}"
    return f"{found:,}"


def limits():
    """The bounds in the headers, with their comments."""
    text = "# Limits\n\nAn input that exceeds a limit is refused with an error that names the limit.\n"
    pattern = re.compile(
        r"((?:^[ \t]*///[^\n]*\n)*)^[ \t]*(?:inline constexpr )?(?:size_t|u?int\d+_t|unsigned) (\w+) = ([^;]+);",
        re.MULTILINE,
    )
    known: dict[str, str] = {}
    for title, header in LIMITS.items():
        text += f"\n## {title}\n\n| limit | value | meaning |\n|---|---|---|\n"
        for comment, name, value in pattern.findall((ROOT / header).read_text()):
            meaning = " ".join(re.sub(r"^\s*/// ?", "", line) for line in comment.splitlines())
            words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.removeprefix("k")).lower()
            text += f"| {words} | {number(value, known)} | {meaning} |\n"
            known[name] = value
    return text


def cpp():
    """One directive for all headers: the namespaces that they share would else be declared several times."""
    text = "# C++ API\n\nThe headers that users include; `sojourn::frontend` is internal.\n\n| header | content |\n|---|---|\n"
    for title, header in HEADERS.items():
        text += f"| `{header}` | {title.lower()} |\n"
    return text + "\n```{doxygennamespace} sojourn\n:project: sojourn\n:members:\n:content-only:\n```\n"


def doxygen():
    folder = SITE / "doxygen"
    folder.mkdir(parents=True, exist_ok=True)
    inputs = " ".join(str(ROOT / header) for header in HEADERS.values())
    settings = f"""
        PROJECT_NAME = sojourn
        OUTPUT_DIRECTORY = {folder}
        INPUT = {inputs}
        STRIP_FROM_PATH = {ROOT}
        FULL_PATH_NAMES = YES
        GENERATE_HTML = NO
        GENERATE_LATEX = NO
        GENERATE_XML = YES
        XML_PROGRAMLISTING = NO
        EXTRACT_ALL = YES
        JAVADOC_AUTOBRIEF = YES
        QUIET = YES
        WARNINGS = NO
    """
    (folder / "Doxyfile").write_text(settings)
    run("doxygen", folder / "Doxyfile")


def generated(quick):
    write("docs/reference/commands.md", commands())
    write("docs/reference/limits.md", limits())
    write("docs/reference/cpp.md", cpp())
    python = [sys.executable]
    for name, title, command in (
        ("errors", "Errors", [*python, "tools/errors.py"]),
        ("coverage", "Operators of ATen", [*python, "tools/coverage.py"]),
        ("operators", "PyTorch's own samples", [*python, "tools/sweep.py", "--report"]),
        ("libraries", "Libraries", [*python, "tools/libraries.py", "--report"]),
        ("promotion", "Type promotion", [*python, "test/passes/promote_grid.py", "differences"]),
        ("numpy", "NumPy's names", [*python, "tools/numpy_names.py"]),
    ):
        page = f"# {title}\n\nThis page is left out of a quick build; run `tools/docs`.\n"
        if not quick:
            environment = dict(os.environ, PATH=f"{BUILD / 'bin'}{os.pathsep}{os.environ['PATH']}")
            page = run(*command, env=environment)
        write(f"docs/reference/{name}.md", page)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--open", action="store_true", help="show the site in a browser")
    parser.add_argument("--quick", action="store_true", help="without the pages that run the product")
    arguments = parser.parse_args()
    begin = time.monotonic()
    shutil.rmtree(SOURCE, ignore_errors=True)
    pages = tracked_pages() + MADE
    generated(arguments.quick)
    stage([name for name in pages if (ROOT / name).is_file()])
    doxygen()
    # -E: what Sphinx keeps of an earlier build grows with each one, to gigabytes after some.
    command = [sys.executable, "-m", "sphinx", "-E", "-b", "html", "-W", "--keep-going", "-q", "-j", "auto"]
    done = subprocess.run([*command, "-c", ROOT / "docs", SOURCE, HTML], cwd=ROOT)
    if done.returncode != 0:
        return 1
    (HTML / "index.html").write_text('<!doctype html><meta http-equiv="refresh" content="0; url=docs/index.html">\n')
    print(f"docs: {HTML / 'index.html'} ({time.monotonic() - begin:.0f} s)")
    if arguments.open:
        webbrowser.open((HTML / "index.html").as_uri())
    return 0


if __name__ == "__main__":
    sys.exit(main())
