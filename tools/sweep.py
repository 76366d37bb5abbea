#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every operator of PyTorch's own test database, by its own samples, beside eager: forward and gradients.

    tools/sweep.py                          all operators, float32, at the native owner
    tools/sweep.py --dtypes float32,int64 --runtimes native,numpy --ops linalg
    tools/sweep.py --list failures          what did not pass, with the first sample's error
    tools/sweep.py --report                 totals and what does not pass, into docs/operators.md

An operator's entry passes where metadata (shape, dtype, strides), values and first gradients of all its samples are
eager's at torch's own tolerances. What is refused has to be refused when it is called, by a class of `sojourn.errors`
or eager's own exception. Results are kept in build/sweep and a later run goes on from them (`--again` forgets them).
Workers are processes: one that ends counts as a crash of the operator it was at.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import re
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "sweep"
SAMPLES = 30

#: What a sample can come to, from the best to the worst.
OUTCOMES = ["pass", "refused", "late", "other error", "metadata", "wrong", "internal", "crash"]


def entries():
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db


def title(op) -> str:
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def tensors_of(tree):
    import torch

    return [x for x in torch.utils._pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]


def moved(tree, device, grad: bool):
    """The same tree elsewhere, leaves that require gradients as leaves; views of one tensor stay views."""
    import torch

    def move(x):
        if not isinstance(x, torch.Tensor):
            return x
        there = x.detach().clone() if device == "cpu" else x.detach().to(device)
        if there.stride() != x.stride() and x.numel() and x.layout == torch.strided:
            base = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device) if _dense(x) else None
            there = base.copy_(there) if base is not None else there
        return there.requires_grad_(grad and x.requires_grad)

    return torch.utils._pytree.tree_map(move, tree)


def _dense(x) -> bool:
    reach = 1
    for stride, size in sorted((st, si) for st, si in zip(x.stride(), x.shape) if si > 1):
        if stride != reach:
            return False
        reach *= size
    return True


