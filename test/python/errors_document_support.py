# SPDX-License-Identifier: Apache-2.0
"""The text of docs/errors.md, from examples and what they raised."""

import inspect
import pathlib
import re

from errors_sites_support import NOT_SHOWN

import sojourn

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/errors.md"

HEAD = """\
# Errors

What Sojourn refuses, by the class that is raised: an example, and the text that it gives. Written by `tools/errors.py`,
which runs every example; `test/python/test_errors.py` compares, and says which refusals have none.

All classes but Python's and torch's own are `sojourn.Error`, which is a `RuntimeError`. The session stays usable: a
step that raises is dropped as a whole, and what was pending before it stays; where a step may have run all the same,
the text says so. Shapes, dtypes and arguments that do not go together fail with eager's own errors and texts; where
the slots of a private batch are met, a hint at them follows.

The examples start from these names: `owner` is an embedded owner (`sojourn.local()`) and `device` its device; `x` is a
tensor of shape [2, 3] there; `houses` is an open table of 96 rows with columns `age`, `dose` and `ill`; `patients` is a
private one with bounds, `funded` the same with a budget of epsilon 4; `model` is an `nn.Linear(2, 2)` there, and
`optimizer` trains it. `program` is a compiled step over batches of `houses`, `private_program` one over `patients`.
`address` is that of a served owner, `identity` the key file of a client that it knows, `stranger` one that it does not
know, `server` the process of another served owner. `in_a_thread` calls a function in a thread of its own. `folder` is a
folder; its path reads FOLDER in the texts.
"""


def anchor(heading: str) -> str:
    """As GitHub makes it."""
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
    return {TypeError: "Python's own, for what is no function.", RuntimeError: "torch's own, as in eager."}[kind]


def name(kind: type) -> str:
    return f"sojourn.{kind.__name__}" if kind.__module__ == "sojourn.errors" else kind.__name__


def document(examples, outcomes) -> str:
    grouped = classes(examples)
    lines = [HEAD, "| class | examples | meaning |", "|---|---|---|"]
    for kind, of_kind in grouped.items():
        lines.append(f"| [`{name(kind)}`](#{anchor(name(kind))}) | {len(of_kind)} | {meaning(kind)} |")
    lines += ["| [not shown](#not-shown) | | what no script meets by itself |", ""]
    for kind, of_kind in grouped.items():
        lines += [f"## {name(kind)}", "", meaning(kind), ""]
        lines += [f"- [{each.title}](#{anchor(each.title)})" for each in of_kind] + [""] * bool(of_kind)
        if not of_kind:
            lines += ["No example: see [not shown](#not-shown).", ""]
        for each in of_kind:
            text = outcomes[each.title].text.rstrip()
            lines += [f"### {each.title}", "", "```python", each.snippet, "```", "```text", text, "```", ""]
    lines += ["## Not shown", "", "Texts that need more than a script, by what they need:", ""]
    lines += [f"- {reason}: {len(texts)} texts" for reason, texts in NOT_SHOWN.items()]
    return "\n".join(lines).rstrip() + "\n"
