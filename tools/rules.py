# SPDX-License-Identifier: Apache-2.0
"""Checks the rules of dialect/rows: runs each core op on operands of every fact and compares the claimed facts with the
values. Then compares the change caused by one row in rewritten programs with the sensitivity that the rewrite
reports.

Depth 1 is every candidate of one op (or of several ops that rules read as one). Depth 2 and 3 build on the results of
the depth before, at random, until the time is up. A rule with a false claim is shown with the simplest values that
break it and a program for sojourn-opt. The checker is test/python/rules/.
"""

import argparse
import os
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/rules.md"
sys.path[:0] = [os.environ.get("SOJOURN_PYTHON", str(ROOT / "build/python")), str(ROOT / "test/python/rules")]


def arguments_of(words=None):
    parser = argparse.ArgumentParser(
        prog="tools/rules", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--depth", type=int, default=1, choices=(1, 2, 3), help="length of chains of ops (1)")
    parser.add_argument("--seconds", type=float, default=3600, help="time limit (3600); depth 1 ends by itself")
    parser.add_argument("--seed", type=int, help="repeats a run (default: a new seed, which is printed)")
    parser.add_argument(
        "--runs",
        type=int,
        default=50_000,
        help="candidates with at most this many choices of operands get all of them (50000), others 1500",
    )
    parser.add_argument(
        "--programs", type=int, default=150, help="rewritten programs of each kind, after the rules (150)"
    )
    parser.add_argument("--ops", default="", help="only these ops, comma-separated")
    parser.add_argument("--runtime", default="numpy", choices=("numpy", "both"), help="both: also the native kernels")
    parser.add_argument("--opt", type=pathlib.Path, help="another sojourn-opt, with a rule broken on purpose")
    parser.add_argument("--stop", action="store_true", help="stop at the first broken rule")
    parser.add_argument("--report", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--counts", type=pathlib.Path, help="write the numbers of passed and failed, for tools/check")
    return parser.parse_args(words)


def check(arguments):
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rule_driver import Driver, Options

    seed = random.SystemRandom().randrange(2**31) if arguments.seed is None else arguments.seed
    options = Options(arguments.depth, arguments.seconds, seed, arguments.runs, native=arguments.runtime == "both")
    options.ops = frozenset(filter(None, arguments.ops.split(",")))
    options.stop_at = int(arguments.stop)
    if arguments.opt:
        options.tools.opt = arguments.opt.resolve()
    console = Console()
    console.print(f"seed {seed}", highlight=False)
    with Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("depth 1", total=1.0)

        def show(report, share):
            depth = max(report.by_depth, default=1)
            text = f"depth {depth}: {report.instances} candidates, {report.failed} broken"
            progress.update(task, description=text, completed=share)

        return options, Driver(options, show).run()


def main():
    arguments = arguments_of()
    options, report = check(arguments)
    from clip_check import ClipCheck, clip_counterexample, clip_summary
    from rule_report import counterexamples, summary, write_counts, write_page

    if report.found:
        print(counterexamples(report))
    print(summary(report))
    clips = None
    if arguments.programs and not (report.failed and arguments.stop):
        clips = ClipCheck(report.seed, options.tools).run(arguments.programs)
        print(*map(clip_counterexample, clips.broken[:5]), clip_summary(clips), sep="\n")
    if arguments.report:
        write_page(PAGE, report, options.most, clips)
    if arguments.counts:
        write_counts(arguments.counts, report, clips)
    return 1 if report.failed or (clips and clips.broken) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("tools/rules: interrupted")
