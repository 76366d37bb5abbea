# SPDX-License-Identifier: Apache-2.0
"""Runs along a dimension, rows at indices, pairs and combinations: what torch gives on the CPU, an owner gives too."""

import pytest
import torch
from eager_support import both

import sojourn

REDUCTIONS = ["sum", "mean", "max", "min", "prod", "amax"]


def data(*shape):
    """Small whole numbers, zeros and equal ones among them."""
    return torch.randint(-3, 4, shape).double()


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("initial", [None, 1.5])
def test_runs(device, seed, reduce, initial):
    lengths = torch.tensor([2, 0, 3, 1])
    offsets = torch.tensor([0, 2, 2, 5, 6])
    for given in ({"lengths": lengths}, {"offsets": offsets}, {"lengths": lengths.int()}):
        for x in (data(6), data(6, 3), data(6, 2, 2)):

            def run(x):
                runs = {name: y.to(x.device) for name, y in given.items()}
                return torch.segment_reduce(x, reduce, **runs, initial=initial)

            both(device, run, x, grad=True)
            both(device, run, x.float())


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_runs_along_an_inner_dimension(device, seed, reduce):
    lengths = torch.tensor([[2, 3, 0], [1, 1, 3], [0, 0, 5], [5, 0, 0]])
    for x in (data(4, 5), data(4, 5, 2)):
        both(device, lambda x: torch.segment_reduce(x, reduce, lengths=lengths.to(x.device), axis=1), x, grad=True)
        offsets = torch.nn.functional.pad(lengths.cumsum(1), (1, 0))
        both(device, lambda x: torch.segment_reduce(x, reduce, offsets=offsets.to(x.device), axis=1), x, grad=True)


def test_runs_of_part_and_of_nothing(device, seed):
    x = torch.randn(6, 2, dtype=torch.float64)
    x[1, 0] = torch.nan
    for reduce in REDUCTIONS:
        for given in ({"lengths": torch.tensor([1, 3])}, {"offsets": torch.tensor([1, 3, 5])}):

            def run(x):
                runs = {name: y.to(x.device) for name, y in given.items()}
                return torch.segment_reduce(x, reduce, **runs, unsafe=True)

            both(device, run, x)
        both(device, lambda x: torch.segment_reduce(x, reduce, lengths=torch.zeros(2).long().to(x.device)), x[:0])


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_index_reduce(device, seed, reduce, include_self):
    index = torch.tensor([0, 3, 0, 2, 3, 3])
    for x, source, dim in [
        (data(5, 3), data(6, 3), 0),
        (data(2, 5), data(2, 6), -1),
        (data(5), data(6), 0),
        (data(2, 5, 3), data(2, 6, 3), 1),
    ]:

        def run(x, source):
            return x.index_reduce(dim, index.to(x.device), source, reduce, include_self=include_self)

        both(device, run, x, source)
        if reduce != "prod":
            both(device, run, x + 0.5 * torch.rand_like(x), source + 0.5 * torch.rand_like(source), grad=True)
        both(device, run, x.float(), source.float())
        both(device, run, x.long(), source.long())
        both(device, run, x.int(), source.int())
    x, source = torch.rand(5, 3).double() + 1, torch.rand(6, 3).double() + 1

    def run_above_one(x, source):
        return x.index_reduce(0, index.to(x.device), source, reduce, include_self=include_self)

    both(device, run_above_one, x, source, grad=True)
    both(device, lambda x: x.clone().index_reduce_(0, index[:0].to(x.device), x[:0], reduce), x)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_distances_of_pairs(device, seed, p):
    for shape in ((5, 3), (2, 4), (1, 3), (0, 3), (4, 0), (9, 1)):
        x = torch.randn(*shape, dtype=torch.float64)
        both(device, lambda x: torch.nn.functional.pdist(x, p), x, grad=shape[0] > 1)
    # Rows that coincide, and differences of one size.
    x = torch.tensor([[0.0, 1.0], [2.0, 1.0], [0.0, 1.0], [3.0, 4.0]], dtype=torch.float64)
    both(device, lambda x: torch.pdist(x, p), x, grad=True)
    both(device, lambda x: torch.pdist(x.mT, p), x.float())


def test_positions(device, seed):
    for x in (data(4, 3), data(7), data(2, 3, 2) > 0, data(3, 2).long(), data(1)[0], data(0, 2)):
        for size in (0, 3, 20):
            both(device, lambda x: torch.nonzero_static(x, size=size), x)
            both(device, lambda x: torch.nonzero_static(x, size=size, fill_value=7), x)


