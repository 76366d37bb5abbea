# SPDX-License-Identifier: Apache-2.0
"""tools/fuzz beside a program that stands for libFuzzer's: outcomes, findings, where a run goes on."""

import json
import pathlib
import subprocess
import sys

import pytest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"

# What libFuzzer does as far as the tool looks: prints progress, writes counts, an input for the corpus and a crash.
PROGRAM = """#!{python}
import json, os, pathlib, sys
if "-merge=1" in sys.argv:
    smaller, corpus = map(pathlib.Path, sys.argv[-2:])
    (smaller / "kept").write_bytes(sorted(corpus.iterdir())[0].read_bytes())
    sys.exit(0)
print("#12\\tNEW    cov: 34 ft: 5 corp: 1/1b lim: 4 exec/s: 7 rss: 30Mb", flush=True)
corpus, seeds = map(pathlib.Path, sys.argv[-2:])
assert seeds.name == os.environ["SOJOURN_FUZZ_TARGET"] and any(seeds.iterdir())
(corpus / f"input-{{len(list(corpus.iterdir()))}}").write_text("found by this run")
pathlib.Path(os.environ["SOJOURN_FUZZ_COUNTS"]).write_text(json.dumps({counts}))
pathlib.Path(os.environ["SOJOURN_FUZZ_HISTORY"]).write_text("what it rests on")
if {crashes}:
    (prefix,) = [word.split("=", 1)[1] for word in sys.argv if word.startswith("-artifact_prefix=")]
    pathlib.Path(prefix + "crash-1234").write_text("the input")
    print("ERROR: AddressSanitizer: heap-buffer-overflow")
sys.exit({status})
"""
MANY = {"inputs": 10, "done": 30, "late": 5, "refused": 5}


@pytest.fixture
def fuzz(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import fuzz

    program = tmp_path / "build/asan/bin/fuzz-owner"
    program.parent.mkdir(parents=True)

    def play(counts=MANY, crashes=False, status=0):
        program.write_text(PROGRAM.format(python=sys.executable, counts=counts, crashes=crashes, status=status))
        program.chmod(0o755)

    monkeypatch.setattr(fuzz, "ROOT", tmp_path)
    monkeypatch.setattr(fuzz, "program_of", lambda target: program)
    monkeypatch.setattr(
        sys, "argv", ["fuzz", "messages", "--no-build", "--minutes=1", f"--counts={tmp_path / 'counts'}"]
    )
    fuzz.play = play
    fuzz.folder = tmp_path / "build/fuzz/messages"
    return fuzz


def test_a_run_counts_and_the_next_one_goes_on(fuzz, tmp_path, capsys):
    fuzz.play()
    assert fuzz.main() == 0
    text = capsys.readouterr().out
    assert "10 inputs" in text and "40 messages: 30 done (75%)" in text and "12 inputs (7/s), 34 edges" in text
    assert json.loads((tmp_path / "counts").read_text()) == {"passed": 1, "failed": 0, "skipped": 0}
    assert [path.name for path in (fuzz.folder / "corpus").iterdir()] == ["input-0"]
    assert fuzz.main() == 0  # reduced first
    assert sorted(path.name for path in (fuzz.folder / "corpus").iterdir()) == ["input-1", "kept"]
    assert "reducing 1 inputs" in capsys.readouterr().out


def test_a_finding_is_kept_with_how_it_is_played_again(fuzz, tmp_path, capsys):
    fuzz.play(crashes=True, status=77)
    assert fuzz.main() == 1
    assert "FOUND build/fuzz/messages/findings/crash-1234" in capsys.readouterr().out
    assert json.loads((tmp_path / "counts").read_text())["failed"] == 1
    text = (fuzz.folder / "findings/crash-1234.txt").read_text()
    assert "SOJOURN_FUZZ_TARGET=messages build/asan/bin/fuzz-owner build/fuzz/messages/findings/crash-1234\n" in text
    assert "heap-buffer-overflow" in text
    assert (fuzz.folder / "findings/crash-1234.history").read_text() == "what it rests on"
    fuzz.play()
    assert fuzz.main() == 0  # a finding of before is none of this run


def test_too_few_that_are_done_are_a_failure(fuzz, capsys):
    fuzz.play(counts={"inputs": 9, "done": 4, "late": 1, "refused": 5})
    assert fuzz.main() == 1
    assert "only 40% of the messages were done to the end, expected 50%" in capsys.readouterr().out
    fuzz.play(counts={"inputs": 0, "done": 0, "late": 0, "refused": 0})
    assert fuzz.main() == 1


def test_a_program_that_ends_without_a_finding_is_a_failure(fuzz, capsys):
    fuzz.play(status=3)
    assert fuzz.main() == 1
    assert "exited with 3" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, text",
    [
        (["nothing"], "no target is named 'nothing'; the targets are messages, programs, settings, tables, artifacts"),
        ([], "expected names of targets, or --all"),
        (["messages", "--all"], "expected names of targets, or --all"),
        (["messages", "--minutes=0"], "--minutes must be above 0, not 0"),
    ],
)
def test_arguments(fuzz, capsys, words, text):
    with pytest.raises(SystemExit) as ended:
        fuzz.arguments_of(words)
    assert ended.value.code == 2 and text in capsys.readouterr().err


@pytest.mark.slow
def test_seeds_are_recorded_anew(tmp_path):
    """As many as there are, of the same names: what they hold follows from the recorder of the day."""
    folder = TOOLS.parent / "test/fuzz"
    subprocess.run([sys.executable, folder / "record.py", tmp_path], check=True, capture_output=True)
    names = lambda root: sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    assert names(tmp_path) == names(folder / "corpus")
    assert all(path.stat().st_size < 100_000 for path in tmp_path.rglob("*"))
    assert str(TOOLS.parent).encode() not in b"".join(path.read_bytes() for path in (tmp_path / "messages").iterdir())


def test_targets_have_seeds_and_are_in_the_readme(fuzz):
    folder = TOOLS.parent / "test/fuzz"
    assert sorted(path.name for path in (folder / "corpus").iterdir()) == sorted(fuzz.TARGETS)
    readme = (folder / "README.md").read_text()
    assert all(f"| `{name}` |" in readme for name in fuzz.TARGETS)
