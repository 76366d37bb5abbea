#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints each refusal of Sojourn as a document, with an example and the text that the example printed.

tools/docs makes a page of it. The examples are those of test/python/errors_*_support.py; test/python/test_errors.py lists refusals without one.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test/python"))


def outcomes(examples, errors_support) -> dict:
    """The error of each example."""
    found = {}
    for number, (title, example) in enumerate(examples.items(), 1):
        if number % 25 == 0 or number == len(examples):
            print(f"{number} of {len(examples)} examples", file=sys.stderr, flush=True)
        with errors_support.World() as world:
            found[title] = errors_support.run(example, world)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    import errors_document_support
    import errors_support

    examples = errors_support.load()
    print(errors_document_support.document(examples, outcomes(examples, errors_support)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
