# SPDX-License-Identifier: Apache-2.0
"""Sampling of images at the owner beside eager: unpooling, pooling at drawn windows, grids, antialiasing, bytes."""

import pytest
import torch
import torch.nn.functional as F

import sojourn

aten = torch.ops.aten
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-4, torch.float16: 5e-3, torch.bfloat16: 4e-2, torch.uint8: 0}


def same(ours, theirs):
    assert ours.dtype == theirs.dtype and ours.stride() == theirs.stride()
    tolerance = TOLERANCE.get(theirs.dtype, 0)
    torch.testing.assert_close(ours.cpu(), theirs, rtol=tolerance, atol=tolerance, equal_nan=True)


def beside_eager(device, function, *inputs):
    """Values, and gradients of those inputs that require one, weighted at random."""
    weights, sides = None, []
    for where in ("cpu", device):
        leaves = [x.detach().to(where).requires_grad_(x.requires_grad) for x in inputs]
        results = function(*leaves)
        results = results if isinstance(results, tuple) else (results,)
        parts = [x.detach() for x in results]
        wanted = [x for x in leaves if x.requires_grad]
        if wanted:
            weights = torch.randn(results[0].shape, dtype=results[0].dtype) if weights is None else weights
            parts += torch.autograd.grad(results[0], wanted, weights.to(where))
        sides.append(parts)
    for theirs, ours in zip(*sides, strict=True):
        same(ours, theirs)


def leaf(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype).requires_grad_()


def refused_alike(device, function, *inputs, match):
    for where in ("cpu", device):
        with pytest.raises((RuntimeError, NotImplementedError), match=match):
            function(*(x.to(where) for x in inputs))


# -- Unpooling -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_unpooling_after_pooling(device, seed, dtype):
    """With overlapping windows several values come to one place: the last one stays."""
    for rank, pool, back in (
        (1, F.max_pool1d, F.max_unpool1d), (2, F.max_pool2d, F.max_unpool2d), (3, F.max_pool3d, F.max_unpool3d),
    ):  # fmt: skip
        for lead in ((2, 3), (3,)):
            x = torch.randn(*lead, *([6] * rank)).to(dtype)
            y, indices = pool(x, 3, 2, 1, return_indices=True)
            beside_eager(
                device,
                lambda y, i, back=back, x=x, rank=rank: back(y, i, 3, 2, 1, x.shape[-rank:]),
                y.requires_grad_(),
                indices,
            )


def test_unpooling_at_given_places(device, seed):
    places = torch.randint(0, 48, (2, 3, 4, 5))
    beside_eager(device, lambda x, i: aten.max_unpool2d(x, i, [6, 8]), leaf(2, 3, 4, 5), places)
    lying = leaf(2, 3, 4, 5).detach().contiguous(memory_format=torch.channels_last)
    same(aten.max_unpool2d(lying.to(device), places.to(device), [6, 8]), aten.max_unpool2d(lying, places, [6, 8]))
    none = torch.zeros(0, 3, 2, 2, dtype=torch.float64)
    beside_eager(device, lambda x, i: aten.max_unpool2d(x, i, [6, 8]), none, none.long())
    beside_eager(device, lambda x, i: aten.max_unpool2d(x, i, [0, 8]), torch.ones(1, 1, 1, 1), places[:1, :1, :1, :1])


def test_unpooling_outside_is_ignored(device, seed):
    """Eager's error depends on the values."""
    x, places = torch.tensor([[[1.0, 2.0, 3.0]]]), torch.tensor([[[-1, 2, 4]]])
    assert aten.max_unpool2d(x.to(device), places.to(device), [2, 2]).cpu().tolist() == [[[0.0, 0.0], [2.0, 0.0]]]


