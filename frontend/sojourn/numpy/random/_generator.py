# SPDX-License-Identifier: Apache-2.0
"""`Generator`: NumPy's distributions, drawn at an owner."""

from __future__ import annotations

import numpy
import torch

import _sojourn

from .._array import ndarray, wrap
from .._convert import _device_among, device_of, is_remote, place
from . import _arguments as arguments
from . import _counts as laws
from ._arrangements import Arrangements
from ._draws import Draws, whole
from ._vectors import Vectors

__all__ = ["Generator", "default_rng"]


class Generator(Arrangements, Vectors):
    """NumPy's `Generator` whose numbers are drawn at an owner and stay there.

    The numbers have NumPy's distributions, shapes and dtypes; they are others than NumPy's for the same seed. They
    follow from the state of `bit_generator`, a bit generator of NumPy in this process: each call takes seeds from it and
    from nothing else, so equal states give equal numbers, torch's generators have no part, and torch's seeds none.

    Numbers are drawn where a remote argument lives, else at `device`, by default that of `np.zeros`. Parameters are
    numbers, host arrays or remote arrays. Those on the host are checked as NumPy does; remote ones are not, and numbers outside of a
    distribution's range give unspecified results. `size=None` gives arrays of no dimensions for single parameters.

    Draws by refusal take a fixed number of rounds: with a chance below 1e-9 a number keeps a proposal that all rounds
    would have refused. A replayed step draws on from the state at its call.
    """

    def __init__(self, bit_generator, *, device=None):
        self._host = numpy.random.Generator(bit_generator)
        self._device = None if device is None else device_of(device)
        self._seeds: dict[torch.device, torch.Generator] = {}

    def __repr__(self) -> str:
        return f"Generator({type(self.bit_generator).__name__})"

    def __reduce__(self):
        return _restored, (self.bit_generator, self._device and str(self._device))

    @property
    def bit_generator(self):
        """NumPy's bit generator, the state of this one."""
        return self._host.bit_generator

    def bytes(self, length) -> bytes:
        """Random bytes in this process."""
        return self._host.bytes(length)

    def spawn(self, n_children) -> list[Generator]:
        """Independent generators for the same device."""
        return [Generator(each, device=self._device) for each in self.bit_generator.spawn(n_children)]

    def _draws(self, shape: tuple[int, ...], *near) -> Draws:
        """For a call with these arguments."""
        device = _device_among(near) or self._device or place()
        if device not in self._seeds:
            self._seeds[device] = _sojourn.bits_generator(self.bit_generator, device)
        return Draws(self._seeds[device], device, shape)

    def _open(self, name: str, size, *parameters) -> tuple[Draws, list[torch.Tensor]]:
        """Draws and parameters at the owner."""
        draws, found = self._given(name, size, *parameters)
        return draws, [draws.number(x.item()) if _is_number(x) else x.to(draws.device) for x in found]

    def _given(self, name: str, size, *parameters) -> tuple[Draws, list[torch.Tensor]]:
        arguments.check(name, *parameters)
        found = [arguments.host_tensor(x) for x in parameters]
        shape = arguments.full_shape(size, *(tuple(x.shape) for x in found))
        draws = self._draws(shape, *parameters)
        return draws, found

    # Of a shape only.

    def random(self, size=None, dtype=numpy.float64, out=None) -> ndarray:
        """Uniform in [0, 1): multiples of 2**-53, of float32 of 2**-24."""
        draws, kind = self._plain("random", size, dtype, out)
        return arguments.finish(draws.uniform(kind), out)

    def standard_normal(self, size=None, dtype=numpy.float64, out=None) -> ndarray:
        """Of mean 0 and deviation 1. float64 numbers end at 8.6, float32 ones at 5.8."""
        draws, kind = self._plain("standard_normal", size, dtype, out)
        return arguments.finish(draws.normal(kind), out)

    def standard_exponential(self, size=None, dtype=numpy.float64, method="zig", out=None) -> ndarray:
        """Of mean 1. `method` has no meaning."""
        draws, kind = self._plain("standard_exponential", size, dtype, out)
        return arguments.finish(draws.exponential(kind), out)

    def standard_cauchy(self, size=None) -> ndarray:
        """The ratio of two standard normal numbers."""
        return wrap(self._draws(arguments.full_shape(size)).cauchy())

    def _plain(self, name: str, size, dtype, out) -> tuple[Draws, torch.dtype]:
        kind = arguments.float_dtype(dtype, name)
        return self._draws(arguments.full_shape(arguments.target_shape(size, out, kind)), out), kind

    # Of locations and scales.

    def uniform(self, low=0.0, high=1.0, size=None) -> ndarray:
        """Uniform in [low, high)."""
        draws, (low, high) = self._open("uniform", size, low, high)
        return wrap(low + (high - low) * draws.uniform())

    def normal(self, loc=0.0, scale=1.0, size=None) -> ndarray:
        """Of mean `loc` and deviation `scale`."""
        draws, (loc, scale) = self._open("normal", size, loc, scale)
        return wrap(loc + scale * draws.normal())

    def lognormal(self, mean=0.0, sigma=1.0, size=None) -> ndarray:
        """Exponentials of normal numbers."""
        draws, (mean, sigma) = self._open("lognormal", size, mean, sigma)
        return wrap(torch.exp(mean + sigma * draws.normal()))

    def exponential(self, scale=1.0, size=None) -> ndarray:
        """Of mean `scale`."""
        draws, (scale,) = self._open("exponential", size, scale)
        return wrap(scale * draws.exponential())

    def laplace(self, loc=0.0, scale=1.0, size=None) -> ndarray:
        """Of density exp(-|x - loc| / scale) / (2 scale)."""
        draws, (loc, scale) = self._open("laplace", size, loc, scale)
        return wrap(loc + scale * (draws.exponential() - draws.exponential()))

    def logistic(self, loc=0.0, scale=1.0, size=None) -> ndarray:
        """Of distribution function 1 / (1 + exp(-(x - loc) / scale))."""
        draws, (loc, scale) = self._open("logistic", size, loc, scale)
        return wrap(loc + scale * torch.log(torch.expm1(draws.exponential())))

    def gumbel(self, loc=0.0, scale=1.0, size=None) -> ndarray:
        """Of distribution function exp(-exp(-(x - loc) / scale))."""
        draws, (loc, scale) = self._open("gumbel", size, loc, scale)
        return wrap(loc - scale * torch.log(draws.exponential()))

    def rayleigh(self, scale=1.0, size=None) -> ndarray:
        """Of distribution function 1 - exp(-x**2 / (2 scale**2))."""
        draws, (scale,) = self._open("rayleigh", size, scale)
        return wrap(scale * torch.sqrt(2 * draws.exponential()))

    def triangular(self, left, mode, right, size=None) -> ndarray:
        """On [left, right], most dense at `mode`."""
        draws, (left, mode, right) = self._open("triangular", size, left, mode, right)
        return wrap(draws.triangular(left, mode, right))

    def vonmises(self, mu, kappa, size=None) -> ndarray:
        """Angles in [-pi, pi] about `mu`, of density proportional to exp(kappa cos(x - mu))."""
        draws, (mu, kappa) = self._open("vonmises", size, mu, kappa)
        return wrap(draws.vonmises(mu, kappa))

    def wald(self, mean, scale, size=None) -> ndarray:
        """Inverse Gaussian, of variance mean**3 / scale."""
        draws, (mean, scale) = self._open("wald", size, mean, scale)
        return wrap(draws.wald(mean, scale))

    # Of shape parameters.

    def standard_gamma(self, shape, size=None, dtype=numpy.float64, out=None) -> ndarray:
        """Of density proportional to x**(shape - 1) exp(-x). float32 numbers are rounded float64 ones."""
        kind = arguments.float_dtype(dtype, "standard_gamma")
        draws, (shape,) = self._open("standard_gamma", arguments.target_shape(size, out, kind), shape)
        return arguments.finish(draws.gamma(shape).to(kind), out)

    def gamma(self, shape, scale=1.0, size=None) -> ndarray:
        """Of mean shape * scale and variance shape * scale**2."""
        draws, (shape, scale) = self._open("gamma", size, shape, scale)
        return wrap(scale * draws.gamma(shape))

    def beta(self, a, b, size=None) -> ndarray:
        """Of density proportional to x**(a - 1) (1 - x)**(b - 1)."""
        draws, (a, b) = self._open("beta", size, a, b)
        return wrap(draws.beta(a, b))

    def chisquare(self, df, size=None) -> ndarray:
        """Sums of `df` squares of standard normal numbers."""
        draws, (df,) = self._open("chisquare", size, df)
        return wrap(draws.chisquare(df))

    def noncentral_chisquare(self, df, nonc, size=None) -> ndarray:
        """Likewise with means whose squares add up to `nonc`."""
        draws, (df, nonc) = self._open("noncentral_chisquare", size, df, nonc)
        return wrap(_noncentral(draws, df, nonc))

    def f(self, dfnum, dfden, size=None) -> ndarray:
        """The ratio of two chi-square numbers, each over its degrees of freedom."""
        draws, (dfnum, dfden) = self._open("f", size, dfnum, dfden)
        return wrap(draws.chisquare(dfnum) * dfden / (draws.chisquare(dfden) * dfnum))

    def noncentral_f(self, dfnum, dfden, nonc, size=None) -> ndarray:
        """Likewise with a noncentral numerator."""
        draws, (dfnum, dfden, nonc) = self._open("noncentral_f", size, dfnum, dfden, nonc)
        return wrap(_noncentral(draws, dfnum, nonc) * dfden / (draws.chisquare(dfden) * dfnum))

    def standard_t(self, df, size=None) -> ndarray:
        """Student's distribution with `df` degrees of freedom."""
        draws, (df,) = self._open("standard_t", size, df)
        return wrap(draws.student(df))

    def pareto(self, a, size=None) -> ndarray:
        """Pareto's second kind (Lomax), of distribution function 1 - (1 + x)**-a."""
        draws, (a,) = self._open("pareto", size, a)
        return wrap(torch.expm1(draws.exponential() / a))

    def power(self, a, size=None) -> ndarray:
        """Of distribution function x**a on [0, 1]."""
        draws, (a,) = self._open("power", size, a)
        return wrap(torch.pow(draws.uniform(), 1 / a))

    def weibull(self, a, size=None) -> ndarray:
        """Of distribution function 1 - exp(-x**a)."""
        draws, (a,) = self._open("weibull", size, a)
        return wrap(torch.where(a == 0, 0.0, torch.pow(draws.exponential(), 1 / a)))

    # Counts.

    def poisson(self, lam=1.0, size=None) -> ndarray:
        """Counts of mean `lam`."""
        draws, given = self._counted("poisson", size, lam)
        return wrap(whole(laws.counts(draws, laws.poisson, *given)))

    def binomial(self, n, p, size=None) -> ndarray:
        """Successes in `n` trials of chance `p`."""
        draws, (n, p) = self._counted("binomial", size, n, p)
        return wrap(whole(laws.counts(draws, laws.binomial, torch.trunc(n), p)))

    def hypergeometric(self, ngood, nbad, nsample, size=None) -> ndarray:
        """Good ones in a sample without replacement."""
        draws, given = self._counted("hypergeometric", size, ngood, nbad, nsample)
        return wrap(whole(laws.counts(draws, laws.hypergeometric, *map(torch.trunc, given))))

    def negative_binomial(self, n, p, size=None) -> ndarray:
        """Failures before `n` successes of chance `p`; `n` may be a fraction."""
        draws, (n, p) = self._open("negative_binomial", size, n, p)
        rate = (draws.gamma(n) * (1 - p) / p).expand(draws.shape)
        return wrap(whole(laws.counts(draws, laws.poisson, rate)))

    def geometric(self, p, size=None) -> ndarray:
        """Trials up to the first success of chance `p`, at most 2**63 - 1024."""
        draws, (p,) = self._open("geometric", size, p)
        return wrap(whole(draws.geometric(p)))

    def logseries(self, p, size=None) -> ndarray:
        """Of chance -p**k / (k log(1 - p)), k from 1."""
        draws, (p,) = self._open("logseries", size, p)
        return wrap(whole(draws.logseries(p)))

    def zipf(self, a, size=None) -> ndarray:
        """Of chance proportional to k**-a, k from 1 to 2**63 - 1024."""
        draws, (a,) = self._open("zipf", size, a)
        return wrap(whole(draws.zipf(a)))

    def _counted(self, name: str, size, *parameters) -> tuple[Draws, list[torch.Tensor]]:
        """Parameters on the host stay there if all are."""
        if any(map(is_remote, parameters)):
            return self._open(name, size, *parameters)
        return self._given(name, size, *parameters)


def _is_number(x: torch.Tensor) -> bool:
    return x.device.type == "cpu" and x.dim() == 0


def _noncentral(draws: Draws, df: torch.Tensor, nonc: torch.Tensor) -> torch.Tensor:
    """A chi-square variate of df and twice as many more degrees of freedom as a Poisson count."""
    return draws.chisquare(df + 2 * laws.counts(draws, laws.poisson, (nonc / 2).expand(draws.shape)))


def _restored(bit_generator, device) -> Generator:
    return Generator(bit_generator, device=device)


def default_rng(seed=None, *, device=None) -> Generator:
    """A generator whose draws are made at an owner.

    `seed`: None (unpredictable), an integer, a sequence of integers, a `SeedSequence`, a bit generator, or a generator:
    ours is returned as it is. `device`: as of `Generator`.
    """
    if isinstance(seed, Generator):
        return seed if device is None else Generator(seed.bit_generator, device=device)
    return Generator(numpy.random.default_rng(seed).bit_generator, device=device)
