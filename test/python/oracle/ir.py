# SPDX-License-Identifier: Apache-2.0
"""A reader of generic MLIR text: enough for one straight-line function."""

import dataclasses
import pathlib
import re
import subprocess

import torch

OPT = pathlib.Path(__file__).resolve().parents[3] / "build/bin/sojourn-opt"
DTYPES = {
    "i1": torch.bool, "ui8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Type:
    kind: str  # tensor, ref, scalar, none
    shape: tuple = ()
    dtype: torch.dtype | None = None
    strides: tuple | None = None
    offset: int = 0


@dataclasses.dataclass(frozen=True)
class Ref:
    """`#sojourn.operand<k>`."""

    index: int


@dataclasses.dataclass
class Op:
    name: str
    operands: list
    results: list
    attrs: dict
    types: list


@dataclasses.dataclass
class Function:
    arguments: list  # (name, Type, kind)
    ops: list
    returned: list
    results: list  # dicts of result attributes


def generic(text):
    done = subprocess.run([OPT, "--mlir-print-op-generic", "-"], input=text, capture_output=True, text=True, check=True)
    return done.stdout


class _Reader:
    """Attribute values, recursively."""

    TOKEN = re.compile(
        r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?))'
        r"|(?P<word>[#!\w.]+)|(?P<punct>[\[\]{}<>=,:()]))"
    )

    def __init__(self, text):
        self.tokens = [match.group().strip() for match in self.TOKEN.finditer(text)]
        self.at = 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, expected=None):
        token = self.tokens[self.at]
        assert expected in (None, token), (expected, self.tokens[self.at - 3 : self.at + 3])
        self.at += 1
        return token

    def dictionary(self):
        entries = {}
        while self.peek() not in (None, "}"):
            key = self.take()
            entries[key.strip('"')] = self.value() if self.peek() == "=" and self.take("=") else True
            if self.peek() == ",":
                self.take(",")
        return entries

    def value(self):
        token = self.take()
        if token == "[":
            return self.until("]")
        if token == "{":
            entries = self.dictionary()
            self.take("}")
            return entries
        if token == "array":
            self.take("<")
            self.take()
            if self.peek() == ":":
                self.take(":")
            return self.until(">")
        if token == "#sojourn.operand":
            self.take("<")
            index = int(self.take())
            self.take(">")
            return Ref(index)
        if token[0] == '"':
            return token[1:-1]
        if token in ("true", "false"):
            return token == "true"
        if token == "unit":
            return None
        if token in DTYPES:
            return DTYPES[token]
        assert re.match(r"-?\d", token), token
        if self.peek() == ":":
            self.take(":")
            dtype = DTYPES[self.take()]
            if token.startswith("0x"):
                bits = int(token, 16)
                width = {torch.float64: 8, torch.float32: 4}.get(dtype, 2)
                return torch.frombuffer(bytearray(bits.to_bytes(width, "little")), dtype=dtype)[0].item()
            return float(token) if dtype.is_floating_point else int(token)
        return float(token) if "." in token else int(token)

    def until(self, end):
        items = []
        while self.peek() != end:
            items.append(self.value())
            if self.peek() == ",":
                self.take(",")
        self.take(end)
        return items


def _split(text):
    """Splits at commas outside brackets."""
    parts, depth, current = [], 0, ""
    for character in text:
        depth += character in "<([{"
        depth -= character in ">)]}"
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return parts + [current.strip()] if current.strip() else parts


def parse_type(text):
    if text == "none":
        return Type("none")
    match = re.match(
        r"(?:!sojourn\.)?(tensor|ref|scalar)<([^,>]*)(?:, strides = \[([^\]]*)\], offset = (\d+))?>$", text
    )
    assert match, text
    kind, body, strides, offset = match.groups()
    *dims, element = body.split("x")
    shape = tuple(int(dim) for dim in dims)
    if strides is None:
        return Type(kind, shape, DTYPES[element])
    return Type(kind, shape, DTYPES[element], tuple(int(s) for s in _split(strides)), int(offset))


_LINE = re.compile(
    r'^\s*(?:(%\w+)(?::(\d+))?\s*=\s*)?"([\w.]+)"\(([^)]*)\)\s*(?:<\{(.*)\}>)?\s*(?:\{([^}]*)\})?\s*:\s*\((.*?)\)\s*->\s*(.*)$'
)


def parse(text):
    """`text`: a module of any phase."""
    lines = generic(text).splitlines()
    header = next(line for line in lines if '"func.func"' in line)
    attributes = _Reader(
        re.search(r"<\{(.*)\}>", re.sub(r"function_type = .*?, (res_attrs|sym_name)", r"\1", header)).group(1)
    ).dictionary()
    block = next(line for line in lines if line.strip().startswith("^bb0"))
    arguments = []
    for part, entry in zip(_split(block[block.index("(") + 1 : block.rindex(")")]), attributes["arg_attrs"]):
        name, type_text = part.split(":", 1)
        arguments.append((name.strip(), parse_type(type_text.strip()), entry["sojourn.kind"]))
    function = Function(arguments, [], [], attributes.get("res_attrs", []))
    for line in lines:
        match = _LINE.match(line)
        if not match or not match.group(3).startswith(("sojourn.", "func.return")):
            continue
        result, count, name, operands, attrs, extra, _, outputs = match.groups()
        operands = [operand.strip() for operand in operands.split(",") if operand.strip()]
        if name == "func.return":
            function.returned = operands
            continue
        names = [] if result is None else [f"{result}#{i}" for i in range(int(count))] if count else [result]
        outputs = outputs.strip()
        outputs = _split(outputs[1:-1]) if outputs.startswith("(") else [outputs]
        entries = _Reader(attrs).dictionary() if attrs else {}
        entries.update(_Reader(extra).dictionary() if extra else {})
        function.ops.append(Op(name.split(".", 1)[1], operands, names, entries, [parse_type(t) for t in outputs]))
    return function
