# SPDX-License-Identifier: Apache-2.0
"""The documentation site: it builds without a warning, has every page, and its links lead to pages and anchors."""

import html.parser
import pathlib
import subprocess
import sys
import urllib.parse

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import make_docs  # noqa: E402
import prose  # noqa: E402

pytest.importorskip("sphinx", reason="tools/setup --docs installs it")


class Page(html.parser.HTMLParser):
    """Links, anchors and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.text = [], set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        self.anchors |= {attributes.get("id"), attributes.get("name")} - {None}

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def site():
    """Path -> Page, of a whole build."""
    command = [sys.executable, ROOT / "tools/make_docs.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path: Page(path.read_text()) for path in make_docs.HTML.rglob("*.html")}


def test_every_document_is_a_page(site):
    names = [
        name for name in make_docs.tracked_pages() + make_docs.MADE if name.endswith(".md") and name != "README.md"
    ]
    assert len(names) > 40
    for name in names:
        assert (make_docs.HTML / name).with_suffix(".html") in site, name


def test_links_lead_somewhere(site):
    count = 0
    for path, page in site.items():
        for link in page.links:
            target, _, anchor = link.partition("#")
            if "://" in target or target.startswith(("mailto:", "data:")):
                continue
            place = (path.parent / urllib.parse.unquote(target)).resolve() if target else path
            assert place.exists(), f"{path.relative_to(make_docs.HTML)} links to {link}"
            if anchor and place in site:
                assert urllib.parse.unquote(anchor) in site[place].anchors, (
                    f"{path.relative_to(make_docs.HTML)}: {link}"
                )
            count += 1
    assert count > 1000


def test_the_reference_has_the_public_names(site):
    import sojourn

    python = site[make_docs.HTML / "docs/reference/python.html"]
    for name in sojourn.__all__:
        assert f"sojourn.{name}" in python.anchors or f"sojourn.errors.{name}" in python.anchors, name
    cpp = site[make_docs.HTML / "docs/reference/cpp.html"]
    assert any("Owner" in anchor for anchor in cpp.anchors) and "uploads" in cpp.text
    commands = site[make_docs.HTML / "docs/reference/commands.html"].text
    for text in ("sojourn-owner budget grant", "--rows-are-subjects", "tools/check", "sojourn keygen"):
        assert text in commands, text
    limits = site[make_docs.HTML / "docs/reference/limits.html"].text
    for text in ("steps per message", "4,096", "sessions", "1 Gi"):
        assert text.lower() in limits.lower(), text
    errors = site[make_docs.HTML / "docs/reference/errors.html"].text
    assert "client 'local' has no budget" in errors


def test_hard_prose_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    easy = tmp_path / "README.md"
    easy.write_text("An existing script needs only a different device. What does it cost? `of its own` is code.\n")
    words, found = prose.finds(easy, list(prose.patterns()))
    assert words > 10 and not found
    hard = tmp_path / "CHANGELOG.md"
    hard.write_text(
        "What nobody declared a step ends. A time that is none is refused.\n\n"
        "| a cell: what it reads |\n\nA price of its own, and what follows.\n"
    )
    lines = [line for line, *_ in prose.finds(hard, list(prose.patterns()))[1]]
    assert lines.count(1) == 3 and lines.count(3) == 1 and lines.count(5) == 2
    assert list(prose.check([hard])) and not list(prose.check([easy]))
