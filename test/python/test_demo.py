# SPDX-License-Identifier: Apache-2.0
"""The demo as a user runs it (after set-up): three runs agree, a private one is paid for, a folder is left."""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_demo(tmp_path):
    command = [
        sys.executable,
        ROOT / "tools/demo.py",
        "--epochs",
        "2",
        "--batch",
        "50",
        "--seeds",
        "1",
        "--out",
        tmp_path,
    ]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "round trips per step" in done.stdout

    reports = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in ("plain", "embedded", "served")}
    plain = reports["plain"]
    for name in ("embedded", "served"):
        report = reports[name]
        assert report["round_trips_per_step"] == 1
        assert 0 < report["bytes_up_per_warm_step"] <= 1024
        assert report["accuracy"] == plain["accuracy"]
        assert max(abs(a - b) for a, b in zip(report["losses"], plain["losses"])) < 1e-5
        for parameter, values in report["parameters"].items():
            assert max(abs(a - b) for a, b in zip(values, plain["parameters"][parameter])) < 1e-4

    private = json.loads((tmp_path / "private.json").read_text())
    assert private["round_trips_per_step"] == 1 and private["steps"] == plain["steps"]
    assert abs(private["privacy"]["epsilon"] - 3) < 1e-3 and private["privacy"]["delta"] == 1e-5
    assert private["accuracy"] > 0.5
    assert re.search(r"price: epsilon\W+- \W+- \W+- \W+3\b", done.stdout)
    accuracy = json.loads((tmp_path / "accuracy.json").read_text())
    assert list(accuracy) == ["open", "0.5", "1", "2", "3", "5", "8"]
    assert accuracy["open"] == [plain["accuracy"]] and all(len(runs) == 1 for runs in accuracy.values())

    for picture in ("loss.png", "accuracy.png"):
        assert (tmp_path / picture).stat().st_size > 10_000
    phases = {path.name.split("-", 1)[1] for path in (tmp_path / "ir-served").glob("*/*.mlir")}
    assert phases == {"captured.mlir", "functional.mlir", "promoted.mlir", "decomposed.mlir", "core.mlir"}
    assert (tmp_path / "owner-programs.txt").read_text().strip()

    dump = sorted((tmp_path / "ir-embedded").iterdir())[1]
    replay = subprocess.run([ROOT / "build/bin/sojourn-translate", "--replay", dump], capture_output=True, text=True)
    assert replay.returncode == 0, replay.stdout + replay.stderr
