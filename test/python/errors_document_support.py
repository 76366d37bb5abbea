# SPDX-License-Identifier: Apache-2.0
"""The page of errors, from the examples and their outcomes."""

import inspect
import re

from errors_sites_support import NOT_SHOWN

import sojourn

HEAD = """\
# Errors

The refusals of Sojourn by class, each with an example and its text, which `tools/errors.py` made by running it. The
tests report refusals without an example.

All classes are subclasses of `sojourn.Error`, which is a `RuntimeError`, except those of Python and torch. The session
stays usable: a step that raises is dropped as a whole, and ops that were pending before it stay. The text says so if a
step may have run anyway. Mismatched shapes, dtypes and arguments fail with eager's own errors and texts; a hint follows
if the slots of a private batch are involved.

The examples start from these names:

| name | meaning |
|---|---|
| `owner`, `device` | an embedded owner (`sojourn.local()`), and its device |
| `x` | a tensor of shape [2, 3] on `device` |
| `houses` | an open table of 96 rows with columns `age`, `dose` and `ill` |
| `patients` | a private table with the same columns and bounds |
| `funded` | `patients` with a budget of epsilon 4 |
| `model`, `optimizer` | an `nn.Linear(2, 2)` on `device`, and its optimizer |
| `program` | a compiled step over batches of `houses` |
| `private_program` | a compiled step over batches of `patients` |
| `address` | the address of a served owner |
| `identity` | the key file of a client known to that owner |
| `stranger` | the key file of an unknown client |
| `data_owner` | a function that runs a command of `sojourn-owner` beside that owner |
| `server` | the process of another served owner |
| `in_a_thread` | a function that calls its argument in a separate thread |
| `folder` | a folder; its path is FOLDER in the texts |
"""


def anchor(heading: str) -> str:
    """The anchor of a heading, as on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def classes(examples) -> dict:
    """Examples by class, in the order of the package; torch's and Python's own at the end."""
    ours = [
        kind for _, kind in inspect.getmembers(sojourn.errors, inspect.isclass) if kind.__module__ == "sojourn.errors"
    ]
    ours.sort(key=lambda kind: inspect.getsourcelines(kind)[1])
    grouped = {
        kind: [each for each in examples.values() if each.kind is kind] for kind in [*ours, TypeError, RuntimeError]
    }
    assert sum(map(len, grouped.values())) == len(examples)
    return grouped


def meaning(kind: type) -> str:
    if kind.__module__ == "sojourn.errors":
        return inspect.getdoc(kind)
    return {
        TypeError: "Python's own, for an argument that is not a plain function.",
        RuntimeError: "torch's own, as in eager mode.",
    }[kind]


def name(kind: type) -> str:
    return f"sojourn.{kind.__name__}" if kind.__module__ == "sojourn.errors" else kind.__name__


def document(examples, outcomes) -> str:
    grouped = classes(examples)
    lines = [HEAD, "| class | examples | meaning |", "|---|---|---|"]
    for kind, of_kind in grouped.items():
        lines.append(f"| [`{name(kind)}`](#{anchor(name(kind))}) | {len(of_kind)} | {meaning(kind)} |")
    lines += ["| [not shown](#not-shown) | | refusals that a script alone does not trigger |", ""]
    for kind, of_kind in grouped.items():
        lines += [f"## {name(kind)}", "", meaning(kind), ""]
        lines += [f"- [{each.title}](#{anchor(each.title)})" for each in of_kind] + [""] * bool(of_kind)
        if not of_kind:
            lines += ["No example: see [not shown](#not-shown).", ""]
        for each in of_kind:
            text = outcomes[each.title].text.rstrip()
            lines += [f"### {each.title}", "", "```python", each.snippet, "```", "```text", text, "```", ""]
    lines += ["## Not shown", "", "Texts that need more than a script, by their cause:", ""]
    lines += [f"- {reason}: {len(texts)} texts" for reason, texts in NOT_SHOWN.items()]
    return "\n".join(lines).rstrip() + "\n"
