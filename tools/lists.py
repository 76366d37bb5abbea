# SPDX-License-Identifier: Apache-2.0
"""Checks of tools/lint that compare copies of a list in other languages with the C++ list.

The compiler compares the copies in C++; this file compares those in TableGen and Python.
"""

import ast
import pathlib
import re
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent


def text_of(name):
    return (ROOT / name).read_text()


def entries(name, macro):
    """The rows of an X-macro list, as lists of words."""
    return [re.split(r"\s*,\s*", row) for row in re.findall(rf"^{macro}\(([^)]*)\)", text_of(name), re.MULTILINE)]


def unlike(found, expected, where, source):
    """One line per name that only one side has, or that the sides define differently."""
    for name in sorted(found.keys() | expected.keys()):
        if name not in found:
            yield f"{where} lacks {name} of {source}"
        elif name not in expected:
            yield f"{where} has {name}, which {source} lacks"
        elif found[name] != expected[name]:
            yield f"{where} has {name} as {found[name]}, {source} as {expected[name]}"


def check_elements():
    """Element types of TableGen's sets and of owner/numpy are those of dialect/elements/Elements.def."""
    source = "dialect/elements/Elements.def"
    letters = {"Boolean": "B", "Integer": "Z", "Float": "F", "Complex": "X"}
    rows = entries(source, "SOJOURN_ELEMENT")
    classes = {name: letters[kind] for name, _, _, kind, _ in rows}
    spelled = {"c64": "Complex<F32>", "c128": "Complex<F64>"}
    spelled.update({name: f"UI{8 * int(width)}" for name, _, width, kind, sign in rows if name[0] == "u"})
    found = {}
    for letter, names in re.findall(
        r"^defvar elements([BZFX]) = \[(.*)\];", text_of("dialect/Dialect.td"), re.MULTILINE
    ):
        found.update(dict.fromkeys(re.split(r",\s*", names), letter))
    expected = {spelled.get(name, name.upper()): letter for name, letter in classes.items()}
    yield from unlike(found, expected, "dialect/Dialect.td", source)
    table = re.search(r"^_STORED = \{\n(.*?)^\}", text_of("owner/numpy/types.py"), re.MULTILINE | re.DOTALL)
    found = dict(re.findall(r'^    "(\w+)": \(.*, "(\w)"\),$', table.group(1), re.MULTILINE)) if table else {}
    yield from unlike(found, classes, "owner/numpy/types.py", source)


def check_signature():
    """The NumPy owner knows every kind of argument and of result."""
    source = "dialect/Signature.def"
    text = text_of("owner/numpy/owner.py") + text_of("owner/numpy/program.py")
    for macro, what in (("SOJOURN_STEP_ARG", "argument"), ("SOJOURN_STEP_RESULT", "result")):
        for _, name, _ in entries(source, macro):
            # keep is what neither commits nor publishes
            if name != "keep" and f'"{name}"' not in text:
                yield f"owner/numpy/owner.py and program.py do not know the kind of {what} {name} of {source}"


def decorated(path, decorator):
    """Op names that a file registers by `@decorator("name other", ...)`, in loops and helpers, too."""
    tree = ast.parse(path.read_text())
    helpers = {}  # functions that register what they are given: name and position of that parameter
    found = set()

    def take(call, scopes):
        for argument in call.args if decorator == "kernel" else call.args[:1]:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                found.update(argument.value.split())
            elif isinstance(argument, ast.Name):
                take_variable(argument.id, scopes)

    def take_variable(name, scopes):
        for scope in reversed(scopes):
            if isinstance(scope, ast.FunctionDef):
                names = [argument.arg for argument in scope.args.args]
                if name in names:
                    helpers[scope.name] = names.index(name)
                    return
            elif isinstance(scope, ast.For) and isinstance(scope.iter, (ast.Tuple, ast.List)):
                targets = scope.target.elts if isinstance(scope.target, ast.Tuple) else [scope.target]
                for position, target in enumerate(targets):
                    if isinstance(target, ast.Name) and target.id == name:
                        rows: list[Any] = scope.iter.elts
                        for row in rows:
                            cell = row.elts[position] if isinstance(scope.target, ast.Tuple) else row
                            found.update(cell.value.split())
                        return

    def walk(node, scopes, visit):
        for child in ast.iter_child_nodes(node):
            visit(child, scopes)
            walk(child, [*scopes, child] if isinstance(child, (ast.FunctionDef, ast.For)) else scopes, visit)

    def register(node, scopes):
        for call in node.decorator_list if isinstance(node, ast.FunctionDef) else []:
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == decorator:
                take(call, scopes)

    def use(node, scopes):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in helpers:
            position = helpers[node.func.id]
            take(ast.Call(func=node.func, args=node.args[position : position + 1], keywords=[]), scopes)

    walk(tree, [], register)
    walk(tree, [], use)
    return found


def check_core_ops():
    """Every implemented op of dialect/CoreOps.def has its two functions of owner/numpy, and no other op has one."""
    source = "dialect/CoreOps.def"
    status = {name: word for name, _, word, *_ in entries(source, "SOJOURN_CORE_OP")}
    for decorator, files in (("rule", "verify_*.py"), ("kernel", "ops_*.py")):
        found = set()
        for path in sorted((ROOT / "owner/numpy").glob(files)):
            found |= decorated(path, decorator)
        for name, word in status.items():
            if word == "implemented" and name not in found:
                yield f"owner/numpy/{files} has no @{decorator} for {name}, which {source} calls implemented"
            elif word == "planned" and name in found:
                yield f"owner/numpy/{files} has a @{decorator} for {name}, which {source} calls planned"
        for name in sorted(found - status.keys()):
            yield f"owner/numpy/{files} has a @{decorator} for {name}, which {source} lacks"
