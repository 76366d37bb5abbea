# SPDX-License-Identifier: Apache-2.0
"""HTML of objects for notebooks, with every text escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def paragraphs(text: str) -> str:
    """A paragraph for each line."""
    return "".join(f"<p>{html.escape(line)}</p>" for line in text.splitlines())


def table(title: str, rows: Iterable[Sequence[object]], notes: Iterable[str] = ()) -> str:
    """A title, a table whose rows begin with their label, and a paragraph for each note."""
    cells = (
        f"<tr><th>{html.escape(str(label))}</th>{''.join(f'<td>{html.escape(str(value))}</td>' for value in values)}</tr>"
        for label, *values in rows
    )
    return f"<p><b>{html.escape(title)}</b></p><table>{''.join(cells)}</table>{''.join(map(paragraphs, notes))}"