def test_unpooling_refuses(device):
    x, i, volume = torch.ones(2, 3, 4, 4), torch.zeros(2, 3, 4, 4, dtype=torch.long), torch.ones(1, 2, 4, 4, 4)
    j = volume.long()
    two, three = aten.max_unpool2d, aten.max_unpool3d
    refused_alike(device, lambda x, i: two(x, i, [8, 8]), x, i.int(), match="should be type int64")
    refused_alike(device, lambda x, i: two(x, i, [8]), x, i, match="exactly two elements")
    refused_alike(device, lambda x, i: two(x, i, [8, 8]), x[0, 0], i[0, 0], match="3d or 4d Tensor")
    refused_alike(device, lambda x, i: two(x, i, [8, 8]), x, i[:1], match="Expected shape of indices")
    refused_alike(device, lambda x, i: two(x, i, [8, 8]), x[:, :, :0], i[:, :, :0], match="non-zero size")
    refused_alike(device, lambda x, i: two(x, i, [-1, 8]), x, i, match=r"non-negative.*\(-1, 8\)")
    refused_alike(device, lambda x, i: two(x, i, [8, 8]), x.long(), i, match="not implemented for 'Long'")
    refused_alike(device, lambda x, i: three(x, i, [8] * 3, [2, 0, 2], [0] * 3), volume, j, match="greater than zero")
    refused_alike(device, lambda x, i: three(x, i, [8] * 3, [2], [0] * 3), volume, j, match="elements.*in stride")
    refused_alike(device, lambda x, i: three(x, i, [8] * 2, [2] * 3, [0] * 3), volume, j, match="in output_size")


# -- Fractional pooling ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "kernel,out,size", [((2, 2), (3, 3), (9, 8)), ((1, 3), (1, 4), (5, 7)), ((2, 3), (20, 19), (41, 50))]
)
def test_fractional_pooling(device, seed, dtype, kernel, out, size):
    """Ties, NaN and infinities included: the first of the largest, but the last NaN, has the index."""
    x = torch.randint(-2, 3, (2, 3, *size)).to(dtype)
    for value, part in ((float("nan"), 0.1), (-float("inf"), 0.2)):
        x[torch.rand(x.shape) < part] = value
    samples = torch.rand(4, 3, 2).to(dtype)  # for more batches than there are

    def pooled(x, s):
        return F.fractional_max_pool2d(x, kernel, output_size=out, _random_samples=s, return_indices=True)

    beside_eager(device, pooled, x.requires_grad_(), samples)
    beside_eager(device, pooled, x[0].detach().requires_grad_(), samples)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_fractional_pooling_of_volumes(device, seed, dtype):
    def pooled(x, s):
        return F.fractional_max_pool3d(x, (2, 1, 3), output_size=(3, 4, 1), _random_samples=s, return_indices=True)

    beside_eager(device, pooled, leaf(2, 3, 6, 7, 5, dtype=dtype), torch.rand(2, 3, 3, dtype=dtype))
    beside_eager(device, pooled, leaf(3, 6, 7, 5, dtype=dtype), torch.rand(1, 3, 3, dtype=dtype))


def test_fractional_pooling_refuses(device):
    x, s, volume = torch.ones(2, 3, 4, 4), torch.rand(2, 3, 2), torch.ones(1, 2, 4, 4, 4)
    two, three = aten.fractional_max_pool2d, aten.fractional_max_pool3d
    refused_alike(device, lambda x, s: two(x, [2, 2], [2, 2], s), x, s.double(), match="same dtype as input")
    refused_alike(device, lambda x, s: two(x, [3, 3], [3, 3], s), x, s, match="too large relative to input height")
    refused_alike(device, lambda x, s: two(x, [2, 2], [2, 2], s), x, s[:1], match="no less then input batch size")
    refused_alike(device, lambda x, s: two(x, [2, 2], [2, 2], s), x, s[:, :2], match="equals to input channel size")
    refused_alike(
        device, lambda x, s: two(x, [2, 2], [2, 2], s), x.long(), s.long(), match="not implemented for 'Long'"
    )
    refused_alike(
        device, lambda x, s: three(x, [2] * 3, [3] * 3, s), volume, torch.rand(1, 2, 3), match="pool time 2 too large"
    )
    # A window of nothing is the owner's to refuse, where eager gives what it started from.
    with pytest.raises(sojourn.Error, match="windows of 0 elements"):
        two(x.to(device), [0, 2], [2, 2], s.to(device))[0].cpu()


# -- Grids -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grids(device, seed, mode, padding, align):
    for dtype in (torch.float64, torch.float32):
        for sizes, points in (((5, 4), (3, 4)), ((1, 1), (2, 2)), ((1, 6), (1, 3)), ((3, 4, 5), (2, 3, 2))):
            if mode == "bicubic" and len(sizes) == 3:
                continue
            grid = (torch.randn(2, *points, len(sizes), dtype=dtype) * 1.2).requires_grad_()

            def sampled(x, grid):
                return F.grid_sample(x, grid, mode, padding, align)

            beside_eager(device, sampled, leaf(2, 3, *sizes, dtype=dtype), grid)
            beside_eager(device, sampled, leaf(2, 3, *sizes, dtype=dtype), grid.detach())
            beside_eager(device, sampled, leaf(2, 3, *sizes, dtype=dtype).detach(), grid)


