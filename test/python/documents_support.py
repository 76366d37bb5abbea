# SPDX-License-Identifier: Apache-2.0
"""Runs the blocks of a document and compares their output with the one that it shows."""

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

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
IMPORT = re.compile(r"^(?:from|import) (\w+)", re.MULTILINE)
# Of tools/setup --libraries: a block that imports one runs where it is installed, as in tools/check --all.
OPTIONAL = {"accelerate", "lightning", "safetensors", "skorch", "transformers"}


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
        for library in [*OPTIONAL, r"torch\.jit"]:  # what libraries say of torch and of each other
            warnings.filterwarnings("ignore", module=rf"{library}\b")
        warnings.filterwarnings("ignore", rf"({'|'.join(OPTIONAL)}) reads values here")  # the guide says so
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


def missing_packages(code):
    """Optional packages that a block imports and that are not installed."""
    return {name for name in OPTIONAL.intersection(IMPORT.findall(code)) if importlib.util.find_spec(name) is None}


def run_document(name, text, folder):
    """Runs the blocks of a document in a folder, and puts back whatever they changed of this process.

    Returns the packages for want of which blocks were left out.
    """
    namespace = {"__name__": "__main__"}
    missing = set()
    here = os.getcwd()
    with mock.patch.dict(os.environ):
        os.chdir(folder)
        try:
            for language, code, line, expected in blocks(text, "python", "sh"):
                if language == "python" and (wanting := missing_packages(code)):
                    missing |= wanting
                    continue
                printed = run_python(code, name, line, namespace) if language == "python" else run_shell(code)
                compare(expected, printed, f"{name}:{line}")
        finally:
            os.chdir(here)
            if "owner" in namespace:
                namespace["owner"].close()
            for server in folder.glob("*.pid"):
                with contextlib.suppress(ProcessLookupError):  # the last block stops the server, where it is reached
                    os.kill(int(server.read_text()), signal.SIGTERM)
    return missing