class Sweep:
    """The samples of one worker at one owner."""

    def __init__(self, runtime: str):
        import torch

        import sojourn

        sys.path.insert(0, str(ROOT / "test" / "python"))
        torch.set_num_threads(1)
        self.torch, self.sojourn = torch, sojourn
        self.owner = sojourn.local(runtime=runtime) if runtime != "native" else sojourn.local()

    def entry(self, op, dtype) -> dict:
        torch = self.torch
        counted = {part: collections.Counter() for part in ("forward", "gradient")}
        notes: dict[str, str] = {}
        torch.manual_seed(0)
        grads = op.supports_autograd and dtype.is_floating_point
        try:
            samples = list(op.sample_inputs("cpu", dtype, requires_grad=grads))
        except Exception as error:  # not of this dtype after all
            return {"skipped": f"{type(error).__name__}: {error}"[:200]}
        step = max(1, len(samples) // SAMPLES)
        for number, sample in enumerate(samples[::step][:SAMPLES]):
            outcomes = self.sample(op, sample, dtype, grads)
            for part, (outcome, note) in outcomes.items():
                counted[part][outcome] += 1
                if outcome != "pass":
                    notes.setdefault(f"{part} {outcome}", f"sample {number * step}: {note}"[:400])
        return {part: dict(counts) for part, counts in counted.items()} | {"notes": notes}

    def sample(self, op, sample, dtype, grads) -> dict:
        torch = self.torch
        tree = (sample.input, list(sample.args), dict(sample.kwargs))
        here, there = moved(tree, "cpu", grads), None

        def call(tree):
            return op.op(tree[0], *tree[1], **tree[2])

        try:
            torch.manual_seed(5)
            wanted = call(here)
        except Exception:  # eager does not do it either
            return {}
        try:
            there = moved(tree, self.owner.device, grads)
            there[2].update(
                {
                    k: self.owner.device
                    for k, v in there[2].items()
                    if isinstance(v, (str, torch.device)) and k == "device"
                }
            )
            torch.manual_seed(5)
            got = call(there)
        except Exception as error:
            return {"forward": self.failed(error, "refused")}
        wanted = sample.output_process_fn_grad(wanted)
        got = sample.output_process_fn_grad(got)
        pairs = list(zip(tensors_of(wanted), tensors_of(got)))
        for theirs, ours in pairs:
            if theirs.layout != torch.strided:
                return {"forward": ("metadata", f"{theirs.layout} was expected")}
            if (theirs.shape, theirs.dtype) != (ours.shape, ours.dtype) or (
                theirs.numel() > 1 and not op_is_random(op) and real_strides(theirs) != real_strides(ours)
            ):
                return {"forward": ("metadata", f"{describe(ours)}, expected {describe(theirs)}")}
        try:
            values = [ours.detach().cpu() if ours.device.type != "cpu" else ours for _, ours in pairs]
        except Exception as error:
            return {"forward": self.failed(error, "late")}
        if op_is_random(op):
            return {"forward": ("pass", "")}
        found = {"forward": self.compared([t.detach() for t, _ in pairs], values)}
        outputs = [(a, b) for a, b in pairs if a.requires_grad and a.numel()]
        if not grads or not outputs:
            return found
        leaves = [x for x in tensors_of(here) if x.requires_grad]
        remote = [x for x in tensors_of(there) if x.requires_grad]
        weights = [torch.randn(a.shape, dtype=a.dtype) for a, _ in outputs]
        try:
            wanted = torch.autograd.grad([a for a, _ in outputs], leaves, weights, allow_unused=True)
        except Exception:
            return found
        try:
            got = torch.autograd.grad(
                [b for _, b in outputs], remote, [w.to(self.owner.device) for w in weights], allow_unused=True
            )
        except Exception as error:
            return found | {"gradient": self.failed(error, "refused")}
        defined = [(a, b) for a, b in zip(wanted, got) if a is not None and b is not None]
        if any((a is None) != (b is None) and (a if a is not None else b).any() for a, b in zip(wanted, got)):
            return found | {"gradient": ("wrong", "a gradient is there on one side only")}
        try:
            values = [b.detach().cpu() for _, b in defined]
        except Exception as error:
            return found | {"gradient": self.failed(error, "late")}
        return found | {"gradient": self.compared([a.detach() for a, _ in defined], values)}

    def failed(self, error: Exception, outcome: str):
        torch = self.torch
        text = " ".join(f"{type(error).__name__}: {error}".split())
        try:
            self.sojourn.flush()  # what is left pending belongs to nobody
        except Exception:
            pass
        if "INTERNAL ASSERT" in text or isinstance(error, (AssertionError, SystemError)):
            return "internal", text
        if isinstance(error, self.sojourn.Error):
            return outcome, text
        return ("refused" if isinstance(error, (NotImplementedError, torch.OutOfMemoryError)) else "other error"), text

    def compared(self, wanted, got):
        for theirs, ours in zip(wanted, got):
            ours = ours.resolve_conj().resolve_neg()
            try:
                tolerance = {"rtol": 1e-4, "atol": 1e-5} if theirs.dtype == self.torch.float32 else {}
                self.torch.testing.assert_close(ours, theirs, equal_nan=True, **tolerance, check_stride=False)
            except AssertionError as error:
                return "wrong", " ".join(str(error).split())
        return "pass", ""


def op_is_random(op) -> bool:
    names = ("rand", "normal", "dropout", "multinomial", "bernoulli", "uniform", "cauchy", "exponential", "geometric",
             "log_normal", "empty", "rrelu", "fractional", "gumbel", "pca_lowrank", "svd_lowrank")  # fmt: skip
    return any(name in op.name for name in names)


def real_strides(x):
    return tuple(stride for stride, size in zip(x.stride(), x.shape) if size > 1)


def describe(x) -> str:
    return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)} strides {list(x.stride())}"


