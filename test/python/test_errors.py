# SPDX-License-Identifier: Apache-2.0
"""Every refusal: its class, its text and what stays afterwards, by an example each; the site shows the same.

A refusal whose text no example shows has to stand in NOT_SHOWN of errors_sites_support.py, with the reason.
"""

import functools

import errors_document_support
import errors_sites_support
import errors_support
import pytest
import torch

import sojourn

EXAMPLES = errors_support.load()
NAMES = (
    "SGD ",
    "ReduceLROnPlateau ",
    "Tensor.",
    "UntypedStorage.",
    "Limit: ",
    "Dataset: ",
    "Session: ",
    "FOLDER/",
)  # texts may begin with


@functools.cache
def outcome(title):
    """What the example raises, once per run; and what a small computation gives after it, with its input."""
    with errors_support.World() as world:
        found = errors_support.run(EXAMPLES[title], world)
        given = torch.randn(7, dtype=torch.float64)
        device = world.get("device")
        x = given.to(device)
        with sojourn.step():
            published = sojourn.publish((x * x).cumsum(0) - x.mean())
        return found, given, published.value


@pytest.mark.parametrize("title", EXAMPLES)
def test_example(title, seed):
    example, (found, given, after) = EXAMPLES[title], outcome(title)
    assert type(found.failure) is example.kind, repr(found.failure)
    for part in example.parts:
        assert part in found.text, f"{part!r} is not in {found.text!r}"
    torch.testing.assert_close(after, (given * given).cumsum(0) - given.mean(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("title", EXAMPLES)
def test_texts_follow_the_house_rule(title):
    """Small beginnings, no full stop at the end, nothing that differs between machines."""
    found, _, _ = outcome(title)
    if isinstance(found.failure, sojourn.Error):
        assert not found.text.endswith("."), found.text
        assert not found.text[0].isupper() or found.text.startswith(NAMES), found.text
    assert "/work" not in found.text and "/tmp" not in found.text and "/home" not in found.text, found.text


def test_the_document_has_every_example_once():
    outcomes = {title: outcome(title)[0] for title in EXAMPLES}
    lines = errors_document_support.document(EXAMPLES, outcomes).splitlines()
    for title in EXAMPLES:
        assert lines.count(f"### {title}") == 1, title
    assert len({errors_document_support.anchor(title) for title in EXAMPLES}) == len(EXAMPLES)


@pytest.mark.parametrize(
    "sites", [errors_sites_support.cpp_sites, errors_sites_support.python_sites], ids=["C++", "Python"]
)
def test_every_refusal_has_an_example(sites):
    shown = "\n".join(outcome(title)[0].text for title in EXAMPLES)
    excused = {text for texts in errors_sites_support.NOT_SHOWN.values() for text in texts}
    sites = list(sites())
    assert len(sites) > 60, "the sources are not read as they are written"
    lacking = [f"{each.file}:{each.line}: {text}" for each in sites for text in each.texts if text not in shown]
    lacking = [line for line in lacking if line.split(": ", 1)[1] not in excused]
    assert not lacking, "without an example and not in NOT_SHOWN:\n" + "\n".join(lacking)


def test_what_is_not_shown_is_there_and_not_shown():
    shown = "\n".join(outcome(title)[0].text for title in EXAMPLES)
    there = {
        text
        for each in (*errors_sites_support.cpp_sites(), *errors_sites_support.python_sites())
        for text in each.texts
    }
    for texts in errors_sites_support.NOT_SHOWN.values():
        for text in texts:
            assert text in there, f"no source raises {text!r} any more: take it out of NOT_SHOWN"
            assert text not in shown, f"an example shows {text!r}: take it out of NOT_SHOWN"


def test_sites_are_found(tmp_path):
    """Literals of one call, and the alternatives of a choice, are told apart."""
    spoken = errors_sites_support.spoken
    assert spoken('raise(kind, "adjacent " "literals are one, " + x + " short")') == ["adjacent literals are one, "]
    assert spoken('fail(kind, isIt ? "the first of two" : "the second of two")') == [
        "the first of two",
        "the second of two",
    ]
    source = 'raise(ErrorKind::Error, "with (a) paren) inside" + f(x));  other("not of it")'
    assert source[: errors_sites_support.end_of_call(source, 0)].endswith("f(x))")
