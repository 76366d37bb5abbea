# SPDX-License-Identifier: Apache-2.0
"""The data owner's words about a table, and the tables that a search finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .errors import LIMIT, need

if TYPE_CHECKING:
    from .datasets import Dataset

TEXT_BYTES_MAX, TAGS_MAX, TAG_BYTES_MAX = 4096, 32, 64
SEARCH_BYTES_MAX, COLUMNS_MAX, COLUMN_BYTES_MAX = 1024, 64, 256


class Description(NamedTuple):
    text: str = ""
    tags: tuple[str, ...] = ()


def described(text: str, tags: list[str]) -> Description:
    """With the tags in order, each once."""
    text = text.strip()
    size = len(text.encode())
    need(size <= TEXT_BYTES_MAX, f"the description has {size} bytes, the limit is {TEXT_BYTES_MAX}")
    shown = all(each.isprintable() or each in "\n\t" for each in text)
    need(shown, "the description has characters that cannot be shown; write it as plain UTF-8 text")
    kept = sorted({tag.strip() for tag in tags})
    for tag in kept:
        fits = 1 <= len(tag.encode()) <= TAG_BYTES_MAX and tag.isprintable() and "," not in tag
        need(fits, f"'{tag}' is no tag: expected 1 to {TAG_BYTES_MAX} bytes of one line without commas")
    need(len(kept) <= TAGS_MAX, f"the table has {len(kept)} tags, the limit is {TAGS_MAX}")
    return Description(text, tuple(kept))


def _folded(text: str) -> str:
    """As the native owner compares: letters of ASCII alone have two cases."""
    return "".join(each.lower() if each.isascii() else each for each in text)


@dataclass
class Search:
    """What a client looks for: words, a tag, columns."""

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

    def finds(self, dataset: Dataset) -> bool:
        words, tags = dataset.description
        texts = [_folded(text) for text in (dataset.name, words, *tags, *dataset.by_name)]
        return (
            (not self.tag or self.tag in tags)
            and all(column in dataset.by_name for column in self.columns)
            and all(any(word in text for text in texts) for word in self.words)
        )
