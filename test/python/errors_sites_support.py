# SPDX-License-Identifier: Apache-2.0
"""Where refusals are made: the texts that stand in the sources of the client, in C++ and in Python, and of what proves
private steps."""

import ast
import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: Calls that raise, or that make what is raised, by the folder that has them.
RAISING = {
    "frontend": r"\b(?:raise|fail|Error)\(\s*(?:ErrorKind::\w+|kind)\s*,|\b(?:refuse|bad|require)\(|\{ErrorKind::\w+,",
    "dialect/rows": r"\bmixed\(",
    "passes/privacy": r"\bemitError\(",
}
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
SHORT = 8  # a shorter part tells nothing


@dataclasses.dataclass(frozen=True)
class Site:
    """One place that raises: its file, its line, and the parts of its text that are the same each time, by way."""

    file: str
    line: int
    texts: tuple[str, ...]


def cpp_sites():
    """Sites in C++ with the longest fixed part of what they say; each alternative of a `?:` is one."""
    for folder, raising in RAISING.items():
        for path in sorted((ROOT / folder).rglob("*.cpp")):
            source = path.read_text()
            for match in re.finditer(raising, source):
                texts = spoken(source[match.start() : end_of_call(source, match.start())])
                if texts:
                    line = source.count("\n", 0, match.start()) + 1
                    yield Site(str(path.relative_to(ROOT)), line, tuple(texts))


def end_of_call(source, start):
    """Where the call or the list that begins here ends; of a stream (`emitError() << ...`) its statement."""
    is_stream = source.startswith("emitError", start)
    at, depth = start, 0
    while at < len(source):
        string = STRING.match(source, at)
        if string:
            at = string.end()
            continue
        at += 1
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(source[at - 1], 0)
        if source[at - 1] == ";" if is_stream else depth == 0 and source[at - 1] in ")}":
            break
    return at


def spoken(call):
    """The fixed parts of a call's text: adjacent literals are one; of those that always come, the longest."""
    always, either, end, before = [], [], None, ""
    for match in STRING.finditer(call):
        text = match[1].replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")
        between = call[end : match.start()] if end is not None else ""
        if end is not None and not between.strip():
            group = either if before in "?:" and before else always
            group[-1] += text
        else:
            before = call[: match.start()].rstrip()[-1:]
            before = before if before in "?:" else ""
            (either if before else always).append(text)
        end = match.end()
    always = [text for text in always if len(text) >= SHORT]
    either = [text for text in either if len(text) >= SHORT]
    return either + ([max(always, key=len)] if always else [])


