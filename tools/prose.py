# SPDX-License-Identifier: Apache-2.0
"""Counts hard prose in the texts that people read: documents, help, error texts and public docstrings.

The patterns are those of tools/prose.txt. `--list` shows every find with its place and what to write instead; FILE..
limits it to these files. tools/lint fails above 5 finds per 10,000 words.
"""

import argparse
import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATTERNS = ROOT / "tools/prose.txt"
MAX_PER_10000 = 5
CODE_FOLDERS = ("dialect", "passes", "runtime", "owner", "frontend", "tools")
# Headers that users of the C++ surface read.
PUBLIC_HEADERS = ("frontend/Sojourn.h", "frontend/tables/Table.h", "frontend/ahead/Artifact.h")


def patterns():
    for line in PATTERNS.read_text().splitlines():
        if line and not line.startswith("#"):
            pattern, _, advice = line.partition("\t")
            yield re.compile(pattern), advice


def blank(text, match):
    """Keeps line numbers where a match is removed."""
    return " X " + "\n" * match.count("\n")


def markdown(text):
    """Paragraphs and cells without code."""
    text = re.sub(r"^```.*?^```$", lambda found: blank(text, found[0]), text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", "X", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    line = 1
    for block in re.split(r"(\n\s*\n|\||\n(?=[-*#>] |\d+\. ))", text):
        if block.strip():
            yield line, block
        line += block.count("\n")


def is_text(words):
    return len(re.findall(r"[A-Za-z]{2,}", words)) >= 3


def python(text):
    """Docstrings and the strings of three words or more; names in braces count as one word."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "X" for part in node.values]
            value = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            value = node.value
        else:
            continue
        if is_text(value):
            yield node.lineno, re.sub(r"`[^`\n]*`", "X", value)


LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def cpp(text):
    """String literals, joined where one follows another; `<<` and `+` between them count as a word."""
    text = re.sub(r"^\s*#\s*include.*$|//[^\n]*", "", text, flags=re.MULTILINE)
    text = re.sub(
        r'R"(\w*)\((.*?)\)\1"',
        lambda found: '"' + found[2].replace("\n", " ").replace('"', "'") + '"',
        text,
        flags=re.DOTALL,
    )
    at, joined, last = None, "", 0
    for match in LITERAL.finditer(text):
        between = text[last : match.start()]
        if at is not None and re.fullmatch(r"[^;{}]*", between) and between.count("\n") <= 2:
            joined += ("" if not between.strip() else " X ") + match[1]
        else:
            if at is not None and is_text(joined):
                yield at, joined
            at, joined = text.count("\n", 0, match.start()) + 1, match[1]
        last = match.end()
    if at is not None and is_text(joined):
        yield at, joined


def header(text):
    for match in re.finditer(r"(?:^[ \t]*///[^\n]*\n)+", text, flags=re.MULTILINE):
        yield text.count("\n", 0, match.start()) + 1, re.sub(r"^\s*/// ?", "", match[0], flags=re.MULTILINE)


def records(text):
    """Summaries and descriptions of ops and passes."""
    for match in re.finditer(r"\[\{(.*?)\}\]|summary = \"([^\"]*)\"", text, flags=re.DOTALL):
        yield text.count("\n", 0, match.start()) + 1, re.sub(r"`[^`\n]*`", "X", match[1] or match[2])


def readers(path):
    """How to read a file's prose, or nothing where users do not read it."""
    name = path.relative_to(ROOT).as_posix()
    if path.suffix == ".md" and not name.startswith("test/"):
        return [markdown]
    if name == "test/README.md":
        return [markdown]
    if name.startswith(("frontend/sojourn/", "tools/", "examples/")) and path.suffix == ".py":
        return [python]
    if name.startswith("test/python/errors_") and path.suffix == ".py":
        return [python]
    if path.suffix in {".cpp", ".h"} and name.startswith(CODE_FOLDERS):
        return [cpp, header] if name in PUBLIC_HEADERS else [cpp]
    if path.suffix == ".td":
        return [records]
    return []


def sentences(text):
    return re.split(r"(?<=[.?!])\s+", " ".join(text.split()))


def finds(path, known):
    """Words of a file, and (line, match, advice, sentence) of its finds."""
    words, found = 0, []
    text = path.read_text(errors="replace")
    for reader in readers(path):
        for line, block in reader(text):
            words += len(block.split())
            for sentence in sentences(block):
                if sentence.rstrip("*_)\"' ").endswith("?"):
                    continue
                clean = re.sub(r"[*_]{1,2}", "", sentence)
                for pattern, advice in known:
                    found += [(line, match[0], advice, clean) for match in pattern.finditer(clean)]
    return words, found


def count(files):
    known = list(patterns())
    return {path: finds(path, known) for path in files if readers(path)}


def check(files):
    """For tools/lint: problems, if the texts are above the limit."""
    counted = count(files)
    words, hits = sum(words for words, _ in counted.values()), sum(len(found) for _, found in counted.values())
    if hits * 10000 > MAX_PER_10000 * words:
        worst = sorted(counted, key=lambda path: -len(counted[path][1]))[:5]
        names = ", ".join(f"{path.relative_to(ROOT)} ({len(counted[path][1])})" for path in worst)
        yield (
            f"hard prose: {hits * 10000 / words:.1f} finds per 10,000 words, at most {MAX_PER_10000}: {names}; "
            "tools/prose.py --list shows them"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("--list", action="store_true", help="every find, with its sentence")
    arguments = parser.parse_args()
    if arguments.files:
        files = arguments.files
    else:
        import subprocess

        names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
            "\n"
        )
        files = [ROOT / name for name in names if name and (ROOT / name).is_file()]
    counted = count(files)
    for path, (words, found) in sorted(counted.items(), key=lambda item: len(item[1][1])):
        if found:
            print(f"{len(found):5} in {words:6} words  {path.relative_to(ROOT)}")
        if arguments.list:
            for line, match, advice, sentence in found:
                print(f"      {line}: '{match.strip()}' ({advice})\n          {sentence[:240]}")
    words, hits = sum(words for words, _ in counted.values()), sum(len(found) for _, found in counted.values())
    print(f"{hits} finds in {words} words: {hits * 10000 / max(words, 1):.1f} per 10,000, at most {MAX_PER_10000}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
