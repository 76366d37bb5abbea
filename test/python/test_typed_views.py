# SPDX-License-Identifier: Apache-2.0
"""`x.view(dtype)`: the same memory as elements of another type and width, read and written to, to the bit."""

import itertools

import pytest
import torch

TYPES = [
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
    torch.float64, torch.complex64, torch.complex128,
]  # fmt: skip
PAIRS = [pair for pair in itertools.product(TYPES, TYPES) if pair[0] != pair[1]]


def memory(*shape, dtype):
    """Bytes at random, among them those of NaN and infinity."""
    width = torch.empty(0, dtype=dtype).element_size()
    return torch.randint(0, 256, (*shape[:-1], shape[-1] * width), dtype=torch.uint8).view(dtype)


def bytes_of(x):
    return x.cpu().contiguous().view(torch.uint8)


@pytest.mark.parametrize("there, here", PAIRS, ids=str)
def test_reads_and_writes(device, seed, there, here):
    theirs = memory(3, 16, dtype=there)
    ours = theirs.to(device)
    new = memory(1000, dtype=here)
    for x in (ours, theirs):
        seen = x.view(here)
        columns = seen.shape[1]
        seen[1] = new.to(x.device)[:columns]
        seen[:, 1::2] = new.to(x.device)[columns:][: columns // 2]
        x[2, 3] = x[0, 1]
        seen[0].copy_(seen[2])
    assert ours.view(here).shape == theirs.view(here).shape and ours.view(here).stride() == theirs.view(here).stride()
    assert torch.equal(bytes_of(ours), bytes_of(theirs))
    # Not the whole, nor in the order of memory.
    for window in (
        lambda x: x.view(here).T[1::3],
        lambda x: x[1:].view(here)[:, 2:],
        lambda x: x.view(here).T.view(here),
    ):
        found, wanted = window(ours), window(theirs)
        assert found.storage_offset() == wanted.storage_offset() and found.stride() == wanted.stride()
        assert torch.equal(bytes_of(found), bytes_of(wanted))


@pytest.mark.parametrize("here", [torch.uint8, torch.int8, torch.int16, torch.float32, torch.int64], ids=str)
def test_booleans_are_bytes(device, seed, here):
    mask = torch.rand(5, 16) > 0.5
    assert torch.equal(bytes_of(mask.to(device).view(here)), bytes_of(mask.view(here)))
    numbers = mask.to(torch.uint8).view(here).clone()
    ours, theirs = numbers.to(device), numbers.clone()
    for x in (ours, theirs):
        x.view(torch.bool).logical_not_()
    assert torch.equal(bytes_of(ours), bytes_of(theirs))
    # An owner's boolean has no other bytes than 0 and 1.
    with pytest.raises(NotImplementedError, match="booleans would be written to as"):
        mask.to(device).view(here).zero_()


def test_a_view_of_a_view_sees_the_storage(device, seed):
    theirs = memory(4, 8, dtype=torch.float64)
    ours = theirs.to(device)
    for x in (ours, theirs):
        pixels = x.view(torch.int32).view(4, 4, 4)[:, 1:3]
        halves = pixels[..., :2].view(torch.float16)
        halves.fill_(-1.5)  # arithmetic may change the bits of a NaN
        pixels.view(torch.uint8)[1, 0, ::3] = 7
        x.view(torch.complex64)[3, 1:] = 2 - 0.5j
    assert torch.equal(bytes_of(ours), bytes_of(theirs))


def test_hash_of_weights(device, seed):
    """What people do with it: bits of a model in integers, packed numbers."""
    model = torch.nn.Linear(30, 8)
    bits = lambda m: torch.cat([p.detach().flatten().view(torch.uint8) for p in m.parameters()]).long()
    digest = lambda m: (bits(m) * torch.arange(1, bits(m).numel() + 1, device=m.weight.device)).sum() % 1_000_003
    packed = torch.randint(-128, 128, (6, 12), dtype=torch.int8)
    wanted = digest(model), packed.view(torch.int32)
    found = digest(model.to(device)), packed.to(device).view(torch.int32)
    assert found[0].item() == wanted[0].item() and torch.equal(found[1].cpu(), wanted[1])


def test_no_elements(device):
    x = torch.zeros(0, 4, dtype=torch.float64)
    for here in (torch.int8, torch.complex128, torch.int64):
        assert x.to(device).view(here).cpu().shape == x.view(here).shape


BAD = {
    "to view .* as .*different element sizes": lambda x: x[0, 0, 0].view(torch.uint8),
    "self.stride.-1. must be 1 to view": lambda x: x.T.view(torch.uint8),
    "self.size.-1. must be divisible by 2": lambda x: x[..., :3].view(torch.float64),
    "self.storage_offset.. must be divisible by 2": lambda x: x.flatten()[1:5].view(torch.int64),
    "self.stride.1. must be divisible by 2": lambda x: x[:, :, :2].view(torch.float64),
}


@pytest.mark.parametrize("text", BAD)
@pytest.mark.filterwarnings("ignore:The use of `x.T`")
def test_shapes_that_do_not_fit(device, text):
    x = torch.zeros(2, 4, 5)
    for given in (x, x.to(device)):
        with pytest.raises(RuntimeError, match=text):
            BAD[text](given)


def test_one_memory_is_not_read_and_written_at_once(device):
    for x in (torch.zeros(8), torch.zeros(8).to(device)):
        with pytest.raises(RuntimeError, match="single memory location"):
            x.view(torch.int16)[5:9].add_(x.view(torch.int32)[1:5])
        x.view(torch.int16)[:4].add_(x.view(torch.int32)[4:].to(torch.int16))
