# SPDX-License-Identifier: Apache-2.0
"""What the documents show runs, and prints what they say: README's snippets and the tutorial.

Blocks of Python run in order in one namespace, blocks of shell in the same folder; the block of text behind them holds
their output, where `...` stands for anything. A block without one must print nothing.
"""

import contextlib
import doctest
import importlib.util
import io
import os
import pathlib
import re
import signal
import subprocess
import warnings
from unittest import mock

import numpy as np
import pytest
import torch

import sojourn

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(text, *languages):
    """(language, code, its first line, output that is shown behind it or None)."""
    found = list(FENCE.finditer(text))
    for at, block in enumerate(found):
        if block[1] in languages:
            after = found[at + 1] if at + 1 < len(found) else None
            shown = after is not None and after[1] == "text" and not text[block.end() : after.start()].strip()
            yield block[1], block[2], text.count("\n", 0, block.start(2)) + 1, after[2] if shown else None


def run_python(code, name, line, namespace):
    """What the code prints. Its lines are those of the document, in errors too."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), warnings.catch_warnings():
        warnings.simplefilter("error")  # a reader would see it
        exec(compile("\n" * (line - 1) + code, name, "exec"), namespace)
    return output.getvalue()


def run_shell(code):
    path = f"{ROOT / 'build/bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["bash", "-euc", code], capture_output=True, text=True, env={**os.environ, "PATH": path})
    return done.stdout + done.stderr


def compare(expected, printed, where):
    checker = doctest.OutputChecker()
    example = doctest.Example(source="", want=expected or "")
    if not checker.check_output(example.want, printed, FLAGS):
        pytest.fail(f"{where}:\n{checker.output_difference(example, printed, FLAGS)}", pytrace=False)


def run_document(name, text, folder):
    """Runs the blocks of a document in a folder, and puts back whatever they changed of this process."""
    namespace = {"__name__": "__main__"}
    here = os.getcwd()
    with mock.patch.dict(os.environ):
        os.chdir(folder)
        try:
            for language, code, line, expected in blocks(text, "python", "sh"):
                printed = run_python(code, name, line, namespace) if language == "python" else run_shell(code)
                compare(expected, printed, f"{name}:{line}")
        finally:
            os.chdir(here)
            if "owner" in namespace:
                namespace["owner"].close()
            if (folder / "serve.pid").exists():
                with contextlib.suppress(ProcessLookupError):  # the last block stops the server, where it is reached
                    os.kill(int((folder / "serve.pid").read_text()), signal.SIGTERM)


@pytest.mark.parametrize("name", ["tutorial-private.md"])
def test_a_tutorial_does_what_it_says(name, tmp_path):
    sojourn.flush()  # what an earlier test left pending would travel with it
    text = (ROOT / "docs" / name).read_text()
    assert len(list(blocks(text, "python", "sh"))) > 10
    run_document(f"docs/{name}", text, tmp_path)


def test_a_document_that_fails_leaves_nothing_behind(tmp_path):
    here, before = os.getcwd(), dict(os.environ)
    code = "import os\nos.environ['SOJOURN_DUMP'] = os.getcwd()\n"
    for more, error in (("print(1)\n", pytest.fail.Exception), ("1 / 0\n", ZeroDivisionError)):
        with pytest.raises(error):
            run_document("a document", f"```python\n{code}{more}```\n", tmp_path)
        assert os.getcwd() == here and dict(os.environ) == before


def example():
    spec = importlib.util.spec_from_file_location("breast_cancer", ROOT / "examples/breast_cancer.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def readme(number, **replaced):
    """A snippet of the README; what is replaced stands there once."""
    _, code, line, _ = list(blocks((ROOT / "README.md").read_text(), "python"))[number]
    for before, after in replaced.values():
        assert code.count(before) == 1, before
        code = code.replace(before, after)
    return code, "README.md", line


def table_of(namespace):
    """What a served owner's folder gets of the snippet's table."""
    return {name: np.ascontiguousarray(values) for name, values in namespace["columns"].items()}


def import_table(store, tmp_path, namespace):
    np.savez(tmp_path / "table.npz", **table_of(namespace))
    rules = tmp_path / "bounds.toml"
    rules.write_text("".join(f'"{name}" = [{low}, {high}]\n' for name, (low, high) in namespace["bounds"].items()))
    options = ["--name", "breast-cancer", "--policy", "open", "--bounds", rules, "--store", store]
    subprocess.run([ROOT / "build/bin/sojourn-owner", "import", tmp_path / "table.npz", *options], check=True)


def test_the_readme_runs_as_it_is_copied():
    namespace = {}
    printed = run_python(*readme(0), namespace)
    assert re.fullmatch(r"tensor\(\d\.\d+\)\n", printed) and float(namespace["loss"]) < 0.4
    namespace["owner"].close()


def test_the_readme_trains_at_a_served_owner(owner_process, tmp_path):
    namespace = {}
    run_python(*readme(0), namespace)
    namespace["owner"].close()
    import_table(owner_process.store, tmp_path, namespace)
    connect = ("sojourn.local()", f'sojourn.connect("{owner_process.address}")')
    register = (
        'owner.register("breast-cancer", columns, policy="open", bounds=bounds)',
        'owner.dataset("breast-cancer")',
    )
    namespace = {}
    try:
        printed = run_python(*readme(0, connect=connect, register=register), namespace)
        assert re.fullmatch(r"tensor\(\d\.\d+\)\n", printed)
        assert float(namespace["loss"]) < 0.4
    finally:
        namespace["owner"].close()


def test_the_readme_ports_a_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"sojourn": sojourn, "torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    x = torch.randn(2048, 20)
    namespace["dataset"] = torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
    losses = [float(loss) for loss in re.findall(r"loss (\d\.\d+)", run_python(*readme(1), namespace))]
    assert len(losses) == 64 and sum(losses[-8:]) < sum(losses[:8])
    saved = torch.load(tmp_path / "model.pt")
    assert {key: value.device.type for key, value in saved.items()} == {"weight": "cpu", "bias": "cpu"}


def test_the_readme_trains_on_a_private_table():
    namespace = {}
    run_python(*readme(0), namespace)
    owner = namespace["owner"]
    columns = {**namespace["columns"], "age": np.random.default_rng(3).uniform(20, 90, 569)}
    bounds = {**namespace["bounds"], "age": (0, 120)}
    try:
        namespace["columns"] = columns
        namespace["low"], namespace["high"] = ({name: pair[side] for name, pair in bounds.items()} for side in (0, 1))
        printed = run_python(*readme(2), namespace)
        assert re.match(
            r"privacy on 'patients': epsilon 3 .* 180 steps, .* spent so far epsilon 3 in 180 steps", printed
        )
        assert "granted                    4" in printed
        assert set(namespace["weights"]) == set(namespace["model"].state_dict())
        mean = namespace["mean"]
        assert abs(float(mean) - columns["age"].mean()) < 12 * mean.stderr and mean.receipt.client == "local"
    finally:
        owner.close()
