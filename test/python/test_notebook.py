# SPDX-License-Identifier: Apache-2.0
"""Objects in notebooks: their HTML is well formed, escaped, and says what their text says."""

import html.parser
import re

import pytest
import torch
from private_support import make_table

import sojourn

EVIL = "<b>&\"'</b>"


class Reader(html.parser.HTMLParser):
    """The text of a document whose tags are closed in order; each other tag fails."""

    def __init__(self, text):
        super().__init__()
        self.open, self.cells = [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert tag in ("p", "b", "table", "tr", "th", "td") and not attrs, (tag, attrs)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.cells.append(data)


def read(shown):
    return Reader(shown._repr_html_()).cells


@pytest.fixture
def hospital(rng):
    with sojourn.local() as owner:
        yield owner, make_table(owner, {"a": torch.rand(90)}, {"a": (0, 1)}, name="people", epsilon=4.0)


def test_budgets(hospital):
    owner, table = hospital
    sojourn.publish(table["a"].mean(), epsilon=0.5)
    cells = read(owner.budget("people"))
    assert cells[0] == "Budget on 'people'" and cells[1:] == [
        "epsilon", "delta", "granted", "4", "1e-05", "spent", "0.5", "left", "3.5",
    ]  # fmt: skip
    assert "".join(read(sojourn.Budget(EVIL, False, 0.0, 0.0, 0.0))) == f"no budget on '{EVIL}'"
    assert read(sojourn.Budget(EVIL, True, 1.0, 0.5, 1.0))[0] == f"Budget on '{EVIL}'"


def test_owners(hospital):
    owner, _ = hospital
    cells = read(owner)
    assert cells == ["Owner at local", "device", str(owner.device), "account", "local", "key", owner.key]
    owner.address = EVIL
    assert read(owner)[0] == f"Owner at {EVIL}"


def test_quotes(hospital):
    _, table = hospital
    quote = sojourn.quote(table["a"].mean(), epsilon=0.5)
    cells = read(quote)
    assert cells[cells.index("epsilon") + 1] == "0.5" and f"{quote.stderr:.4g}" in cells and quote.noise in cells
    assert "unknown" in read(sojourn.ReleaseQuote(1.0, 0.1, None, 1, EVIL, (EVIL,))) and EVIL in read(
        sojourn.ReleaseQuote(1.0, 0.1, None, 1, "x", (EVIL,))
    )
    free = sojourn.quote(torch.ones(2), epsilon=0.5)
    assert str(free) in read(free)
    run = sojourn.privacy(table, epsilon=1, delta=1e-5, size=16, epochs=2).quote()
    cells = read(run)
    assert cells[cells.index("steps") + 1] == str(run.steps) and f"{run.noise_multiplier:.4g}" in cells
    with sojourn.local() as other:
        opened = other.register("open", {"a": torch.rand(9)}, policy="open")
        quote = sojourn.privacy(opened, epsilon=1, delta=1e-5, size=3, epochs=1).quote()
        assert str(quote) in read(quote)


def test_receipts(hospital):
    _, table = hospital
    receipt = sojourn.publish(table["a"].mean(), epsilon=0.5).receipt
    cells = read(receipt)
    plain = " ".join(repr(receipt).split())
    assert cells[0] == plain[: len(cells[0])] and "paid" in cells and receipt.entry_hash in " ".join(cells)
    assert re.sub(r"\W", "", " ".join(cells)) == re.sub(r"\W", "", plain)
    receipt.client = EVIL
    assert f"released to '{EVIL}'" in read(receipt)[0]


def test_published_values(hospital):
    owner, table = hospital
    x = torch.arange(3.0).to(owner.device)
    with sojourn.step():
        free, paid = sojourn.publish(x), sojourn.publish(table["a"].mean(), epsilon=0.5)
        assert "".join(read(free)) == "Published(<filled when the step ends>)"
    assert "".join(read(free)) == "Published(tensor([0., 1., 2.]))"
    assert f"stderr={paid.stderr:.4g}" in "".join(read(paid))