def test_empty_grids(device):
    for shape in ((0, 3, 4, 5), (2, 0, 4, 5)):
        beside_eager(
            device, lambda x, g: F.grid_sample(x, g, align_corners=True), leaf(*shape), leaf(shape[0], 2, 2, 2)
        )


def test_grids_refuse(device):
    x, grid = torch.ones(2, 3, 4, 5), torch.zeros(2, 3, 3, 2)
    volume, points = torch.ones(2, 3, 4, 5, 6), torch.zeros(2, 3, 3, 3, 3)
    refused_alike(device, lambda x, g: aten.grid_sampler_2d(x, g, 0, 0, True), x, grid[:1], match="same batch size")
    refused_alike(device, lambda x, g: aten.grid_sampler_2d(x, g, 0, 0, True), x[:, :, :0], grid, match="non-empty")
    refused_alike(
        device, lambda x, g: aten.grid_sampler_2d(x, g, 0, 0, True), volume, points, match="expected 4D input"
    )
    refused_alike(
        device, lambda x, g: aten.grid_sampler_3d(x, g, 0, 0, True), volume, points[..., :2], match="size 3 in last"
    )
    refused_alike(device, lambda x, g: aten.grid_sampler_3d(x, g, 2, 0, True), volume, points, match="only supports 4D")


# -- Resampling ------------------------------------------------------------------------------------------------------

SIZES = [(3, 3), (7, 2), (12, 13), (5, 9), (7, 9), (1, 2)]


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("kind", ["bilinear", "bicubic", "lanczos"])
def test_antialiasing(device, seed, kind, align):
    smooth = getattr(aten, f"_upsample_{kind}2d_aa")
    for size in SIZES:
        for dtype in (torch.float64, torch.float32):
            beside_eager(device, lambda x, size=size: smooth(x, size, align), leaf(2, 3, 7, 9, dtype=dtype))
        for channels in (3, 5):
            pixels = torch.randint(0, 256, (2, channels, 7, 9), dtype=torch.uint8)
            beside_eager(device, lambda x, size=size: smooth(x, size, align), pixels)
    beside_eager(device, lambda x: smooth(x, [4, 6], align, 0.6, 0.7), leaf(2, 3, 7, 9))
    lying = torch.randn(2, 3, 7, 9).contiguous(memory_format=torch.channels_last)
    same(smooth(lying.to(device), [4, 4], align), smooth(lying, [4, 4], align))


def test_antialiased_interpolation(device, seed):
    for mode in ("bilinear", "bicubic"):
        for factor in (0.4, 1.7, (0.5, 2.0)):
            beside_eager(
                device,
                lambda x, m=mode, f=factor: F.interpolate(x, scale_factor=f, mode=m, antialias=True),
                leaf(2, 2, 12, 11),
            )


def test_antialiasing_refuses(device):
    x = torch.ones(1, 1, 4, 4)
    for dtype in (torch.int32, torch.float16):
        refused_alike(
            device, lambda x: aten._upsample_bilinear2d_aa(x, [2, 2], False), x.to(dtype), match="not implemented for"
        )
    refused_alike(device, lambda x: aten._upsample_bicubic2d_aa(x, [0, 2], False), x, match="greater than 0")


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("kind", ["bilinear", "bicubic"])
def test_bytes(device, seed, kind, align):
    resampled = getattr(aten, f"upsample_{kind}2d")
    for channels in (3, 5):
        pixels = torch.randint(0, 256, (2, channels, 7, 9), dtype=torch.uint8)
        for size in (*SIZES, (29, 31)):
            beside_eager(device, lambda x, size=size: resampled(x, size, align), pixels)
            beside_eager(device, lambda x, size=size: resampled(x, size, align, 1.3, 0.7), pixels)
        beside_eager(device, lambda x: resampled(x, [4, 3], align), pixels[:, :, :1, :1].contiguous())
    edges = (torch.rand(1, 3, 6, 5) < 0.5).to(torch.uint8) * 255
    beside_eager(device, lambda x: resampled(x, [17, 11], align), edges)


@pytest.mark.parametrize("kind", ["bilinear", "bicubic"])
def test_sizes_that_stay(device, seed, kind):
    """Whatever scale is given with them."""
    resampled = getattr(aten, f"upsample_{kind}2d")
    for size in ((7, 9), (7, 5)):
        beside_eager(device, lambda x, size=size: resampled(x, size, False, 1.3, 0.7), leaf(2, 3, 7, 9))
