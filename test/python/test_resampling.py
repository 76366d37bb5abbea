# SPDX-License-Identifier: Apache-2.0
"""Images of other sizes: which pixel is taken where, to the index; and infinities and NaN stay where eager has them."""

import pytest
import torch
from torch.nn import functional as F

SCALES = [1.3, 0.7, 1.1, 2.3, 2.1, 0.3, 3.7, 0.9, 1.7, 0.6, 2.0, 3.0]
CHANNELS_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


def images(count, spatial, dtype, channels, side, last):
    """[1, channels, (side, ...,) count]: each pixel is its number along the last side."""
    shape = [1, channels] + [1] * (spatial - 1) + [count]
    if spatial > 1:
        shape[2] = side
    x = torch.arange(count, dtype=torch.float64).to(dtype).expand(shape).contiguous()
    return x.contiguous(memory_format=CHANNELS_LAST[spatial]) if last else x


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("spatial, channels, side, last", [
    (1, 2, 1, False), (2, 2, 1, False), (2, 2, 130, False), (2, 4, 130, True), (2, 2, 130, True), (3, 2, 1, False),
    (3, 4, 1, True),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.uint8], ids=str)
def test_nearest_pixels(device, mode, spatial, channels, side, last, dtype):
    for count in (1, 2, 3, 5, 6, 7, 11, 13):
        x = images(count, spatial, dtype, channels, side, last)
        there = x.to(device)
        for scale in SCALES:
            if int(count * scale) == 0:
                continue
            factors = [1.0] * (spatial - 1) + [scale]
            wanted = F.interpolate(x, scale_factor=factors, mode=mode)
            found = F.interpolate(there, scale_factor=factors, mode=mode)
            assert torch.equal(found.cpu(), wanted), (count, scale)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gradients_of_nearest_pixels(device, seed, mode, spatial, dtype):
    """Which go by a rule of their own."""
    for count in (2, 3, 7, 13):
        for scale in SCALES:
            if int(count * scale) == 0:
                continue
            x = torch.randn(2, 1, *[2] * (spatial - 1), count, dtype=dtype)
            factors = [2.0] * (spatial - 1) + [scale]
            results, weights = [], None
            for y in (x.clone(), x.to(device)):
                z = F.interpolate(y.requires_grad_(), scale_factor=factors, mode=mode)
                weights = torch.randn(z.shape, dtype=dtype) if weights is None else weights
                results.append(torch.autograd.grad(z, y, weights.to(y.device))[0])
            torch.testing.assert_close(results[1].cpu(), results[0], rtol=1e-5, atol=1e-5)


WAYS = {
    "nearest": lambda x: F.interpolate(x, size=(11, 7), mode="nearest"),
    "nearest twice": lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
    "exact": lambda x: F.interpolate(x, size=(11, 7), mode="nearest-exact"),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bilinear corners": lambda x: F.interpolate(x, size=(9, 13), mode="bilinear", align_corners=True),
    "bicubic": lambda x: F.interpolate(x, size=(9, 13), mode="bicubic"),
    "average": lambda x: F.adaptive_avg_pool2d(x, (4, 3)), "average of many": lambda x: F.adaptive_avg_pool2d(x, (2, 5)),
    "linear": lambda x: F.interpolate(x[:, :, 0], size=17, mode="linear"),
    "trilinear": lambda x: F.interpolate(x[None], size=(4, 9, 5), mode="trilinear"),
    "average of one side": lambda x: F.adaptive_avg_pool1d(x[:, 0], 5),
}  # fmt: skip


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
def test_what_is_not_finite_stays_where_it_is(device, seed, name, value):
    x = torch.randn(2, 3, 6, 7)
    x[0, 1, 2, 3] = x[1, 0, 5, 0] = value
    x[1, 2, 0, 6] = -value
    torch.testing.assert_close(
        WAYS[name](x.to(device)).cpu(), WAYS[name](x), rtol=1e-4, atol=1e-5, equal_nan=True
    )  # fmt: skip
