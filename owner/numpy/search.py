# SPDX-License-Identifier: Apache-2.0
"""Tables that a client looks for."""

from __future__ import annotations

from dataclasses import dataclass, field

from .datasets import Dataset
from .descriptions import TAG_BYTES_MAX
from .errors import LIMIT, need

SEARCH_BYTES_MAX, WORDS_MAX, COLUMNS_MAX, COLUMN_BYTES_MAX = 1024, 16, 64, 256


def _folded(text: str) -> str:
    """As the native owner compares: letters of ASCII alone have two cases."""
    return "".join(each.lower() if each.isascii() else each for each in text)


@dataclass
class Search:
    """The search that a client asks for: words, a tag, columns."""

    text: str
    tag: str
    columns: tuple[str, ...]
    words: list[str] = field(init=False)

    def __post_init__(self):
        for what, text, most in (
            ("the text of a search", self.text, SEARCH_BYTES_MAX),
            ("the tag of a search", self.tag, TAG_BYTES_MAX),
            *(("a column of a search", column, COLUMN_BYTES_MAX) for column in self.columns[:COLUMNS_MAX]),
        ):
            size = len(text.encode())
            need(size <= most, f"{what} has {size} bytes, expected up to {most}", LIMIT)
        count = len(self.columns)
        need(count <= COLUMNS_MAX, f"a search names {count} columns, expected up to {COLUMNS_MAX}", LIMIT)
        self.words = _folded(self.text).split()
        count = len(self.words)
        need(count <= WORDS_MAX, f"a search has {count} words, expected up to {WORDS_MAX}", LIMIT)

    def finds(self, dataset: Dataset) -> bool:
        words, tags = dataset.description
        texts = [_folded(text) for text in (dataset.name, words, *tags, *dataset.by_name)]
        return (
            (not self.tag or self.tag in tags)
            and all(column in dataset.by_name for column in self.columns)
            and all(any(word in text for text in texts) for word in self.words)
        )
