# SPDX-License-Identifier: Apache-2.0
"""House rules that `tools/lint` enforces: each finds what it forbids, and lets the right form pass."""

import importlib.machinery
import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def lint(monkeypatch, tmp_path):
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
        ("int bound = 1;", "lit passes/other.mlir", "names lit passes/other.mlir, which is not there"),
        (
            "int bound = 1;",
            "pytest test/python/other.py -k one",
            "names pytest test/python/other.py, which is not there",
        ),
        ("int bound = 1;", "gtest other-tests Bound.*", "names gtest other-tests, which is not there"),
        ("int bound = 1;", "by hand", "names by hand, which is not there"),
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
