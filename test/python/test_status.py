# SPDX-License-Identifier: Apache-2.0
"""What a running server tells of itself: status, metrics, its log as JSON, its state to systemd; and how it ends."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request

import pytest
import torch
from long_steps import long_step
from owner_process import ROOT, OwnerProcess

import sojourn

TOOL = ROOT / "build/bin/sojourn-owner"


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def told(*words):
    done = subprocess.run([TOOL, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def work(process, steps=5):
    """A client that keeps a value of 4,000 bytes; the owner's steps and refusals."""
    owner = sojourn.connect(process.address)
    kept = torch.ones(1000).to(owner.device) * 2
    sojourn.flush()
    for i in range(steps):
        assert (torch.ones(3).to(owner.device) + i).tolist() == [1 + i] * 3
    with pytest.raises(sojourn.Error):
        owner.dataset("absent")
    return owner, kept


def test_status_of_a_store_without_a_server(tmp_path):
    config = tmp_path / "owner.toml"
    config.write_text("drain_seconds = 3\n[steps]\nseconds = 5\n")
    text = told("status", "--store", tmp_path / "store", "--config", config)
    assert text.startswith("no server runs on this store\nsettings of a new one\n")
    assert "  drain_seconds = 3.0\n" in text and "  steps.seconds = 5.0\n" in text
    assert json.loads(told("status", "--json", "--store", tmp_path / "store"))["servers"] == []


def test_status_and_metrics_count(tmp_path):
    port = free_port()
    config = tmp_path / "owner.toml"
    config.write_text(f'metrics = "127.0.0.1:{port}"\n[requests]\nat_once = 77\n[values]\nbytes = 8_000_000\n')
    process = OwnerProcess(tmp_path, None, "--config", str(config), "--step-seconds", "33")
    try:
        owner, kept = work(process)
        with owner:
            text = told("status", "--store", process.store)
            assert re.match(rf"server {process.pid}, listening on {process.address} for \d+ seconds\n", text)
            assert "requests.at_once = 77" in text and "steps.seconds = 33.0" in text
            (server,) = json.loads(told("status", "--json", "--store", process.store))["servers"]
            assert server["steps"] == 6 and len(kept) == 1000
            assert server["sessions"] == {"all": 1, "without_identity": 1}
            assert server["values"]["bytes"] == server["values"]["bytes_without_identity"] >= 4000
            assert server["values"]["bytes_most"] == 8_000_000
            assert server["large"] == {"running": 0, "waiting": 0}

            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
                assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                lines = answer.read().decode().splitlines()
            found = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
            assert float(found["sojourn_steps_total"]) == server["steps"]
            assert float(found['sojourn_sessions{identity="no"}']) == 1
            assert float(found['sojourn_value_bytes{identity="no"}']) == server["values"]["bytes"]
            assert float(found["sojourn_requests_total"]) >= server["requests"]
            assert 1e6 < float(found["process_resident_memory_bytes"]) < 1e11
            names = {re.split(r"[ {]", line)[0] for line in lines if not line.startswith("#")}
            for name in names:  # each is described once, before its samples
                assert sum(line.startswith(f"# TYPE {name} ") for line in lines) == 1
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=20) as answer:
                assert answer.read() == b"ok\n"
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/store", timeout=20)
            (entry,) = (process.store / "servers").iterdir()
            assert entry.stat().st_mode & 0o777 == 0o600
    finally:
        assert process.close() == 0
    assert list((process.store / "servers").iterdir()) == []


def test_a_file_among_the_sockets_stays(tmp_path):
    process = OwnerProcess(tmp_path)
    file = process.store / "servers/precious.sock"
    file.write_text("x")
    assert told("status", "--store", process.store).startswith(f"server {process.pid},")
    assert file.read_text() == "x"
    assert process.close() == 0


def test_settings_that_follow_from_the_machine_are_shown(tmp_path):
    text = told("status", "--store", tmp_path / "store")
    for name in ("steps.operations", "steps.all_arena_bytes", "steps.threads", "values.bytes"):
        value = float(re.search(rf"  {re.escape(name)} = (\S+)", text)[1])
        assert value > 0, name
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    shown = {name: int(re.search(rf"  {name} = (\d+)", text)[1]) for name in ("values.bytes", "steps.all_arena_bytes")}
    assert sum(shown.values()) < 0.8 * memory


