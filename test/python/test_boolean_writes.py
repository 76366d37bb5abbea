# SPDX-License-Identifier: Apache-2.0
"""What meets at one place of a boolean tensor: a sum is whether any holds, a product whether all do, as in eager."""

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # torch's, of reduce= with tensors
REDUCTIONS = ("sum", "prod", "amax", "amin")


def accumulated(x, i, s):
    return torch.ops.aten._unsafe_masked_index_put_accumulate(x, s.flip(0), [i, i % 4], s)


WRITES = {
    "index_add": lambda x, i, s: x.index_add(0, i[:, 0], s),
    "index_add, alpha": lambda x, i, s: x.index_add(0, i[:, 0], s, alpha=False),
    "index_put": lambda x, i, s: x.index_put((i[:, 0],), s, accumulate=True),
    "index_put of two": lambda x, i, s: x.index_put((i, i % 3), s, accumulate=True),
    "index_put through a mask": lambda x, i, s: x.index_put((x,), s[0, 0], accumulate=True),
    "put": lambda x, i, s: x.put(i, s, accumulate=True),
    "scatter_add": lambda x, i, s: x.scatter_add(0, i, s),
    "scatter, add": lambda x, i, s: x.scatter(0, i, s, reduce="add"),
    "scatter, multiply": lambda x, i, s: x.scatter(0, i, s, reduce="multiply"),
    "scatter of a number, add": lambda x, i, s: x.scatter(0, i, True, reduce="add"),
    "scatter of a number, multiply": lambda x, i, s: x.scatter(0, i, False, reduce="multiply"),
    "in place": lambda x, i, s: x.clone().scatter_add_(0, i, s),
    "_unsafe_masked_index_put_accumulate": accumulated,
}
for how in REDUCTIONS:
    for include in (True, False):
        WRITES[f"scatter_reduce {how} {include}"] = lambda x, i, s, how=how, include=include: x.scatter_reduce(
            0, i, s, how, include_self=include
        )


@pytest.mark.parametrize("name", WRITES)
def test_writes(name, device, seed):
    """Few places, so that every count of writes occurs; as many ones as make both results common."""
    for share in (0.2, 0.5, 0.8):
        x, source = torch.rand(5, 4) < share, torch.rand(7, 4) < share
        index = torch.randint(0, 5, (7, 4))
        got = WRITES[name](*(each.to(device) for each in (x, index, source)))
        assert torch.equal(got.cpu(), WRITES[name](x, index, source))


@pytest.mark.parametrize("of", [torch.bool, torch.float32])
def test_reductions_to_booleans(of, device, seed):
    calls = [
        lambda x: x.prod(dtype=torch.bool),
        lambda x: x.sum(dtype=torch.bool),
        lambda x: x.prod(-1, dtype=torch.bool),
        lambda x: x.sum((0, 2), dtype=torch.bool),
        lambda x: x.sum((0, 2), keepdim=True, dtype=torch.bool),
        lambda x: x.any(1, keepdim=True),
        lambda x: x.all(1),
        lambda x: x.all(),
    ]
    for shape in ((3, 2, 4), (3, 0, 4), (2, 3, 0)):
        for share in (0.3, 0.8):
            x = (torch.rand(shape) < share).to(of)
            for call in calls:
                got, expected = call(x.to(device)), call(x)
                assert got.shape == expected.shape and torch.equal(got.cpu(), expected), shape
