#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/errors.md: what Sojourn refuses, each with an example that was run and the text that it gave.

    tools/errors.py          run every example, write the document
    tools/errors.py --check  exit 1 if the file on disk is not what would be written

The examples are those of test/python/errors_*_support.py; test/python/test_errors.py says which refusals lack one.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test/python"))


def outcomes(examples, errors_support) -> dict:
    """What each example raises."""
    found = {}
    for number, (title, example) in enumerate(examples.items(), 1):
        if number % 25 == 0 or number == len(examples):
            print(f"{number} of {len(examples)} examples", file=sys.stderr, flush=True)
        with errors_support.World() as world:
            found[title] = errors_support.run(example, world)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the file on disk, write nothing")
    options = parser.parse_args()
    import errors_document_support
    import errors_support

    examples = errors_support.load()
    text = errors_document_support.document(examples, outcomes(examples, errors_support))
    document = errors_document_support.DOCUMENT
    if not options.check:
        document.write_text(text)
    elif not document.exists() or document.read_text() != text:
        print("docs/errors.md is not what tools/errors.py writes; run it")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