def test_narrow_copies(device, seed):
    x = torch.randn(4, 3, dtype=torch.float64)
    for dim, start, length in ((0, 1, 2), (-1, -2, 1), (0, 4, 0), (1, 0, 3), (0, -3, 2)):
        both(device, lambda x: torch.narrow_copy(x, dim, start, length), x, grad=length > 0)
        both(device, lambda x: torch.narrow_copy(x, 1 - dim % 2, start, length), x.mT.long())


@pytest.mark.parametrize("with_replacement", [False, True])
def test_combinations(device, seed, with_replacement):
    for x in (torch.randn(5, dtype=torch.float64), torch.arange(6), torch.randn(1), torch.randn(0)):
        for count in range(5):
            both(
                device, lambda x: torch.combinations(x, count, with_replacement), x,
                grad=x.dtype == torch.float64 and count > 0,
            )  # fmt: skip
    with torch.inference_mode():
        both(device, lambda x: torch.combinations(x, 3, with_replacement), torch.arange(5))


def test_batch_norm_with_update(device, seed):
    x, weight, bias, mean = (torch.randn(*s, dtype=torch.float64) for s in ((4, 3, 2, 2), (3,), (3,), (3,)))
    variance = torch.rand(3, dtype=torch.float64) + 0.5
    norm = torch.ops.aten._batch_norm_with_update

    def run(x, weight, bias):
        running = mean.to(x.device).clone(), variance.to(x.device).clone()
        return [*norm(x, weight, bias, *running, 0.1, 1e-5), *running]

    both(device, lambda *given: run(*given)[:1], x, weight, bias, grad=True)
    both(device, run, x, weight, bias)
    both(device, lambda x: run(x, None, None), x)


BAD = {
    "reduce argument must be either sum": lambda x: torch.segment_reduce(x, "sam", lengths=x[0].long()),
    "Either lengths or offsets must be defined": lambda x: torch.segment_reduce(x, "sum"),
    "indices based reduction": lambda x: torch.segment_reduce(x, "sum", indices=x[0].long()),
    "last dimension of lengths but got 1": lambda x: torch.segment_reduce(x, "sum", lengths=x[0].long(), axis=1),
    "not implemented for 'Long'": lambda x: torch.segment_reduce(x.long(), "sum", lengths=x[:1, 0].long() + 4),
    "not implemented for 'Float'": lambda x: torch.segment_reduce(x, "sum", lengths=x[:1, 0], unsafe=True),
    "pdist only supports 2D tensors": lambda x: torch.pdist(x[0]),
    "non-negative p values": lambda x: torch.pdist(x, -1.0),
    "not implemented for 'Half'": lambda x: torch.pdist(x.half()),
    "must be an non-negative integer": lambda x: torch.nonzero_static(x, size=-1),
    r"start \(3\) \+ length \(2\) exceeds": lambda x: torch.narrow_copy(x, 0, 3, 2),
    "start out of range": lambda x: torch.narrow_copy(x, 0, 5, 0),
    "cannot be applied to a 0-dim tensor": lambda x: torch.narrow_copy(x[0, 0], 0, 0, 1),
    "Expect a 1D vector": lambda x: torch.combinations(x),
    "Expect a non-negative number": lambda x: torch.combinations(x[0], -1),
    "reduce to be one of": lambda x: x.index_reduce(0, x[:, 0].long(), x, "sum"),
    "Number of indices": lambda x: x.index_reduce(0, x[0].long(), x, "prod"),
}  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_bad_arguments(device, text):
    x = torch.rand(4, 3)
    for given in (x, x.to(device)):
        with pytest.raises((RuntimeError, NotImplementedError, IndexError), match=text):
            BAD[text](given)


def test_inside_of_a_step(device, seed):
    """No value is asked for."""
    x, flat = torch.rand(6, 2).to(device), torch.arange(5.0).to(device)
    lengths = torch.tensor([2, 4]).to(device)
    with sojourn.step():
        sums, pairs = torch.segment_reduce(x, "sum", lengths=lengths), torch.combinations(flat)
    torch.testing.assert_close(sums.cpu(), torch.segment_reduce(x.cpu(), "sum", lengths=lengths.cpu()))
    assert torch.equal(pairs.cpu(), torch.combinations(flat.cpu()))
