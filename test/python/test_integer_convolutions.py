# SPDX-License-Identifier: Apache-2.0
"""Convolutions of integers: exactly eager's, wrapping included, over draws of every argument.

Eager on the CPU has no transposed or dilated one of the small integers: those are compared with eager's of int64, whose
lowest bits they are.
"""

import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # what reads cost, and that windows are even
PLAIN = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
SMALL = (torch.uint8, torch.int8, torch.int16, torch.int32)


def drawn(rng, spatial, transposed):
    """Shapes of input, weight and bias with arguments that go together."""
    groups = rng.choice([1, 1, 2, 3])
    channels, filters = groups * rng.randint(1, 3), groups * rng.randint(1, 3)
    stride, dilation = ([rng.randint(1, 3) for _ in range(spatial)] for _ in range(2))
    kernel = [rng.randint(1, 3) for _ in range(spatial)]
    padding = [rng.randint(0, 3) for _ in range(spatial)]
    sizes = [d * (k - 1) + rng.randint(1, 4) for d, k in zip(dilation, kernel)]
    more = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if transposed:
        more["output_padding"] = [rng.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation)]
        sizes = [size + 2 * pad for size, pad in zip(sizes, padding)]  # nothing is cut away entirely
        weight = [channels, filters // groups, *kernel]
    else:
        weight = [filters, channels // groups, *kernel]
    batch = [] if rng.random() < 0.2 else [rng.randint(1, 3)]
    return [*batch, channels, *sizes], weight, [filters] if rng.random() < 0.7 else None, more


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_as_eager(device, transposed, spatial, rng, seed):
    call = (TRANSPOSED if transposed else PLAIN)[spatial]
    for turn in range(6):
        shapes = drawn(rng, spatial, transposed)
        bound = 2 ** rng.choice([3, 8, 40, 62])  # the last two wrap
        given = [None if shape is None else torch.randint(-bound, bound, shape) for shape in shapes[:3]]
        if turn % 2:
            small = rng.choice(SMALL)
            given = [None if x is None else x.to(small) for x in given]
        wide = [None if x is None else x.long() for x in given]
        expected = call(*wide, **shapes[3]).to(given[0].dtype)
        got = call(*(None if x is None else x.to(device) for x in given), **shapes[3])
        assert got.dtype == expected.dtype and got.shape == expected.shape, (shapes, given[0].dtype)
        assert torch.equal(got.cpu(), expected), (shapes, given[0].dtype)


def test_padding_by_name(device):
    x, w = torch.arange(40).reshape(1, 2, 4, 5), torch.arange(36).reshape(3, 2, 3, 2) - 17
    for padding in ("same", "valid"):
        got = F.conv2d(x.to(device), w.to(device), padding=padding)
        assert torch.equal(got.cpu(), F.conv2d(x, w, padding=padding))
