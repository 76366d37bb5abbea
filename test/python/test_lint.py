# SPDX-License-Identifier: Apache-2.0
"""House rules that `tools/lint` enforces: each finds what it forbids, and lets the right form pass."""

import importlib.machinery
import importlib.util
import json
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def lint(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "tools")
    loader = importlib.machinery.SourceFileLoader("house_rules", str(ROOT / "tools/lint"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("house_rules", loader))
    loader.exec_module(module)
    ops = list(module.core_ops())
    monkeypatch.setattr(module, "core_ops", lambda: ops)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def problems(check, tmp_path, name, text):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return list(check([path]))


@pytest.mark.parametrize(
    "line",
    [
        "auto y = DotOp::create(builder, loc, x, w, dims);",
        "auto y = builder.create<AddOp>(loc, a, b);",
        "rewriter.replaceOpWithNewOp<MulOp>(op, a, b);",
        'llvm::report_fatal_error("no");',
        'llvm_unreachable("cannot be");',
    ],
)
def test_what_ends_the_process_is_found(lint, tmp_path, line):
    (found,) = problems(lint.check_aborts, tmp_path, "passes/Bad.cpp", f"\nvoid f() {{\n  {line}\n}}\n")
    assert found.startswith("passes/Bad.cpp:3 ")


@pytest.mark.parametrize(
    "line",
    [
        "auto y = DotOp::create(builder, loc, resultType, x, w, dims);",
        "auto y = tryCreate<AddOp>(builder, loc, a, b);",
        'llvm_unreachable("every enumerator is above");',
    ],
)
def test_checked_forms_pass(lint, tmp_path, line):
    assert problems(lint.check_aborts, tmp_path, "passes/Good.cpp", f"void f() {{ {line} }}\n") == []


@pytest.mark.parametrize("include", ["<ATen/ATen.h>", "<c10/util/Exception.h>", '"torch/torch.h"'])
def test_torch_stays_in_the_library_adapter(lint, tmp_path, include):
    text = f"#include {include}\n"
    (found,) = problems(lint.check_library, tmp_path, "runtime/KernelsNew.cpp", text)
    assert found.startswith("runtime/KernelsNew.cpp includes torch")
    assert problems(lint.check_library, tmp_path, "runtime/LibraryNew.cpp", text) == []
    assert problems(lint.check_library, tmp_path, "frontend/New.cpp", text) == []


@pytest.mark.parametrize(
    "line",
    [
        "from test_phases import MODELS",
        "import test_phases",
        "    from oracle.test_phases import MODELS",
        'importlib.import_module("{name}")',
        "SCRIPT = 'import sys\\nimport test_phases'",
    ],
)
def test_tests_import_no_tests(lint, tmp_path, line):
    text = f'"""A test."""\n\n{line}\n'.replace("\\n", "\n").replace("{name}", "test_phases")
    (found,) = problems(lint.check_test_imports, tmp_path, "test/python/test_price.py", text)
    assert re.match(r"test/python/test_price.py:[34] imports test_phases: move ", found)
    assert (
        problems(lint.check_test_imports, tmp_path, "test/python/test_price.py", "from phase_models import A\n") == []
    )
    assert problems(lint.check_test_imports, tmp_path, "tools/bench.py", text) == []


@pytest.mark.parametrize(
    ("head", "found"),
    [
        ("// Sums of nothing are 0.\n", 0),
        ("// What is refused, each with\n// its reason.\n", 0),
        ("", 1),
        ("// sums\n", 1),
        ("\n", 1),
    ],
)
def test_lit_tests_say_what_they_show(lint, tmp_path, head, found):
    text = f"// SPDX-License-Identifier: Apache-2.0\n{head}// RUN: sojourn-opt %s\n// A sentence below.\n"
    assert len(problems(lint.check_lit_heads, tmp_path, "test/passes/sum.mlir", text)) == found
    assert problems(lint.check_lit_heads, tmp_path, "docs/sum.mlir", text) == []


@pytest.mark.parametrize(
    ("name", "is_there"),
    [
        ("Sum.cpp", True),
        ("Sum.*", True),
        ("deep/", True),
        ("passes/deep/Norm.h", True),
        ("python/test_sum.py", True),
        ("test_sum.py", True),
        ("sojourn.step()", True),
        ("tensor<3xf32>", True),
        ("Gone.cpp", False),
        ("Gone.*", False),
        ("gone/", False),
        ("deep/Sum.cpp", False),
        ("python/test_norm.py", False),
    ],
)
def test_readmes_name_files_that_are_there(lint, tmp_path, name, is_there):
    files = [tmp_path / each for each in ("passes/Sum.cpp", "passes/deep/Norm.h", "test/python/test_sum.py")]
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    readme = tmp_path / "passes/README.md"
    readme.write_text(f"| `{name}` | sums |\n```\n`Gone.cpp`\n```\n")
    wanted = [] if is_there else [f"passes/README.md names {name}, which does not exist"]
    assert list(lint.check_named_files([*files, readme])) == wanted


def test_headers_have_guards_of_their_path(lint, tmp_path):
    text = "// A sum.\n#ifndef {0}\n#define {0}\n\nint sum();\n\n#endif // {0}\n"
    right = text.format("SOJOURN_PASSES_DEEP_SUM_H")
    assert problems(lint.check_guards, tmp_path, "passes/deep/Sum.h", right) == []
    for wrong in (text.format("SOJOURN_PASSES_SUM_H"), "// A sum.\n#pragma once\n\nint sum();\n", right[:-1]):
        (found,) = problems(lint.check_guards, tmp_path, "passes/deep/Sum.h", wrong)
        assert found.startswith("passes/deep/Sum.h lacks the include guard SOJOURN_PASSES_DEEP_SUM_H")


PATCH = """A bound is doubled.
Tests: {tests}

--- a/passes/Sum.cpp
+++ b/passes/Sum.cpp
@@ -1,2 +1,2 @@
 // A bound.
-{old}
+int bound = 2;
"""


@pytest.mark.parametrize(
    ("old", "tests", "found"),
    [
        ("int bound = 1;", "lit passes/sum.mlir", None),
        ("int bound = 1;", "pytest test/python/test_sum.py::test_bound -k one", None),
        ("int bound = 1;", "gtest sum-tests Bound.*", None),
        ("int bound = 3;", "lit passes/sum.mlir", "does not apply"),
        ("int bound = 1;", "lit passes/other.mlir", "names lit passes/other.mlir, which does not exist"),
        (
            "int bound = 1;",
            "pytest test/python/other.py -k one",
            "names pytest test/python/other.py, which does not exist",
        ),
        ("int bound = 1;", "gtest other-tests Bound.*", "names gtest other-tests, which does not exist"),
        ("int bound = 1;", "by hand", "names by hand, which does not exist"),
        ("int bound = 1;", "", "names no test"),
    ],
)
def test_broken_rules_do_not_rot(lint, tmp_path, old, tests, found):
    sources = {
        "passes/Sum.cpp": "// A bound.\nint bound = 1;\n",
        "test/passes/sum.mlir": "",
        "test/python/test_sum.py": "",
        "test/CMakeLists.txt": "add_executable(sum-tests SumTest.cpp)\n",
    }
    for name, text in sources.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    patch = PATCH.format(tests=tests, old=old)
    said = problems(lint.check_mutants, tmp_path, "test/mutants/01-bound.patch", patch)
    assert len(said) == (found is not None)
    assert found is None or (said[0].startswith("test/mutants/01-bound.patch ") and found in said[0])
    assert problems(lint.check_mutants, tmp_path, "test/other/01-bound.patch", patch) == []


LISTED = ["dialect/Dialect.td", "dialect/CoreOps.def", "dialect/Signature.def", "dialect/elements/Elements.def"]


@pytest.fixture
def lists(monkeypatch, tmp_path):
    """tools/lists.py over a copy of what it reads; its `change` edits one file of the copy."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    module = importlib.import_module("lists")
    numpy_files = [str(path.relative_to(ROOT)) for path in (ROOT / "owner/numpy").glob("*.py")]
    for name in LISTED + numpy_files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())

    def change(name, old, new):
        text = (tmp_path / name).read_text()
        assert text.count(old) == 1, (name, old)
        (tmp_path / name).write_text(text.replace(old, new))

    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "change", change, raising=False)
    return module


def all_lists(lists):
    return [*lists.check_elements(), *lists.check_signature(), *lists.check_core_ops()]


def test_the_lists_agree(lists):
    assert all_lists(lists) == []


@pytest.mark.parametrize(
    "name, old, new, expected",
    [
        ("owner/numpy/ops_contract.py", '@kernel("dot")', '@kernel("dots")', "ops_*.py has no @kernel for dot,"),
        ("owner/numpy/verify_reduce.py", '@rule("sort",', '@rule("sorts",', "verify_*.py has a @rule for sorts, which"),
        ("owner/numpy/ops_elementwise.py", '("neg", np.negative), ', "", "ops_*.py has no @kernel for neg,"),
        ("owner/numpy/ops_reduce.py", '_scan("cumsum", ', '_scan("sum", ', "ops_*.py has no @kernel for cumsum,"),
        ("owner/numpy/verify_elementwise.py", '"shl shr"', '"shl"', "verify_*.py has no @rule for shr,"),
        ("dialect/CoreOps.def", "(dot, 1, implemented", "(dot, 1, planned", "ops_*.py has a @kernel for dot, which"),
        (
            "dialect/CoreOps.def",
            "SOJOURN_CORE_OP(fft_c2c,",
            'SOJOURN_CORE_OP(fft_more, 2, implemented, "")\nSOJOURN_CORE_OP(fft_c2c,',
            "verify_*.py has no @rule for fft_more, which",
        ),
        ("dialect/Dialect.td", "[UI8, I8, I16,", "[UI8, I16,", "dialect/Dialect.td lacks I8 of"),
        ("owner/numpy/types.py", 'np.int8, "Z"', 'np.int8, "F"', "types.py has i8 as F, dialect/elements/Elements.def"),
        ("owner/numpy/types.py", '"bf16": (', '"bf17": (', "types.py lacks bf16 of"),
        ("dialect/Signature.def", "ARG(Slot, slot,", "ARG(Socket, socket,", "do not know the kind of argument socket"),
    ],
)
def test_a_list_that_differs_is_named(lists, name, old, new, expected):
    lists.change(name, old, new)
    problems = all_lists(lists)
    assert any(expected in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("# What may be left.\n\n# The library keeps it.\nleak:library\n", []),
        ("# What may be left.\n", []),
        ("# What may be left.\nleak:library\n", [2]),
        ("leak:library\n", [1]),
        ("# What may be left.\n\n# The library keeps it.\nleak:library\nleak:ours\n", [5]),
        ("# What may be left.\n\n#\nleak:library\n", [4]),
    ],
)
def test_what_is_suppressed_has_a_reason(lint, tmp_path, text, lines):
    said = problems(lint.check_suppressions, tmp_path, "test/sanitize/leaks.supp", text)
    assert [line.split(" ")[0] for line in said] == [f"test/sanitize/leaks.supp:{number}" for number in lines]


def tree(tmp_path, files):
    """Files of the texts, and their paths."""
    paths = [tmp_path / name for name in files]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path.relative_to(tmp_path).as_posix()])
    return paths


@pytest.mark.parametrize(
    "name, include, allowed",
    [
        ("frontend/wire/New.cpp", '"owner/Store.h"', False),
        ("frontend/wire/New.cpp", '"frontend/session/Session.h"', False),
        ("frontend/wire/New.cpp", '"frontend/recording/Tensor.h"', False),
        ("frontend/wire/New.cpp", '"frontend/recording/Trace.h"', True),
        ("frontend/wire/New.cpp", '"frontend/wire/Client.h"', True),
        ("frontend/wire/New.cpp", '"frontend/Sojourn.h"', False),
        ("frontend/wire/New.cpp", '"frontend/Error.h"', True),
        ("frontend/wire/New.cpp", "<vector>", True),
        ("frontend/wire/New.cpp", "<sys/stat.h>", True),
        ("frontend/recording/New.cpp", '"mlir/IR/Value.h"', False),
        ("frontend/compile/New.cpp", "<ATen/ATen.h>", False),
        ("owner/ledger/New.cpp", '"owner/Accounts.h"', False),
        ("owner/New.h", '"owner/ledger/Ledger.h"', True),
        ("dialect/New.h", '"dialect/rows/Fact.h"', False),
        ("dialect/New.h", '"dialect/rows/Rules.h"', True),
        ("runtime/New.h", '"test/runtime/Programs.h"', False),
        ("test/runtime/New.h", '"frontend/bind/Bind.h"', True),
    ],
)
def test_folders_include_what_lies_below(lint, tmp_path, name, include, allowed):
    said = problems(lint.check_layers, tmp_path, name, f"// x\n\n#include {include}\n")
    assert len(said) == (not allowed), said
    for problem in said:
        assert problem.startswith(f"{name}:3 includes {include.strip('<>').strip(chr(34))}: ")
        assert " may include itself and " in problem


def test_each_folder_says_what_it_may_include(lint, tmp_path):
    (found,) = problems(lint.check_layers, tmp_path, "frontend/new/New.cpp", "")
    assert "frontend/new, which has no row" in found


def test_a_circle_that_is_listed_names_units_that_exist(lint):
    units = [unit for circle in lint.layers.CIRCLES for unit in circle.split()]
    assert [u for u in units if not (ROOT / f"{u}.h").exists() and not (ROOT / f"{u}.cpp").exists()] == []


def test_units_do_not_include_each_other_in_circles(lint, tmp_path):
    files = {
        "owner/A.h": "",
        "owner/A.cpp": '// a\n#include "owner/A.h"\n#include "owner/B.h"\n',
        "owner/B.h": '#include "owner/C.h"\n',
        "owner/C.cpp": '#include "owner/C.h"\n',
        "owner/C.h": "",
    }
    assert list(lint.check_circles(tree(tmp_path, files))) == []
    files["owner/C.cpp"] += '#include "owner/A.h"\n'
    (found,) = lint.check_circles(tree(tmp_path, files))
    assert found == "owner/A.cpp:3 closes a circle of 3 units: owner/A -> owner/B -> owner/C -> owner/A"


def test_modules_import_each_other_in_no_circle(lint, tmp_path):
    folder = "frontend/sojourn"
    files = {
        f"{folder}/one.py": "from __future__ import annotations\nfrom .two import name\n",
        f"{folder}/two.py": "from . import three\n\nthree.public()\n",
        f"{folder}/three.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .one import Type\n",
    }
    assert list(lint.check_modules(tree(tmp_path, files))) == []
    files[f"{folder}/three.py"] += "def late():\n    from .one import function\n"
    (found,) = lint.check_modules(tree(tmp_path, files))
    assert found == f"{folder}/one.py:2 closes a circle of modules: one -> two -> three -> one"
    files[f"{folder}/three.py"] = ""
    files[f"{folder}/two.py"] = "from . import three\nfrom .three import _private\nthree._hidden()\n"
    assert [text.split(" ", 1)[0] for text in lint.check_modules(tree(tmp_path, files))] == [
        f"{folder}/two.py:2",
        f"{folder}/two.py:3",
    ]


def test_a_known_circle_does_not_grow(lint, tmp_path, monkeypatch):
    monkeypatch.setattr(lint.layers, "CIRCLES", {"owner/A owner/B": "why"})
    files = {"owner/A.h": '#include "owner/B.h"\n', "owner/B.cpp": '#include "owner/A.h"\n', "owner/C.h": ""}
    assert list(lint.check_circles(tree(tmp_path, files))) == []
    files["owner/B.cpp"] += '#include "owner/C.h"\n'
    files["owner/C.h"] = '#include "owner/A.h"\n'
    (found,) = lint.check_circles(tree(tmp_path, files))
    assert found.endswith("; a known circle grows by owner/C")
    files["owner/B.cpp"] = files["owner/C.h"] = ""
    (found,) = lint.check_circles(tree(tmp_path, files))
    assert found.startswith("the circle of owner/A is now gone")


@pytest.mark.parametrize(
    "text, line",
    [
        ("/// What it is.\nstruct Plan; // owner/Plan.h\n", 2),
        ("/// What it is,\n/// at length.\n  class State;\n", 3),
        ("/// One.\ntemplate <class T>\nclass Map;\n", None),
        ("/// One.\nnamespace a { struct B; }\n", 2),
        ("/// One.\nenum class Kind : uint8_t;\n", 2),
        ("/// One.\nstruct Plan {};\n", None),
        ("/// One.\nstruct Plan final : Base {\n", None),
        ("int x; ///< one\n       ///< of many\nstruct Plan;\n", None),
        ("/// One.\n\nstruct Plan;\n", None),
        ("// owner/Plan.h\nstruct Plan;\n", None),
        ("/// One.\nstruct Plan make();\n", None),
    ],
)
def test_doc_comments_stand_over_definitions(lint, tmp_path, text, line):
    said = problems(lint.check_doc_comments, tmp_path, "owner/New.h", text)
    assert [problem.split()[0] for problem in said] == ([f"owner/New.h:{line}"] if line else [])


@pytest.mark.parametrize("value, is_right", [("'a'", False), ("1", True)])
def test_python_has_the_types_that_it_says(lint, tmp_path, value, is_right):
    assert lint.check_types([]) is None
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    if not (ROOT / ".venv/bin/mypy").exists():
        pytest.skip("mypy is not installed: tools/setup does")
    files = {
        "frontend/sojourn/__init__.py": "",
        "owner/numpy/__init__.py": f"def count() -> int:\n    return {value}\n",
        "tools/use.py": "import sojourn_numpy\n\n\ndef name() -> int:\n    return sojourn_numpy.count()\n",
        "pyproject.toml": re.sub(r"\[\[.*?\n\n", "", (ROOT / "pyproject.toml").read_text(), flags=re.DOTALL),
    }
    said = list(lint.check_types(tree(tmp_path, files)))
    assert [problem.split(" error:")[0] for problem in said] == ([] if is_right else ["owner/numpy/__init__.py:2:"])


def test_clang_tidy_sees_what_is_asked_for(lint, tmp_path, monkeypatch, capsys):
    files = {
        "owner/A.h": "",
        "owner/A.cpp": '#include "owner/A.h"\n',
        "owner/B.h": "",
        "owner/C.h": "",
        "owner/D.cpp": '#include "owner/B.h"\n',
    }
    paths = tree(tmp_path, files)
    names = [str(tmp_path / f"owner/{name}") for name in ("A.h", "B.h", "C.h")]
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    assert lint.tidy.main(names, tmp_path) == 0
    assert "skipped: clang-tidy-22 is not installed" in capsys.readouterr().out

    fake = folder / "clang-tidy-22"
    fake.write_text(
        '#!/bin/sh\nfor last; do :; done\necho "$last:1:1: warning: bad [x]"\n'
        f"echo '{tmp_path}/owner/B.h:2:1: warning: worse [x]'\necho '/usr/include/x.h:1:1: warning: not ours [x]'\n"
    )
    fake.chmod(0o755)
    assert lint.tidy.main(names, tmp_path) == 0
    assert "skipped: build/compile_commands.json is missing" in capsys.readouterr().out

    commands = [{"file": str(path)} for path in paths if path.suffix == ".cpp"]
    tree(tmp_path, {"build/compile_commands.json": json.dumps(commands)})
    assert lint.tidy.main(names, tmp_path) == 1
    assert capsys.readouterr().out.splitlines() == [
        "tidy: owner/C.h: skipped: no command in build/compile_commands.json compiles it",
        "tidy: owner/A.cpp: 2 found",
        "  owner/A.cpp:1:1: warning: bad [x]",
        "  owner/B.h:2:1: warning: worse [x]",
        "tidy: owner/D.cpp: 2 found",
        "  owner/B.h:2:1: warning: worse [x]",
        "  owner/D.cpp:1:1: warning: bad [x]",
        "tidy: 2 units, 2 with finds",
    ]
    fake.write_text("#!/bin/sh\n")
    assert lint.tidy.main(names[:1], tmp_path) == 0


def test_clang_tidy_looks_at_what_has_changed(lint, tmp_path):
    def git(*words):
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True)

    git("init", "-q", "-b", "main")
    tree(tmp_path, {"owner/A.h": "", "owner/B.h": "", "owner/C.h": ""})
    git("add", "-A")
    git("commit", "-qm", "one")
    git("checkout", "-qb", "work")
    tree(tmp_path, {"owner/A.h": "// a\n"})
    git("commit", "-qam", "two")
    tree(tmp_path, {"owner/B.h": "// b\n", "owner/D.cpp": "", "owner/E.py": ""})
    assert lint.tidy.changed(tmp_path) == ["owner/A.h", "owner/B.h", "owner/D.cpp"]
