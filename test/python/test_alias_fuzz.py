# SPDX-License-Identifier: Apache-2.0
"""The fuzzer of aliasing programs: a short run, its shares of ops, its texts, and that it finds and shrinks a bug."""

import os
import pathlib
import signal
import statistics
import sys
import time

import pytest
import torch
from remote_support import fresh_seed, shared_owner

sys.path.insert(0, str(pathlib.Path(__file__).parent / "alias"))
import alias_fuzz
from alias_fuzz_compare import judge
from alias_fuzz_execute import Machine, Remote
from alias_fuzz_generate import KINDS, generate, shares
from alias_fuzz_ops import CONTROLS, SPECS
from alias_fuzz_program import parse
from alias_fuzz_shrink import shrink
from alias_fuzz_totals import Totals
from alias_fuzz_workers import Progress, Workers

SECONDS = 4
# Each alias bug of test/mutants is found by so many programs.
PROGRAMS = 999


def seed_of_programs():
    """The programs of the check are the same in each run, because a rare find says nothing of the change under test.
    `tools/fuzz alias` draws others, and so does SOJOURN_FRESH_EXAMPLES."""
    return fresh_seed("alias fuzz") if "SOJOURN_FRESH_EXAMPLES" in os.environ else 9_500_000


@pytest.mark.filterwarnings("ignore")
def test_a_thousand_programs():
    """The committed seeds come first."""
    first = seed_of_programs()
    run = alias_fuzz.Run(Remote(shared_owner().device))
    seeds = alias_fuzz.committed_seeds()
    seeds += range(first, first + PROGRAMS - len(seeds))
    for number, seed in enumerate(seeds, 1):
        run.one(seed)
        if run.found:
            ((_, program, verdict),) = run.found
            pytest.fail(f"program {number} of {PROGRAMS} (seed {seed}): {verdict.text}\n\n{program}")
    run.tell()
    assert not run.failed, "too few programs ran to the end"


@pytest.mark.filterwarnings("ignore")
def test_programs_of_numpy():
    seed = seed_of_programs()
    run = alias_fuzz.Run(Remote(shared_owner("numpy").device))
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        run.one(seed)
        seed += 1
    run.tell()
    assert not run.failed, "see the shrunken programs above"


def test_programs_are_long_and_have_every_kind():
    seed = seed_of_programs()
    programs = [generate(seed + number) for number in range(1500)]
    assert statistics.median(len(program.ops) for program in programs) >= 20
    rare = {kind: share for kind, share in shares(programs).items() if share < 0.05}
    assert not rare, rare
    assert set(KINDS) == set(SPECS) | CONTROLS
    for program in programs[:100]:
        assert str(parse(str(program))) == str(program)
    again = generate(seed)
    assert str(again) == str(programs[0])


class Forgetful(Machine):
    """Forgets that a view shares the memory of its base: as if `narrow` copied."""

    def one(self, number, op):
        super().one(number, op)
        if op.name == "narrow" and self.is_owner(op):
            name = op.outs[0]
            self.registers[name] = self.registers[name].detach().clone()

    def is_owner(self, op):
        value = self.registers.get(op.outs[0]) if op.outs else None
        return value is not None and value.device.type == "owner"


def test_a_bug_is_found_and_shrunken():
    seed = seed_of_programs()
    remote = Remote(shared_owner().device, Forgetful)
    for number in range(1000):
        verdict = judge(generate(seed + number), remote)
        if verdict.kind == "difference":
            break
    else:
        pytest.fail("1000 programs did not find it")
    fails = lambda program: judge(program, remote).kind == "difference"
    small = shrink(verdict.program, fails, tries=400)
    print(small)
    assert fails(small) and "narrow" in {op.name for op in small.ops} and len(small.ops) <= 2, str(small)
    assert str(parse(str(small))) == str(small)
    # The product has no such bug.
    assert judge(small, Remote(shared_owner().device)).kind == "same"


VALUES = """
    b0 = base(float32, (4,))
    r0 = narrow(b0, 0, 1, 2)
    add_number_(r0, 1)
"""


@pytest.mark.parametrize("mode", ["step", "repeat", "replay", "loop", "outside", "failing"])
def test_modes_see_a_difference(mode):
    """An owner that loses every write to a view: each mode compares what such writes reach."""

    class Loses(Machine):
        def one(self, number, op):
            if op.name == "add_number_" and self.is_remote_op(op):
                with torch.no_grad():
                    self.registers[op.args[0].name].clone().add_(1)
            else:
                super().one(number, op)

        def is_remote_op(self, op):
            return self.registers[op.args[0].name].device.type == "owner"

    program = parse(f"mode {mode}\nseed {fresh_seed(mode)}\n{VALUES}")
    verdict = judge(program, Remote(shared_owner().device, Loses))
    assert (verdict.kind, verdict.category) == ("difference", "value"), verdict
    assert judge(program, Remote(shared_owner().device)).kind == "same"


def test_replays_are_replayed():
    remote = Remote(shared_owner().device)
    for mode in ("replay", "loop"):
        assert judge(parse(f"mode {mode}\nseed 3\n{VALUES}"), remote).kind == "same"
    assert remote.replayed == 4 and remote.traced == 4


def end_this_process():
    os.kill(os.getpid(), signal.SIGKILL)


def ends_at_some(sender, seeds, end, path):
    """A batch of a worker: seeds 3 and 5 end its process."""
    totals, progress = Totals(), Progress(path)
    for done, seed in enumerate(seeds):
        progress.write(seed, done)
        if seed in (3, 5):
            end_this_process()
        totals.verdicts["same"] += 1
    sender.send(totals)


def ends_in_torch(seed):
    """Seed 3 ends eager torch too."""
    if seed == 3:
        end_this_process()


def raises(*given):
    raise ValueError("a mistake of the fuzzer")


def test_programs_that_end_their_process(tmp_path):
    """They are told, and the others of the batch count once."""
    workers = Workers(2, ends_at_some, ends_in_torch, tmp_path, ())
    totals = workers.all(iter(range(1, 9)), 8)
    assert (totals.programs, totals.torch_died, totals.died) == (6, [3], [5])
    assert totals.failed and not list(tmp_path.iterdir())


def test_mistakes_of_the_fuzzer_are_no_deaths(tmp_path):
    with pytest.raises(RuntimeError, match="a worker ended"):
        Workers(1, raises, ends_in_torch, tmp_path, ()).all(iter([1]), 1)
    with pytest.raises(RuntimeError, match="eager torch raised at seed 3"):
        Workers(1, ends_at_some, raises, tmp_path, ()).all(iter([3]), 1)
    assert Totals().failed


STEP_THAT_RAISES = """
    mode failing
    seed {seed}
    b0 = base(float32, (4,))
    no_grad: r0 = cut(b0, 0, 1, 3, 1)
    no_grad: add_number_(r0, 1)
    fail()
    r0 = mul_number(b0, 2)
"""


class Commits(Remote):
    """Its steps commit where they ought to fail."""

    def fail(self, program, machine, parts):
        self.machine(machine.registers, False).run(parts.failing, len(parts.before))


@pytest.mark.parametrize("seed", [4, 5])  # with arguments that are sent before, and not
def test_steps_that_raise(seed):
    program = parse(STEP_THAT_RAISES.format(seed=seed))
    assert judge(program, Remote(shared_owner().device)).kind == "same"
    verdict = judge(program, Commits(shared_owner().device))
    assert (verdict.kind, verdict.category) == ("difference", "value"), verdict
