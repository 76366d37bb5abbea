# SPDX-License-Identifier: Apache-2.0
"""The check of `tools/lint` that the time of oblivious kernels depends on no value: what it finds, and what passes."""

import importlib
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

TIMES = """SOJOURN_KERNEL_TIME(argmax, oblivious, "")
SOJOURN_KERNEL_TIME(abs, oblivious, "")
SOJOURN_KERNEL_TIME(sort, covered, "by the order, of the values")
"""
STEPS = "SOJOURN_ELEMENTWISE(abs, abs, 1, Loop, nullptr, nullptr)\n"
LOOPS = """namespace {
struct Abs {
  static int64_t run(int64_t a) { return chosen(a < 0, -a, a); }
};
template <typename Op>
void unary(void *out, const void *a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    static_cast<int64_t *>(out)[i] = Op::run(static_cast<const int64_t *>(a)[i]);
  }
}
} // namespace

Fn loopOf(EOp op) {
  switch (op) {
  case EOp::abs: return unary<Abs>;
  default: return nullptr;
  }
}
"""
KERNELS = """// A kernel that looks at every element, and one that need not.
namespace {

template <typename T>
int64_t extreme(const T *line, int64_t size, const int64_t *dims) {
  T best = line[0];
  int64_t where = 0;
  for (int64_t k = 1; k < size; ++k) {
    if (k % 4 == 0) {
      checkStop();
    }
    const T value = line[k];
    const bool isBetter = (value > best) | (value != value);
    best = chosen(isBetter, value, best);
    where = chosen(isBetter, k, where);
  }
  return where;
}

template <typename T>
void sortLine(T *line, int64_t size) {
  if (line[0] < line[1]) {
    std::sort(line, line + size);
  }
}

void lowerArg(Lowering &lowering, const GraphOp &op) {
  lowering.emit(op, makeKernel([=](SlotTable slots, int64_t lo, int64_t hi) {
    *out.in<int64_t>(slots) = extreme(x.in<float>(slots), size, dims);
  }));
}

void lowerSort(Lowering &lowering, const GraphOp &op) { sortLine(x.in<float>(slots), size); }

} // namespace

const LowerFn kernels::lower_argmax = lowerArg;
const LowerFn kernels::lower_sort = lowerSort;
"""


@pytest.fixture
def times(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("times")


def test_the_kernels_are_as_declared(times):
    assert list(times.check([path for path in (ROOT / "runtime").iterdir() if path.is_file()], ROOT)) == []


def problems(times, root, kernels=KERNELS, loops=LOOPS, declared=TIMES):
    files = {
        "runtime/KernelTimes.def": declared,
        "runtime/Elementwise.def": STEPS,
        "runtime/KernelsScan.cpp": kernels,
        "runtime/VectorKernels.cpp": loops,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return list(times.check([root / name for name in files], root))


def test_code_without_a_value_in_its_way_passes(times, tmp_path):
    assert problems(times, tmp_path) == []


@pytest.mark.parametrize(
    "old, new, line, found",
    [
        ("k < size;", "k < size && best == best;", 8, "'for' depends on a value"),  # as argmax once ended at a NaN
        ("k % 4 == 0", "value == best", 9, "'if' depends on a value"),
        ("k % 4 == 0", "line[k] != line[k]", 9, "'if' depends on a value"),
        ("k % 4 == 0", "isBefore(line, k)", 9, "'if' depends on a value"),
        ("  return where;", "  while (*line != best) {\n    ++line;\n  }\n  return where;", 17, "'while' depends"),
        ("(value > best) | (", "value > best || (", 13, "may skip what follows '||': use |"),
        ("  return where;", "  return kTable[where];", 17, "a value is a subscript"),
        ("  return where;", "  return kTable[*line];", 17, "a value is a subscript"),
        ("  return where;", "  const T *at = line + where;\n  return *at;", 17, "a value is an address"),
        ("  return where;", "  std::memcpy(&best, line + where, 4);\n  return where;", 17, "a value is an address"),
        ("  return where;", "  return *std::find(line, line + size, best);", 17, "std::find ends where values say"),
        ("  return where;", "  if (dims[0] == 1) {\n    return 0;\n  }\n  return where;", 17, "'if' depends on"),
    ],
)
def test_a_time_that_values_decide_is_found(times, tmp_path, old, new, line, found):
    assert KERNELS.count(old) == 1
    (said,) = problems(times, tmp_path, KERNELS.replace(old, new))
    assert said.startswith(f"runtime/KernelsScan.cpp:{line} ") and found in said
    assert said.endswith(
        "in the code of argmax: select, add a '// time:' comment if shapes decide, or declare the op covered (tools/times.py)"
    )
    covered = TIMES.replace('(argmax, oblivious, "")', '(argmax, covered, "it ends early")')
    assert problems(times, tmp_path, KERNELS.replace(old, new), declared=covered) == []


@pytest.mark.parametrize(
    "old, new, found",
    [
        ("return chosen(a < 0, -a, a);", "if (a < 0) { return -a; } return a;", "VectorKernels.cpp:3 'if' depends on"),
        ("return chosen(a < 0, -a, a);", "return kAbs[a];", "VectorKernels.cpp:3 a value is a subscript"),
        ("i < n;", "i < n && static_cast<const char *>(a)[i] != 0;", "VectorKernels.cpp:7 'for' depends on a value"),
    ],
)
def test_loops_of_steps_are_looked_at(times, tmp_path, old, new, found):
    (said,) = problems(times, tmp_path, loops=LOOPS.replace(old, new))
    assert said.startswith(f"runtime/{found}")


def test_a_reason_is_given_once_it_is_asked_for(times, tmp_path):
    shapes = KERNELS.replace(
        "  return where;", "  if (dims[0] == 1) { // time: a size\n    return 0;\n  }\n  return where;"
    )
    assert problems(times, tmp_path, shapes) == []
    above = KERNELS.replace(
        "  return where;", "  // time: a size\n  if (dims[0] == 1) {\n    return 0;\n  }\n  return where;"
    )
    assert problems(times, tmp_path, above) == []
    named = KERNELS.replace(
        "  return where;", "  const int64_t pitch = dims[0]; // time: a size\n  return line[pitch] + kTable[pitch];"
    )
    assert problems(times, tmp_path, named) == []
    (said,) = problems(times, tmp_path, KERNELS.replace("  return where;", "  return where; // time: a size"))
    assert said == "runtime/KernelsScan.cpp:17 gives a reason for a time that nothing asks for: remove it"


def test_a_declared_kernel_is_there(times, tmp_path):
    (said,) = problems(times, tmp_path, declared=TIMES + 'SOJOURN_KERNEL_TIME(argmin, oblivious, "")\n')
    assert said.startswith("runtime/KernelTimes.def declares argmin, whose kernel is in no file")
