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
