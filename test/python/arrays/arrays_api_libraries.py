# SPDX-License-Identifier: Apache-2.0
"""A program, which test_arrays_api_libraries.py starts: what scipy and scikit-learn make of remote arrays.

Prints one object of JSON: per call whether the result equals NumPy's, what was read, and what a step says.
"""

import json
import os
import sys
import warnings

os.environ["SCIPY_ARRAY_API"] = "1"  # before scipy is imported

import numpy
import scipy.cluster.vq
import scipy.fft
import scipy.integrate
import scipy.optimize
import scipy.signal
import scipy.spatial.transform
import scipy.special
import scipy.stats
import sklearn
from sklearn import decomposition, linear_model, metrics, preprocessing

import sojourn
import sojourn.numpy as np

rng = numpy.random.default_rng(int(sys.argv[1]))
X, Y = rng.uniform(0.1, 0.9, 20), rng.normal(size=20)
A, B = rng.normal(size=(20, 4)), rng.normal(size=(8, 4))
LABELS, OTHERS = rng.integers(0, 2, 20), rng.integers(0, 2, 20)

special, stats, signal, integrate = scipy.special, scipy.stats, scipy.signal, scipy.integrate
pairwise = metrics.pairwise
SCIPY = {
    "special.logsumexp": lambda a: special.logsumexp(a(X)), "special.softmax": lambda a: special.softmax(a(X)),
    "special.log_softmax": lambda a: special.log_softmax(a(X)), "special.xlogy": lambda a: special.xlogy(a(X), a(X)),
    "special.expit": lambda a: special.expit(a(X)), "special.erf": lambda a: special.erf(a(X)),
    "special.gammaln": lambda a: special.gammaln(a(X)),
    "stats.zscore": lambda a: stats.zscore(a(X)), "stats.skew": lambda a: stats.skew(a(X)),
    "stats.kurtosis": lambda a: stats.kurtosis(a(X)), "stats.gmean": lambda a: stats.gmean(a(X)),
    "stats.sem": lambda a: stats.sem(a(X)), "stats.kstat": lambda a: stats.kstat(a(X)),
    "stats.circmean": lambda a: stats.circmean(a(X)), "stats.describe": lambda a: stats.describe(a(X)).variance,
    "stats.directional_stats": lambda a: stats.directional_stats(a(A)).mean_direction,
    "stats.ttest_ind": lambda a: stats.ttest_ind(a(X), a(Y)).statistic, "stats.iqr": lambda a: stats.iqr(a(X)),
    "signal.hilbert": lambda a: signal.hilbert(a(X)), "signal.fftconvolve": lambda a: signal.fftconvolve(a(X), a(Y)),
    "signal.oaconvolve": lambda a: signal.oaconvolve(a(X), a(Y)), "signal.resample": lambda a: signal.resample(a(X), 10),
    "signal.detrend": lambda a: signal.detrend(a(X)), "fft.fft": lambda a: scipy.fft.fft(a(X)),
    "fft.dct": lambda a: scipy.fft.dct(a(X)), "integrate.trapezoid": lambda a: integrate.trapezoid(a(X)),
    "integrate.cumulative_trapezoid": lambda a: integrate.cumulative_trapezoid(a(X)),
    "cluster.vq.whiten": lambda a: scipy.cluster.vq.whiten(a(A)), "optimize.rosen": lambda a: scipy.optimize.rosen(a(X)),
    "spatial.transform.Rotation": lambda a: scipy.spatial.transform.Rotation.from_rotvec(a(A[:, :3])).as_matrix(),
}  # fmt: skip
SKLEARN = {
    "cosine_similarity": lambda a: pairwise.cosine_similarity(a(A), a(B)),
    "euclidean_distances": lambda a: pairwise.euclidean_distances(a(A), a(B)),
    "rbf_kernel": lambda a: pairwise.rbf_kernel(a(A), a(B)),
    "Normalizer": lambda a: preprocessing.Normalizer().fit_transform(a(A)),
    "PolynomialFeatures": lambda a: preprocessing.PolynomialFeatures(2).fit_transform(a(A)),
    "PCA": lambda a: abs(decomposition.PCA(2, svd_solver="full").fit(a(A)).components_),
    "StandardScaler": lambda a: preprocessing.StandardScaler().fit_transform(a(A)),
    "MinMaxScaler": lambda a: preprocessing.MinMaxScaler().fit_transform(a(A)),
    "Ridge": lambda a: linear_model.Ridge(solver="svd").fit(a(A), a(X)).coef_,
    "mean_squared_error": lambda a: metrics.mean_squared_error(a(X), a(Y)),
    "r2_score": lambda a: metrics.r2_score(a(X), a(Y)),
    "accuracy_score": lambda a: metrics.accuracy_score(a(LABELS), a(OTHERS)),
    "f1_score": lambda a: metrics.f1_score(a(LABELS), a(OTHERS)),
    "confusion_matrix": lambda a: metrics.confusion_matrix(a(LABELS), a(OTHERS)),
}  # fmt: skip

read: list[int] = []
reading = np.ndarray._read


def watched(self, what):
    read.append(self.size)
    return reading(self, what)


def tried(function, **options):
    expected = function(lambda x: x)
    read.clear()
    with sklearn.config_context(array_api_dispatch=True):
        found = function(np.asarray)
    sizes = list(read)
    try:
        with sklearn.config_context(array_api_dispatch=True, assume_finite=True), sojourn.step():
            function(np.asarray)
        refusal = ""
    except sojourn.Error as error:
        refusal = str(error)
    return {
        "equal": bool(numpy.allclose(numpy.asarray(found), numpy.asarray(expected))),
        "remote": isinstance(found, np.ndarray), "read": sizes, "refusal": refusal,
    }  # fmt: skip


warnings.simplefilter("ignore")
np.ndarray._read = watched  # type: ignore[method-assign]
with sojourn.local() as owner, np.on(owner):
    print(json.dumps({kind: {name: tried(function) for name, function in calls.items()}
                      for kind, calls in (("scipy", SCIPY), ("sklearn", SKLEARN))}))  # fmt: skip
