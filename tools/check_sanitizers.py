# SPDX-License-Identifier: Apache-2.0
"""The programs that tools/check --all builds and runs under sanitizers, and their options.

asan: addresses, leaks and undefined behaviour. tsan: data races. Both use the loops of test/sanitize
in place of torch, each in its own folder below build/.
"""

import dataclasses
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
RULES = ROOT / "test/sanitize"
UNIT_BYTES = 2 << 30  # what the compiler takes for a unit that includes MLIR's headers
SYMBOLS = "external_symbolizer_path=/usr/lib/llvm-22/bin/llvm-symbolizer"


@dataclasses.dataclass
class Sanitizer:
    """A preset of CMakePresets.json, and programs with their options."""

    name: str
    programs: dict
    variables: dict

    @property
    def folder(self):
        return ROOT / "build" / self.name


# A convolution whose size is what is tested: minutes in plain loops that are watched. And tests that hold a child to so
# many bytes of addresses, of which a sanitizer takes terabytes.
LEFT_OUT = "Run.FewLargeImages*:Scale.*:*Doubling*"

SANITIZERS = {
    "asan": Sanitizer(
        "asan",
        # The quickest first: what they find is known before the slow ones start.
        programs={
            "wire-tests": [],
            "facts-tests": [],
            "dialect-tests": [],
            "privacy-tests": [],
            "ledger-tests": [],
            "noise-tests": [],
            "passes-tests": [],
            "runtime-tests": [f"--gtest_filter=-{LEFT_OUT}"],
            "owner-tests": [],
            "attack-tests": [],
            "fuzz-tests": [],
        },
        variables={
            # LLVM's allocators poison what they hold back, but only in code that knows of the sanitizer: ours. What the
            # packaged libraries then hand out would still be poisoned.
            "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:check_initialization_order=1"
            f":strict_init_order=1:allow_user_poisoning=0:{SYMBOLS}",
            "UBSAN_OPTIONS": f"print_stacktrace=1:{SYMBOLS}",
            "LSAN_OPTIONS": f"suppressions={RULES / 'leaks.supp'}:print_suppressions=0",
        },
    ),
    "tsan": Sanitizer(
        "tsan",
        programs={
            "wire-tests": [],
            "ledger-tests": [],
            "noise-tests": [],
            # What shares rows out, or runs beside another run. A process forked from threads may have none here.
            "runtime-tests": [
                f"--gtest_filter=Run.*:Rows.*:RowOrder.*:SampleRows.*:ArenaPool.*:Executable.*:Team.*-{LEFT_OUT}:*ForkedProcess*"
            ],
            "owner-tests": [],
        },
        variables={
            # What libraries that are not instrumented do among themselves cannot be judged.
            # The process that imports a file is forked and has threads of Arrow's.
            "TSAN_OPTIONS": f"suppressions={RULES / 'races.supp'}:ignore_noninstrumented_modules=1:print_suppressions=0"
            f":second_deadlock_stack=1:die_after_fork=0:{SYMBOLS}",
        },
    ),
}


def jobs():
    """Number of compilers that may run at once, by cores and by memory."""
    (kilobytes,) = re.findall(r"MemAvailable:\s+(\d+) kB", pathlib.Path("/proc/meminfo").read_text())
    return max(1, min(os.cpu_count() or 1, int(kilobytes) * 1024 // UNIT_BYTES))


def stale_headers(plan):
    """The precompiled headers that `plan`, the text of `ninja -n`, rebuilds."""
    return re.findall(r"\S*cmake_pch\.hxx\.[gp]ch$", plan, re.MULTILINE)


def build(sanitizer, targets=None):
    """Configures and builds; returns the failed command, or an empty text."""
    preset, targets = sanitizer.name, list(targets or sanitizer.programs)
    if subprocess.run(["cmake", "--preset", preset], cwd=ROOT, stdout=subprocess.DEVNULL).returncode != 0:
        return f"cmake --preset {preset} failed"
    plan = subprocess.run(["ninja", "-C", sanitizer.folder, "-n", *targets], capture_output=True, text=True).stdout
    for header in stale_headers(plan):
        # ccache must not find the old one: it would look at that one instead of at the headers.
        (sanitizer.folder / header).unlink(missing_ok=True)
    command = ["cmake", "--build", "--preset", preset, "-j", str(jobs()), "--target", *targets]
    if subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL).returncode != 0:
        return f"the build in {sanitizer.folder.relative_to(ROOT)} failed"
    return ""