def python_sites():
    """Sites of the Python package, likewise."""
    for path in sorted((ROOT / "frontend/sojourn").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                parts = list(fixed(node.exc.args[0]))
                parts = [part for part in parts if len(part) >= SHORT]
                if parts:
                    yield Site(str(path.relative_to(ROOT)), node.lineno, (max(parts, key=len),))


def fixed(node):
    """Literal parts of a text expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, (ast.JoinedStr, ast.BinOp)):
        for child in ast.iter_child_nodes(node):
            yield from fixed(child)


#: Texts without an example, by what it would take to meet them; the document names these reasons.
NOT_SHOWN = {
    "A file that is changed by hand, or while it is read (`test/python/test_ahead_files.py`, `test_ahead_tables.py`)": [
        " has artifact version ",
        "; make one with sojourn.compile(...).save(path)",
        " bytes is more than an artifact may have",
        ": it changed while it was read; load it again",
        " bytes have another format",
        "it must hold the four programs init, first, steady and short",
        "its short step does not go with its batches",
        "an input has an unknown element type or impossible sizes",
        "its loop lists differ in length",
        "the artifact uses a value that none of its programs made; compile it again",
        "): the file is damaged, compile it again",
        "these bytes are not a receipt that an owner signs: a number in them is out of range",
    ],
    "An owner, or somebody between, that does not keep to the protocol (`test/python/test_refusals.py`, "
    "`test_identities.py`, `test_lost_replies.py`)": [
        " published values, expected ",
        "the owner asks for a program that came with the request",
        "; the step is committed, what it published is lost",
        "a published value came back with ",
        " bytes is not a Sojourn message; is the address an owner's?",
        "the owner answered with ",
        "the owner describes a column of unknown element type",
        "the owner says that it has ",
        " steps have committed",
        "a published value came back wrong: ",
        "the challenge of the owner at ",
        " that it shows; ask the data owner",
        " knows no identities; connect without one, or have it use a newer release",
    ],
    "A connection that breaks at a certain moment (`test/python/test_lost_replies.py`, `test_uploads.py`)": [
        "the owner committed this step, but its reply was lost: what it published is not known; the next step goes on "
        "from it",
        "a value that was read never arrived: ",
        "; an upload was under way, the step that needs it was not sent: check the owner, then connect again",
        "the owner knows this session no more (",
        "open a socket for",
    ],
    "`sojourn-opt` alone: client and owner know how many rows a table has": [
        "draws rows of a table whose number of rows is not known",
    ],
    "C++ alone: Python checks before, or has no way to ask": [
        "the step reads two tables that are both named '",
        ", expected a number from 2^-12 to 2^40",
        "' cannot be: ",
        " is not one of the ",
        "an offline device only records: use sojourn.compile, or connect to an owner",
        "an offline device runs nothing; connect to an owner",
        "a value is read inside of a step, whose values arrive when it has ended: publish it (sojourn.publish) and "
        "read it after the step, or keep it on the device",
        "publish the condition, or use torch.where",
        "it writes running statistics and results at once; call it without out=",
        "remote tensors have no host memory; leave out pin_memory",
    ],
    "Our own mistakes, and processes that end": [
        "the interpreter of this transport has ended",
        "a step was sent from within the compilation of another of this session; a listener of phases may note what it "
        "hears, and no more",
        "the program does not decode: ",
        "another library has taken torch's PrivateUse1 device in this process; sojourn needs it for device 'owner': "
        "import only one of them",
        "a call is captured whose generator was not watched",
        "a call is captured inside of its step",
        "the session that this call was recorded at has ended",
        "has no rule for rows",
        "cannot take an argument for a draw",
        "cannot take an argument for noise",
        "the step's noise feeds what it is made of",
    ],
    "Programs that no script records: a client that writes its own (`test/passes/rows-*.mlir`, `GateTest.cpp`, "
    "`make-private-holes.mlir`)": [
        "draws rows at positions that depend on rows",
        "has a bound below 2^-400, which f64 cannot clip to",
        "this sum is released with noise over a draw of rows at which no private table is read, so there is no budget to "
        "charge; where a table was opened after the step was recorded, record the step again",
        "a sum is released over this draw of rows, which no private table is read at; record the step again, or report it",
        " is taken for public, and rows or the owner's draw reach it without noise; this is a defect of the row analysis, "
        "please report it",
        "two readings of this program disagree on which row a value belongs to (",
        "' is used in a way that only one of two readings follows, and that is not on the list of trusted ones; write the "
        "step in another way, or report it",
        "stands in a program that is lowered already",
        "takes a part from where rows say",
        "takes a part of the dim that holds rows and more, from where a number says",
        "writes to where rows say",
        "its slots are no draw of rows",
        "its slots are a part of a draw",
        "its slots are other numbers than those that its rows were read at",
        "takes a value that was summed over rows",
        "sums over another draw of rows",
        "yields a value that is not linear in sums over rows",
        "is not clipped, and a row's norm is only proved to be at most ",
        "adds noise to what is no clipped sum",
        "adds noise to a part of a clipped sum",
        "adds noise to a sum that is used without noise, too",
        "takes its noise from something else than fresh coins",
        "its distribution does not go with the norm that is bounded",
        "adds noise to more terms than rounding can be bounded for",
        "draws with a seed that depends on rows",
        "an order of rows whose seed or epoch depends on rows",
        "draws into fewer than 2 slots",
        "rows are chosen by a value that was computed from rows",
        "row numbers that were not drawn at the owner: a row may be read more than once",
        "reads fewer than 2 rows: a row cannot be told from its batch",
        "reads other rows into the slots of a draw: a row would stand in several slots",
        "a sum of complex numbers over private rows has no noise; publish its real and imaginary parts",
        "takes rows for the parts of a number",
        " cannot be recorded; pass tensors and numbers",
        "no bound of what a row adds follows from the factors of this value; publish it without them",
        "give a clip= nearer to 1",
        " would leave without noise: it is ",
        "is a release that nobody planned",
        " releases are proved, ",
    ],
    "Steps made to be large (`test/python/test_private_hostile.py`, `test/passes/PrivacyBoundsTest.cpp`)": [
        "there are more sums over rows than can be told apart; split the step",
        " times, one update after the other, more often than is followed; split it",
        "the step is too large to be made private: too many sums over rows reach too many results; split it",
    ],
}
