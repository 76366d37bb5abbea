# SPDX-License-Identifier: Apache-2.0
"""The blocks of the documents run and print the shown output: README, quickstarts and guides.

Blocks of Python run in order in one namespace, blocks of shell in the same folder; the block of text behind them holds
their output, where `...` stands for anything. A block without one must print nothing.
"""

import importlib.util
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest
from documents_support import blocks, run_document, run_python

import sojourn

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = sorted((ROOT / "docs").glob("quickstart/*.md")) + sorted((ROOT / "docs").glob("guides/*.md"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_a_document_runs(path, tmp_path):
    """In order, in an empty folder."""
    sojourn.flush()  # ops that an earlier test left pending would join its first step
    text = path.read_text()
    assert list(blocks(text, "python", "sh"))
    if missing := run_document(str(path.relative_to(ROOT)), text, tmp_path):
        pytest.skip(f"all but the blocks that need {', '.join(sorted(missing))} ran; tools/setup --libraries")


def test_blocks_of_missing_packages_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("documents_support.OPTIONAL", {"no_such_package", "json"})
    text = "```python\nimport no_such_package\nraise SystemExit\n```\n```python\nimport json\n\nprint(json.dumps(1))\n```\n"
    assert run_document("a document", text + "```text\n1\n```\n", tmp_path) == {"no_such_package"}
    with pytest.raises(pytest.fail.Exception):
        run_document("a document", text + "```text\n2\n```\n", tmp_path)


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
    options = ["--name", "breast-cancer", "--policy", "open", "--anyone", "--bounds", rules, "--store", store]
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


def test_the_readme_trains_on_a_private_table():
    """With the two changes that the README names, and a budget."""
    private = ('policy="open"', 'policy="private"')
    granted = (
        "features = [",
        'owner.grant("breast-cancer", epsilon=4, delta=1e-5)\nfeatures = [',
    )
    loop = ("for x, y in table", "with sojourn.privacy(table, epsilon=3, delta=1e-5) as run:\n  for x, y in table")
    namespace = {}
    try:
        run_python(*readme(0, private=private, granted=granted, loop=loop), namespace)
        assert namespace["run"].taken == 180 and namespace["run"].epsilon == pytest.approx(3, rel=1e-2)
        assert 0 < namespace["loss"].stderr < 0.6
    finally:
        namespace["owner"].close()
