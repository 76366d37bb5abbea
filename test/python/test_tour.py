# SPDX-License-Identifier: Apache-2.0
"""The pages of the tour run and print the shown output, and show the C++ sources that they build."""

import os
import pathlib
import re
import shutil
from unittest import mock

import documents_support as documents
import pytest

import sojourn

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOUR = ROOT / "docs/tour"
SOURCES = ROOT / "examples/tour"
PAGES = sorted(TOUR.glob("[0-9]*.md"))
# The folder of each page that compiles C++.
BUILT = {"04-pass": "plugin", "07-cpp": "train"}


def need_compiler():
    missing = [name for name in ("cmake", "c++") if shutil.which(name) is None]
    if missing:
        pytest.skip(
            f"no {' and no '.join(missing)} on the PATH, which this page builds with; tools/setup installs them"
        )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_runs(path, tmp_path):
    if path.stem in BUILT:
        need_compiler()
    sojourn.flush()  # ops that an earlier test left pending would join its first step
    text = path.read_text()
    assert list(documents.blocks(text, "python", "sh"))
    with mock.patch.dict(os.environ, SOJOURN=str(ROOT)):
        assert not documents.run_document(str(path.relative_to(ROOT)), text, tmp_path)


@pytest.mark.parametrize(("page", "folder"), BUILT.items())
def test_a_page_shows_the_sources_that_it_builds(page, folder):
    text = (TOUR / f"{page}.md").read_text()
    shown = {code for _, code, _, _ in documents.blocks(text, "cpp", "cmake")}
    assert shown == {path.read_text() for path in (SOURCES / folder).iterdir()}
    assert f"$SOJOURN/examples/tour/{folder}" in text


def test_the_index_lists_every_page():
    names = [path.name for path in PAGES]
    text = (TOUR / "index.md").read_text()
    assert len(names) == 10 and re.findall(r"\]\((.*?)\)", text) == names
    assert re.findall(r"^(\d\d-.*)$", text, re.MULTILINE) == [path.stem for path in PAGES]
    for path in PAGES:
        title = path.read_text().splitlines()[0].removeprefix("# ")
        assert f"[{title}]({path.name})" in text
        assert "\n## What one would build from it\n" in path.read_text()


def test_the_small_owner_has_forty_lines():
    _, code, _, _ = next(documents.blocks((TOUR / "10-owner.md").read_text(), "python"))
    assert len([line for line in code.splitlines() if line.strip()]) <= 40
