# SPDX-License-Identifier: Apache-2.0
"""Libraries that take arrays of any namespace of the standard's: scipy and scikit-learn on remote arrays."""

import json
import pathlib
import secrets
import subprocess
import sys

import pytest

import sojourn

PROGRAM = pathlib.Path(__file__).with_name("arrays_api_libraries.py")

#: Compiled code, which needs the values: outside of steps they are read, inside scipy is refused.
SCIPY_READS = {
    "special.expit", "special.erf", "special.gammaln", "stats.ttest_ind", "signal.detrend", "fft.dct",
    "stats.iqr",  # bool(...) of a check
}  # fmt: skip
#: They look at a value (a float as result, a scale of zero, a set of labels).
SKLEARN_READS = {
    "StandardScaler", "MinMaxScaler", "Ridge", "mean_squared_error", "r2_score", "accuracy_score", "f1_score",
    "confusion_matrix",
}  # fmt: skip


@pytest.fixture(scope="module")
def results():
    pytest.importorskip("sklearn")
    seed = str(secrets.randbits(32))
    print(f"seed {seed}")
    path = str(pathlib.Path(sojourn.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, runpy; sys.path.insert(0, {path!r}); sys.argv = {[str(PROGRAM), seed]}; "
         f"runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("library", ["scipy", "sklearn"])
def test_results_are_numpys(library, results):
    assert {name: found for name, found in results[library].items() if not found["equal"]} == {}


def test_scipys_functions_record(results):
    """In a step everything is recorded, or the first read is refused: there is no silent one."""
    found = results["scipy"]
    assert {name for name, each in found.items() if each["refusal"]} == SCIPY_READS
    assert all(each["remote"] for each in found.values())
    # Of those that record, some look at a value where one may be read: never at an array.
    assert {name for name, each in found.items() if any(size > 1 for size in each["read"])} <= SCIPY_READS


def test_sklearns_estimators_record(results):
    found = results["sklearn"]
    assert {name for name, each in found.items() if each["refusal"]} == SKLEARN_READS
    assert {name for name, each in found.items() if any(size > 1 for size in each["read"])} == {"confusion_matrix"}


def test_totals(results, capsys):
    with capsys.disabled():
        print("".join(f"\n{library}: {len(found)} functions, {sum(not each['refusal'] for each in found.values())} record in a step"
                      for library, found in results.items()))  # fmt: skip