def work(runtime: str, tasks, results) -> None:
    warnings.simplefilter("ignore")
    sys.stderr = open(os.devnull, "w")
    sweep, ops = Sweep(runtime), {title(op): op for op in entries()}
    for name, dtype in iter(tasks.get, None):
        results.put(("begin", name, dtype, os.getpid()))
        start = time.monotonic()
        try:
            found = sweep.entry(ops[name], getattr(sweep.torch, dtype))
        except Exception as error:
            found = {
                "forward": {"internal": 1},
                "notes": {"forward internal": f"{type(error).__name__}: {error}"[:400]},
            }
        results.put(("end", name, dtype, found | {"seconds": round(time.monotonic() - start, 2)}))


def run(runtime: str, wanted, processes: int, seconds: float) -> None:
    """Runs what is not in the file yet; a worker that ends or hangs is replaced."""
    file = KEPT / f"{runtime}.json"
    kept = json.loads(file.read_text()) if file.exists() else {}
    left = [(name, dtype) for name, dtype in wanted if f"{name} {dtype}" not in kept]
    context = multiprocessing.get_context("spawn")
    done, total = 0, len(left)
    workers = []

    def start():
        tasks, results = context.Queue(), context.Queue()
        process = context.Process(target=work, args=(runtime, tasks, results), daemon=True)
        process.start()
        return {"process": process, "tasks": tasks, "results": results, "at": None, "since": time.monotonic()}

    workers = [start() for _ in range(min(processes, max(1, total)))]
    try:
        while done < total:
            for index, worker in enumerate(workers):
                if worker["at"] is None and left:
                    worker["at"], worker["since"] = left.pop(0), time.monotonic()
                    worker["tasks"].put(worker["at"])
                found = None
                try:
                    message = worker["results"].get(timeout=0.05)
                    found = message[3] if message[0] == "end" else None
                except Exception:
                    hangs = worker["at"] and time.monotonic() - worker["since"] > seconds
                    if worker["at"] and (hangs or not worker["process"].is_alive()):
                        why = "took too long" if hangs else f"ended with {worker['process'].exitcode}"
                        found = {"forward": {"crash": 1}, "notes": {"forward crash": f"the process {why}"}}
                        worker["process"].kill()
                        at = worker["at"]
                        workers[index] = start() | {"at": at}
                        worker = workers[index]
                if found is not None:
                    kept[" ".join(worker["at"])] = found
                    worker["at"] = None
                    done += 1
                    print(f"\r{runtime}: {done} of {total}", end="", file=sys.stderr, flush=True)
                    if done % 20 == 0 or done == total:
                        file.parent.mkdir(parents=True, exist_ok=True)
                        file.write_text(json.dumps(kept, indent=0, sort_keys=True))
    finally:
        for worker in workers:
            worker["process"].kill()
        if total:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(kept, indent=0, sort_keys=True))
            print(file=sys.stderr)


def verdict(entry: dict, part: str) -> str:
    counts = entry.get(part) or {}
    worst = [outcome for outcome in OUTCOMES if counts.get(outcome)]
    return worst[-1] if worst else "none"


def summary(runtimes) -> None:
    for runtime in runtimes:
        file = KEPT / f"{runtime}.json"
        if not file.exists():
            continue
        kept = json.loads(file.read_text())
        for dtype in sorted({key.split(" ")[1] for key in kept}):
            mine = {key.split(" ")[0]: entry for key, entry in kept.items() if key.endswith(" " + dtype)}
            for part in ("forward", "gradient"):
                counts = collections.Counter(verdict(entry, part) for entry in mine.values())
                counts.pop("none", None)
                if counts:
                    print(f"{runtime} {dtype} {part}: {counts['pass']} of {sum(counts.values())} pass; " + ", ".join(
                        f"{counts[o]} {o}" for o in OUTCOMES[1:] if counts[o]))  # fmt: skip


