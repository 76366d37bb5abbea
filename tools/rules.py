# SPDX-License-Identifier: Apache-2.0
"""Checks the rules of dialect/rows: each core op on operands of every fact, against runs that tell what the facts mean;
then what one row moves in rewritten programs, against the sensitivity that the rewrite reports.

Depth 1 is every candidate of one op (and what rules read as one); depth 2 and 3 build on the results of the depth before,
at random, for as long as there is time. A rule that claims what does not hold is shown with the simplest values that break
it and a program for sojourn-opt. The checker is test/python/rules/.
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
    parser.add_argument("--depth", type=int, default=1, choices=(1, 2, 3), help="ops in a row (1)")
    parser.add_argument("--seconds", type=float, default=3600, help="at most so long (3600); depth 1 ends by itself")
    parser.add_argument("--seed", type=int, help="repeats a run; a new one else, which is printed")
    parser.add_argument(
        "--runs",
        type=int,
        default=50_000,
        help="choices of operands' arrays up to which a candidate gets all of them (50000); else 1500 at random",
    )
    parser.add_argument(
        "--programs", type=int, default=150, help="rewritten programs of each way behind the rules (150)"
    )
    parser.add_argument("--ops", default="", help="of these ops alone, with commas between")
    parser.add_argument("--runtime", default="numpy", choices=("numpy", "both"), help="both: also the native kernels")
    parser.add_argument("--opt", type=pathlib.Path, help="another sojourn-opt, with a rule that is broken on purpose")
    parser.add_argument("--stop", action="store_true", help="end with the first broken rule")
    parser.add_argument("--report", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--counts", type=pathlib.Path, help="write how many passed and failed, for tools/check")
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
