# SPDX-License-Identifier: Apache-2.0
"""The data owner's words about a table."""

from __future__ import annotations

from typing import NamedTuple

from .errors import need

TEXT_BYTES_MAX, TAGS_MAX, TAG_BYTES_MAX = 4096, 32, 64


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
        need(fits, f"a tag is '{tag}', expected 1 to {TAG_BYTES_MAX} bytes of one line without commas")
    need(len(kept) <= TAGS_MAX, f"the table has {len(kept)} tags, the limit is {TAGS_MAX}")
    return Description(text, tuple(kept))