def said(entry: dict, part: str, outcome: str) -> str:
    """The first failing sample's text, without the places of this tool."""
    text = entry.get("notes", {}).get(f"{part} {outcome}", "")
    text = re.sub(r"^sample \d+: ", "", text)
    text = re.sub(r" at \S+\.py:\d+( \(backward of the op at \S+\.py:\d+\))?", "", text)
    return text.split("; express it by supported ops")[0].replace("|", "\\|")[:200]


def report() -> None:
    """What was run, as a document."""
    import torch

    lines = [
        "# Operators",
        "",
        "Each entry of PyTorch's own test database (`op_db`), by up to "
        + str(SAMPLES)
        + " of its own samples, beside eager on the",
        "CPU: metadata, values and first gradients. Made by `tools/sweep.py` and `tools/sweep.py --report`; PyTorch "
        + torch.__version__.split("+")[0]
        + ".",
        "",
        "| runtime | dtype | | pass | " + " | ".join(OUTCOMES[1:]) + " |",
        "|---|---|---|---|" + "---|" * len(OUTCOMES[1:]),
    ]
    details = []
    for file in sorted(KEPT.glob("*.json")):
        kept = json.loads(file.read_text())
        for dtype in sorted({key.split(" ")[1] for key in kept}):
            mine = {key.split(" ")[0]: entry for key, entry in sorted(kept.items()) if key.endswith(" " + dtype)}
            for part in ("forward", "gradient"):
                verdicts = {name: verdict(entry, part) for name, entry in mine.items()}
                counts = collections.Counter(verdicts.values())
                counts.pop("none", None)
                if not counts:
                    continue
                cells = [f"{counts['pass']} of {sum(counts.values())}", *(str(counts[o] or "") for o in OUTCOMES[1:])]
                lines.append(f"| {file.stem} | {dtype} | {part} | " + " | ".join(cells) + " |")
                for name, outcome in verdicts.items():
                    if outcome not in ("pass", "none"):
                        details.append(
                            f"| {name} | {file.stem} {dtype} {part} | {outcome} | {said(mine[name], part, outcome)} |"
                        )
    lines += [
        "",
        "## What does not pass",
        "",
        "| entry | run | outcome | the first sample says |",
        "|---|---|---|---|",
        *details,
    ]
    (ROOT / "docs" / "operators.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default="float32", help="comma-separated (default: float32)")
    parser.add_argument("--runtimes", default="native", help="native, numpy or both, comma-separated")
    parser.add_argument("--ops", default="", help="only operators whose name holds one of these, comma-separated")
    parser.add_argument("--again", action="store_true", help="run also what has been run")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300, help="an operator may take this long")
    parser.add_argument("--list", default="", help="print entries of one outcome, or 'failures'")
    parser.add_argument("--report", action="store_true", help="write docs/operators.md from what was run, run nothing")
    options = parser.parse_args()
    if options.report:
        return report()
    names = [part for part in options.ops.split(",") if part]
    runtimes = options.runtimes.split(",")
    import torch

    wanted = [
        (title(op), dtype)
        for dtype in options.dtypes.split(",")
        for op in entries()
        if getattr(torch, dtype) in op.supported_dtypes("cpu") and (not names or any(n in op.name for n in names))
    ]
    for runtime in runtimes:
        file = KEPT / f"{runtime}.json"
        if options.again and file.exists():
            kept = json.loads(file.read_text())
            for name, dtype in wanted:
                kept.pop(f"{name} {dtype}", None)
            file.write_text(json.dumps(kept, indent=0, sort_keys=True))
        run(runtime, wanted, options.processes, options.seconds)
    if options.list:
        for runtime in runtimes:
            for key, entry in sorted(json.loads((KEPT / f"{runtime}.json").read_text()).items()):
                for part in ("forward", "gradient"):
                    what = verdict(entry, part)
                    if what not in ("pass", "none") and options.list in (what, "failures"):
                        print(f"{key} {part}: {what}: {entry['notes'].get(f'{part} {what}', '')[:260]}")
    summary(runtimes)


if __name__ == "__main__":
    main()
