# SPDX-License-Identifier: Apache-2.0
"""The texts of refusals in the sources: in the client's C++ and Python, and in the proof of private steps."""

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
    """One place that raises: its file, its line, and the fixed parts of its text, one for each alternative."""

    file: str
    line: int
    texts: tuple[str, ...]


def cpp_sites():
    """Sites in C++ with the longest fixed part of their text; each alternative of a `?:` is a separate part."""
    for folder, raising in RAISING.items():
        for path in sorted((ROOT / folder).rglob("*.cpp")):
            source = path.read_text()
            for match in re.finditer(raising, source):
                texts = spoken(source[match.start() : end_of_call(source, match.start())])
                if texts:
                    line = source.count("\n", 0, match.start()) + 1
                    yield Site(str(path.relative_to(ROOT)), line, tuple(texts))


def end_of_call(source, start):
    """The end of the call or list that begins here; for a stream (`emitError() << ...`) the end of its statement."""
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
    """The fixed parts of a call's text: adjacent literals are joined; of the parts in every text only the longest."""
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
    """Sites in the Python package with the longest fixed part of their text."""
    for path in sorted((ROOT / "frontend/sojourn").rglob("*.py")):
        if "numpy" in path.parts:
            continue  # texts of NumPy's, compared with it in test/python/arrays
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
    "Texts of NumPy's and Python's for host tensors (`test/python/arrays/test_arrays_protocols.py`)": [
        "first operand must be array",
        "return arrays must be of ArrayType",
        "' object has no attribute '",
    ],
    "A file changed by hand or during a read (`test/python/test_ahead_files.py`, `test_ahead_tables.py`)": [
        " has artifact version ",
        "; make one with sojourn.compile(...).save(path)",
        " bytes exceed the limit for artifacts",
        ": it changed while it was read; load it again",
        " bytes are malformed",
        "it must have the four programs init, first, steady and short",
        "its short step does not match its batches",
        "a step for other batches has no program",
        "cannot run the program in a group: ",
        "an input has an unknown element type or invalid sizes",
        "an input has a name that is too long or not printable",
        " bytes); expected up to 128 printable ASCII characters",  # saved from C++ (ArtifactInputsTest)
        "its loop lists differ in length",
        "its description of results or of the state is not UTF-8 text",
        "the artifact uses a value that none of its programs made; compile it again",
        "): the file is damaged, compile it again",
        "the program does not say how its state nests (",
        "these bytes are not a receipt that an owner signs: a number in them is out of range",
    ],
    "An owner or an intermediary that violates the protocol (`test/python/test_refusals.py`, "
    "`test_identities.py`, `test_lost_replies.py`, `test_values.py`)": [
        " published values, expected ",
        "the owner asked for a program that the request contained",
        "; the step is committed, but its published values are lost",
        " bytes, which does not match its shape",
        " bytes is not a Sojourn message; check that the address belongs to an owner",
        "the owner answered with ",
        "the owner describes a column of unknown element type",
        "the owner describes a value of unknown element type",
        "the owner describes a value with a name that is not UTF-8 text",
        "the owner describes a value with a tag that is not UTF-8 text",
        "the owner describes value '",
        "the owner describes ",
        "the owner describes a table with a name that is not UTF-8 text",
        "the owner describes a column that ",
        "the owner reports that it has ",
        " steps as committed",
        "a published value is malformed: ",
        "the challenge of the owner at ",
        " that it presents; ask the data owner",
        " is of an older release, which has no names for values; keep the values in one session, or ask the data owner for "
        "a newer release",
        " does not support identities; connect without an identity, or ask the data owner for a newer release",
    ],
    "Owners that are busy (`test/python/test_parties_busy.py`)": [
        "the deadline passed while an owner of the group was busy; the step ran at none",
        "the owner is busy (",
    ],
    "Members of a group that differ, or a caller of the C++ surface (`test/owner/JointStepTest.cpp`, "
    "`test/frontend/PartiesTest.cpp`)": [
        '\', but the device records for one owner; name the parties of the step: Offline offline({"a", "b"})',
        "the parties of the step",
        " could not be sent to the owner",
        "' could not be sent to the owner",
        "' is no public key of an owner, expected 64 hexadecimal digits",
        "this group has ended, because its members may stand at different steps: make a new one with "
        "sojourn.parties(...) and start from a checkpoint",
        "a member of the group published fewer values than its part has",
        "the owner states a key of ",
        " bytes of its rows of a value, expected ",
        "): the group has ended, and its values with it; make a new one and start from a checkpoint",
        "a group has at least 2 owners, got none",
        " is not one of the batches of ",
        "libsodium cannot be used",
    ],
    "A server that is not the owner of its certificate (`test/frontend/TrustTest.cpp`)": [
        ", but its certificate is that of ",
        " does not introduce itself as an owner; check the address, or ask the data owner for the release that it runs",
        " has not signed; ask the data owner",
    ],
    "A file of known owners without the right to read it, which tests as root have": [
        "; make the file readable, or connect with owner_key=",
    ],
    "A connection lost at a certain moment (`test/python/test_lost_replies.py`, `test_uploads.py`, `test_interrupts.py`)": [
        "the owner committed this step, but its reply was lost: its published values are unknown, and the next step "
        "continues from it",
        "a value that was read never arrived: ",
        "; an upload was in progress, and the step that needs it was not sent: check the owner, then connect again",
        "the owner no longer knows this session (",
    ],
    "Lightning and accelerate, which need not be installed (`test/python/test_frameworks.py`)": [
        "' in this process; call sojourn.integrations.accelerate.use(owner) before the first Accelerator, Trainer or "
        "TrainingArguments",
        "sojourn.integrations.lightning needs Lightning 2: pip install lightning",
        "an owner is a single device, but the trainer has the strategy ",
        "an owner is a single device: devices must be 1, got ",
    ],
    "`sojourn-opt` alone: client and owner know the number of rows of a table": [
        "draws rows of a table with an unknown number of rows",
    ],
    "C++ alone: Python checks earlier, or cannot make the call": [
        "expected a torch.dtype, got ",
        "this program was compiled without readable state; return the model from init: sojourn.compile(..., init=make), "
        "where make() ends with `return model`",
        " steps some of the program's state does not exist yet; read it after more steps",
        "'; give each table of a step a different name",
        "give features for one tensor or named for several, not both",
        " named ones; leave dtype out and convert a tensor of the batch",
        "two tensors of a batch are named '",
        "the batch has no tensor named '",
        "; its features are x, name them in BatchOptions::named",
        ", expected a number from 2^-12 to 2^40",
        "' is invalid: ",
        " is not one of the ",
        "an offline device only records: use sojourn.compile, or connect to an owner",
        "an offline device cannot run steps; connect to an owner",
        "a value is read inside a step, but values arrive when the step ends; publish it (sojourn.publish) and read it "
        "after the step, or keep it on the device",
        "it reads a value; publish the condition, or use torch.where",
        "it writes running statistics and results at once; call it without out=",
        "remote tensors have no host memory; leave out pin_memory",
    ],
    "Internal errors, and processes that end": [
        "the interpreter of this transport has ended",
        "the owner was asked while this thread compiles or sends a step of the same session; a listener of phases, or a "
        "transport in Python, may record, but not send steps or ask the owner",
        " is taken twice by one thread; report this with its traceback",
        "cannot decode the program: ",
        "another library has taken torch's PrivateUse1 device in this process; sojourn needs it for device 'owner': "
        "import only one of them",
        "cannot capture a call whose generators were not watched",
        "this generator draws from a bit generator of NumPy's; set the state of that one",
        "a call can only be captured inside its step",
        "the session that recorded this call has ended",
        "has no rule for rows",
        "cannot add an argument for a draw",
        "cannot add an argument for noise",
        "the step's noise feeds its own sums",
    ],
    "Programs that no script records, from a client that writes its own programs (`test/passes/rows-*.mlir`, `GateTest.cpp`, "
    "`make-private-holes.mlir`)": [
        "draws rows at positions that depend on rows",
        "has a bound below 2^-400, which f64 cannot clip to",
        "this sum is released with noise over a draw of rows at which no private table is read, so there is no budget to "
        "charge; if a table was opened after the step was recorded, record the step again",
        "a sum over this draw of rows is released, but no private table is read at the draw; record the step again, or "
        "report it",
        " counts as public, but rows or the owner's draw reach it without noise; this is a defect of the row analysis, "
        "please report it",
        "two readings of this program disagree on which row a value belongs to (",
        "', which is not on the list of trusted uses; write the step in another way, or report it",
        "is in a program that is already lowered",
        "was summed across owners",
        "takes a part at a position that depends on rows",
        "takes a part of a dim that holds rows and other elements, at a run-time position",
        "writes at a position that depends on rows",
        "its slots are not a draw of rows",
        "its slots are a part of a draw",
        "its slots differ from the numbers at which its rows were read",
        "takes a value that was summed over rows",
        "sums over another draw of rows",
        "yields a value that is not linear in sums over rows",
        "is not clipped, and a row's norm is only proved to be at most ",
        "adds noise to a value that is not a clipped sum",
        "adds noise to a part of a clipped sum",
        "adds noise to a sum that is used without noise, too",
        "takes its noise from values other than fresh coins",
        "its distribution does not match the bounded norm",
        "adds noise to too many terms to bound their rounding",
        "draws with a seed that depends on rows",
        "draws an order of rows with a seed or epoch that depends on rows",
        "draws into fewer than 2 slots",
        "chooses rows by a value that was computed from rows",
        "reads row numbers that were not drawn at the owner: a row may be read more than once",
        "reads fewer than 2 rows: a row cannot be distinguished from its batch",
        "reads other rows into the slots of a draw: a row would be in several slots",
        "a sum of complex numbers over private rows has no noise; publish its real and imaginary parts",
        "uses rows as the parts of a number",
        " cannot be recorded; pass tensors and numbers",
        "the factors of this value give no bound for the contribution of one row; publish it without them",
        "give a clip= nearer to 1",
        " would leave without noise: it is ",
        "is an unplanned release",
        " releases are proved, ",
    ],
    "Very large steps (`test/python/test_private_hostile.py`, `test/passes/PrivacyBoundsTest.cpp`)": [
        "the step has more sums over rows than the analysis can distinguish; split the step",
        " times, one update after the other, too many to analyse; split it",
        "the step is too large to be made private: too many sums over rows reach too many results; split it",
        "the step is too large to be made private: it has ",
    ],
}