def test_threads_are_those_of_the_processors_that_it_may_use(tmp_path):
    mine = sorted(os.sched_getaffinity(0))
    for processors in (mine[:1], mine):
        command = ["taskset", "-c", ",".join(map(str, processors)), TOOL, "status", "--store", tmp_path / "none"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert f"steps.threads = {len(processors)}\n" in done.stdout, done.stderr


def test_a_killed_server_is_forgotten(tmp_path):
    process = OwnerProcess(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    process._process.wait()
    assert told("status", "--store", process.store).startswith("no server runs")
    again = OwnerProcess(tmp_path)
    assert told("status", "--store", again.store).startswith(f"server {again.pid},")
    assert again.close() == 0


@pytest.mark.parametrize(
    "options, text",
    [
        (["--metrics", "here"], "the address of the metrics is 'here', expected host:port"),
        (["--metrics", "0.0.0.0:9464"], "is '0.0.0.0:9464', expected one of this machine, such as 127.0.0.1:9464"),
        (["--log", "xml"], "the form of the log is 'xml', expected text or json"),
        (["--config", "absent.toml"], "cannot read 'absent.toml'"),
    ],
)
def test_wrong_settings_are_named(tmp_path, options, text):
    command = [TOOL, "serve", "--store", tmp_path / "store", "--listen", f"ipc://{tmp_path}/o.sock", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and text in done.stderr
    assert not (tmp_path / "store").exists()


def test_a_port_in_use_is_an_error(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [TOOL, "serve", "--store", tmp_path / "store", "--listen", f"ipc://{tmp_path}/o.sock"]
        done = subprocess.run([*command, "--metrics", f"127.0.0.1:{port}"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"cannot serve metrics on '127.0.0.1:{port}': " in done.stderr


def test_the_log_as_json(tmp_path):
    process = OwnerProcess(tmp_path, None, "--log", "json")
    owner, _ = work(process)
    owner.close()
    assert process.close() == 0
    lines = [json.loads(line) for line in process.log().splitlines() if line.startswith("{")]
    assert len(lines) > 10
    for line in lines:
        assert [key for key in line if key not in {"event", "client"}] == ["time", "level", "text"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
        assert line["level"] in {"debug", "info", "warning", "error"}
    assert any(line.get("event") == "session opened" and "session opened" in line["text"] for line in lines)


def test_refusals_in_the_log_as_json(tmp_path):
    process = OwnerProcess(tmp_path, None, "--log", "json")
    with sojourn.connect(process.address) as owner, pytest.raises(sojourn.OwnerError, match="call_seconds"):
        torch.linalg.svdvals(torch.ones(2000, 2000, dtype=torch.float64).to(owner.device)).sum().item()
    assert process.close() == 0
    lines = [json.loads(line) for line in process.log().splitlines() if line.startswith("{")]
    (refused,) = (line for line in lines if line.get("event") == "refused")
    assert refused["code"] == "Limit" and refused["request"] == "Step"
    assert f"Limit to {refused['client']}, Step at svd, " in refused["text"]


@pytest.mark.parametrize("kind", ["file", "abstract"])
def test_systemd_is_told(tmp_path, kind):
    name = f"{tmp_path}/notify" if kind == "file" else f"\0sojourn-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name)
        manager.settimeout(60)
        environment = dict(os.environ, NOTIFY_SOCKET=name.replace("\0", "@"))
        command = [TOOL, "serve", "--store", tmp_path / "store", "--listen", f"ipc://{tmp_path}/o.sock"]
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as child:
            assert manager.recv(100) == b"READY=1"
            sojourn.connect(f"ipc://{tmp_path}/o.sock").close()
            child.terminate()
            assert manager.recv(100) == b"STOPPING=1"
            assert child.wait(60) == 0


def health(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize("ends", ["itself", "second signal"])
def test_draining(tmp_path, ends):
    port = free_port()
    process = OwnerProcess(tmp_path, None, "--drain-seconds", "1000", "--metrics", f"127.0.0.1:{port}")
    child = long_step(process, 100 if ends == "itself" else 3000, 1024)
    process._wait(
        lambda: json.loads(told("status", "--json", "--store", process.store))["servers"][0]["large"]["running"]
    )
    assert health(port) == 200
    os.kill(process.pid, signal.SIGTERM)
    if ends != "itself":
        process._wait(lambda: health(port) == 503)
        with pytest.raises(subprocess.TimeoutExpired):
            process._process.wait(2)
        os.kill(process.pid, signal.SIGTERM)
    told_last = child.communicate(timeout=300)[0]
    assert told_last == "ended\n" if ends == "itself" else "the owner is closing" in told_last
    assert process._process.wait(60) == 0


def test_the_unit_file(tmp_path):
    unit = pathlib.Path(ROOT / "owner/sojourn-owner.service").read_text()
    command = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)[1].split()
    assert command[1] == "serve"
    help_text = told("serve", "--help")
    assert all(word.split("=")[0] in help_text for word in command[2:] if word.startswith("--"))
    assert "Type=notify" in unit
