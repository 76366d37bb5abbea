# SPDX-License-Identifier: Apache-2.0
"""Fuzzes what an owner reads from outside, with libFuzzer under the address and undefined-behaviour sanitizers.

    tools/fuzz messages --minutes 30     # one target, for 30 minutes of its process
    tools/fuzz --all --minutes 5         # each target in turn

A target goes on where it stopped: its corpus grows in build/fuzz/TARGET/corpus, beside the seeds of
test/fuzz/corpus/TARGET, and is reduced at the start of a run. A finding ends the run of its target. It is kept in
build/fuzz/TARGET/findings, with the command that plays it again. The exit status is 1 after a finding, or if too few
messages, programs or files were done to the end: then the run tested hardly anything.

Target `alias` is a program in Python, without sanitizers: random steps of views and writes beside eager torch
(test/python/alias/alias_fuzz.py). With --all it runs for at most a minute.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

import check_sanitizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
SEEDS = ROOT / "test/fuzz/corpus"
ASAN = check_sanitizers.SANITIZERS["asan"]
ALIAS = ROOT / "test/python/alias/alias_fuzz.py"
ALIAS_MINUTES = 1  # with --all
INPUT_BYTES = 1 << 18
MEMORY_MB = 4096
INPUT_SECONDS = 60
LEAST_DONE = 0.5
PROGRESS = re.compile(r"^#(\d+)\s+(\S+)\s+cov: (\d+).*exec/s: (\d+)")


@dataclasses.dataclass
class Target:
    name: str
    program: str
    unit: str  # what is counted

    @property
    def folder(self):
        return ROOT / "build/fuzz" / self.name

    @property
    def corpus(self):
        return self.folder / "corpus"

    @property
    def findings(self):
        return self.folder / "findings"


TARGETS = {
    target.name: target
    for target in (
        Target("messages", "fuzz-owner", "messages"),
        Target("programs", "fuzz-owner", "programs"),
        Target("settings", "fuzz-owner", "files"),
        Target("tables", "fuzz-owner", "files"),
        Target("artifacts", "fuzz-artifacts", "files"),
        Target("worker", "fuzz-owner", "requests"),
        Target("frames", "fuzz-owner", "steps"),
    )
}
PROGRAMS = sorted({target.program for target in TARGETS.values()})


@dataclasses.dataclass
class Outcome:
    """Of one run of a target."""

    inputs: int = 0
    done: int = 0
    late: int = 0
    refused: int = 0
    seconds: float = 0.0
    findings: list = dataclasses.field(default_factory=list)
    problem: str = ""

    @property
    def units(self):
        return self.done + self.late + self.refused

    @property
    def share(self):
        return self.done / self.units if self.units else 0.0

    @property
    def failed(self):
        return bool(self.findings or self.problem or self.share < LEAST_DONE)


def variables(target, **more):
    """The environment of a program: options of the sanitizers, its target."""
    options = ASAN.variables["ASAN_OPTIONS"] + ":detect_leaks=0:abort_on_error=1:handle_abort=1"
    return {
        **os.environ,
        **ASAN.variables,
        "ASAN_OPTIONS": options,
        "SOJOURN_FUZZ_TARGET": target.name,
        **{key: str(value) for key, value in more.items()},
    }


def program_of(target):
    return ASAN.folder / "bin" / target.program


def reduce(target):
    """Keeps of the corpus what reaches code that the rest does not."""
    if not any(target.corpus.glob("*")):
        return
    smaller = target.folder / "smaller"
    shutil.rmtree(smaller, ignore_errors=True)
    smaller.mkdir()
    command = [
        program_of(target),
        "-merge=1",
        f"-max_len={INPUT_BYTES}",
        f"-timeout={INPUT_SECONDS}",
        smaller,
        target.corpus,
    ]
    merged = subprocess.run(command, env=variables(target), cwd=target.folder, capture_output=True, text=True)
    if merged.returncode == 0 and any(smaller.iterdir()):
        shutil.rmtree(target.corpus)
        smaller.rename(target.corpus)
    else:
        shutil.rmtree(smaller)


def replay_command(target, finding):
    """What plays a finding again, as words of a shell."""
    settings = {
        "ASAN_OPTIONS": "allow_user_poisoning=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "SOJOURN_FUZZ_TARGET": target.name,
    }
    words = [f"{key}={value}" for key, value in settings.items()]
    return shlex.join([*words, str(program_of(target).relative_to(ROOT)), str(finding.relative_to(ROOT))])


def keep_findings(target, before, report, history):
    """Writes beside each new finding what it looked like and how it is played again; returns them."""
    beside = {".txt", ".history"}
    found = sorted(path for path in set(target.findings.glob("*-*")) - before if path.suffix not in beside)
    for finding in found:
        kept = finding.with_name(finding.name + ".history")
        if history.exists():
            shutil.copy(history, kept)
        lines = [
            f"plays the input alone:      {replay_command(target, finding)}",
            f"plays what it rests on too: SOJOURN_FUZZ_REPLAY={kept.relative_to(ROOT)} {replay_command(target, finding)}",
            "",
            *report[-400:],
        ]
        finding.with_name(finding.name + ".txt").write_text("\n".join(lines) + "\n")
    return found


def run(target, minutes, is_quiet):
    """Fuzzes a target for so long; returns its outcome."""
    for folder in (target.corpus, target.findings):
        folder.mkdir(parents=True, exist_ok=True)
    print(f"[fuzz] {target.name}: reducing {sum(1 for _ in target.corpus.glob('*'))} inputs", flush=True)
    reduce(target)
    counts, history = target.folder / "counts.json", target.folder / "history"
    for path in (counts, history):
        path.unlink(missing_ok=True)
    before = set(target.findings.glob("*"))
    command = [
        program_of(target),
        f"-max_total_time={max(1, round(60 * minutes))}",
        f"-max_len={INPUT_BYTES}",
        f"-timeout={INPUT_SECONDS}",
        f"-rss_limit_mb={MEMORY_MB}",
        "-print_final_stats=1",
        "-len_control=0",
        f"-artifact_prefix={target.findings}/",
        target.corpus,
        SEEDS / target.name,
    ]
    environment = variables(target, SOJOURN_FUZZ_COUNTS=counts, SOJOURN_FUZZ_HISTORY=history)
    begin, told, report = time.monotonic(), 0.0, []
    process = subprocess.Popen(
        command,
        cwd=target.folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        for line in process.stdout or ():
            report.append(line.rstrip("\n"))
            del report[:-2000]
            progress = PROGRESS.match(line)
            if progress and not is_quiet and time.monotonic() - told > 5:
                told = time.monotonic()
                number, _, coverage, rate = progress.groups()
                print(
                    f"[fuzz] {target.name}: {told - begin:.0f} s, {number} inputs ({rate}/s), {coverage} edges",
                    flush=True,
                )
        process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    outcome = Outcome(seconds=time.monotonic() - begin)
    if counts.exists():
        for key, value in json.loads(counts.read_text()).items():
            setattr(outcome, key, value)
    outcome.findings = keep_findings(target, before, report, history)
    if process.returncode != 0 and not outcome.findings:
        outcome.problem = f"exited with {process.returncode}"
        print("\n".join(report[-40:]), flush=True)
    elif outcome.share < LEAST_DONE:
        outcome.problem = (
            f"only {outcome.share:.0%} of the {target.unit} were done to the end, expected {LEAST_DONE:.0%}"
        )
    return outcome


def tell(target, outcome):
    print(
        f"[fuzz] {target.name}: {outcome.inputs} inputs in {outcome.seconds:.0f} s, {outcome.units} {target.unit}: "
        f"{outcome.done} done ({outcome.share:.0%}), {outcome.late} refused for what they ask, {outcome.refused} malformed"
    )
    for finding in outcome.findings:
        print(f"[fuzz] {target.name}: FOUND {finding.relative_to(ROOT)}; see {finding.name}.txt beside it")
    if outcome.problem:
        print(f"[fuzz] {target.name}: {outcome.problem}")
    sys.stdout.flush()


def run_alias(minutes):
    """Random programs of views and writes; whether one differs from eager torch."""
    path = os.pathsep.join([str(ROOT / "build/python"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(ALIAS), f"--seconds={60 * minutes:g}", f"--workers={len(os.sched_getaffinity(0))}"]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}).returncode != 0


def arguments_of(words=None):
    parser = argparse.ArgumentParser(
        prog="tools/fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join([*TARGETS, "alias"]))
    parser.add_argument("--all", action="store_true", help="each target in turn")
    parser.add_argument("--minutes", type=float, default=5, help="time for each target (default: 5)")
    parser.add_argument("--counts", type=pathlib.Path, help="write passed and failed targets as JSON")
    parser.add_argument("--no-build", action="store_true", help="with the programs that are there")
    parser.add_argument("--quiet", action="store_true", help="without progress")
    arguments = parser.parse_args(words)
    unknown = [name for name in arguments.targets if name not in (*TARGETS, "alias")]
    if unknown:
        parser.error(f"no target is named '{unknown[0]}'; the targets are {', '.join([*TARGETS, 'alias'])}")
    if bool(arguments.targets) == arguments.all:
        parser.error("expected names of targets, or --all")
    if not arguments.minutes > 0:
        parser.error(f"--minutes must be above 0, not {arguments.minutes:g}")
    return arguments


def main():
    arguments = arguments_of()
    targets = (
        list(TARGETS.values()) if arguments.all else [TARGETS[name] for name in arguments.targets if name != "alias"]
    )
    if targets and not arguments.no_build:
        if problem := check_sanitizers.build(ASAN, PROGRAMS):
            print(f"[fuzz] {problem}", file=sys.stderr)
            return 2
    outcomes = []
    for target in targets:
        outcomes.append(run(target, arguments.minutes, arguments.quiet))
        tell(target, outcomes[-1])
    failed, count = sum(outcome.failed for outcome in outcomes), len(outcomes)
    if arguments.all or "alias" in arguments.targets:
        failed += run_alias(min(arguments.minutes, ALIAS_MINUTES) if arguments.all else arguments.minutes)
        count += 1
    if arguments.counts:
        arguments.counts.write_text(json.dumps({"passed": count - failed, "failed": failed, "skipped": 0}))
    units = sum(outcome.units for outcome in outcomes)
    print(
        f"[fuzz] {sum(outcome.inputs for outcome in outcomes)} inputs, {units} units, {failed} of {count} targets failed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
