# SPDX-License-Identifier: Apache-2.0
"""Imports of the Python package: no circles of modules, and no private names across them; for tools/lint."""

import ast
import pathlib
from collections.abc import Iterator

from layers import circles, way_round

PACKAGE = "frontend/sojourn"


def _imports(tree: ast.Module, modules: set[str]) -> Iterator[tuple[int, str, list[str], str]]:
    """Line, module, names and the module's own name here ("": none) of each import of the package, within functions too,
    but not those for type checkers."""
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or id(node) in hidden:
            continue
        module = node.module or ""
        if node.level == 0:
            if module != "sojourn" and not module.startswith("sojourn."):
                continue
            module = module.partition(".")[2]
        names = [alias.name for alias in node.names]
        if module in modules:
            yield node.lineno, module, names, ""
        elif not module:
            for alias in node.names:
                if alias.name in modules:
                    yield node.lineno, alias.name, [], alias.asname or alias.name


def check_modules(files: list[pathlib.Path], root: pathlib.Path) -> Iterator[str]:
    """Problems of the modules right in the package's folder."""
    sources = {path.stem: path for path in files if path.suffix == ".py" and path.parent == root / PACKAGE}
    edges: dict[str, set[str]] = {name: set() for name in sources}
    lines: dict[tuple[str, str], str] = {}
    for name, path in sorted(sources.items()):
        tree = ast.parse(path.read_text())
        place = path.relative_to(root)
        bound = set()
        for line, module, names, own in _imports(tree, set(sources)):
            edges[name].add(module)
            bound.add(own)
            lines.setdefault((name, module), f"{place}:{line}")
            for each in names:
                if each.startswith("_"):
                    yield f"{place}:{line} imports {each} of {module}, which is private to it: give it a public name"
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
                continue
            if node.value.id in bound and node.attr.startswith("_") and not node.attr.startswith("__"):
                yield f"{place}:{node.lineno} uses {node.value.id}.{node.attr}, which is private to that module"
    for members in circles(edges):
        way = way_round(members, edges)
        yield f"{lines[way[0], way[1]]} closes a circle of modules: {' -> '.join(way)}"
