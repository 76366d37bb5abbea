# SPDX-License-Identifier: Apache-2.0
"""How often the bytes of uploads and published values are copied between tensor and wire: once on each side; but an owner
reads uploads where they came in, and copies only those that it keeps as they are. An embedded owner's copies are counted
with the client's; another process counts its own (test/frontend/TransportTest.cpp)."""

import pytest
import torch

import _sojourn
import sojourn


@pytest.fixture(params=["local", "ipc"])
def anywhere(request):
    if request.param == "local":
        owner = sojourn.local()
    else:
        owner = sojourn.connect(request.getfixturevalue("owner_process").address)
    yield owner
    owner.close()


@pytest.fixture
def sides(anywhere):
    """Sides of the wire that this process counts for."""
    return 2 if anywhere._embedded else 1


@pytest.mark.parametrize("size", [1, 1000, 3_000_000])
def test_one_copy_up_and_one_down(anywhere, sides, size, seed):
    sojourn.flush()  # what other owners of this process still wait for
    host = torch.randn(size, dtype=torch.float64)
    x = host.to(anywhere.device)
    before = _sojourn.copied_bytes()
    sojourn.flush()
    assert _sojourn.copied_bytes() - before == sides * host.nbytes
    before = _sojourn.copied_bytes()
    back = sojourn.publish(x)
    assert _sojourn.copied_bytes() - before == sides * host.nbytes
    assert torch.equal(back, host)


def test_parts_that_go_ahead_are_copied_once_too(anywhere, sides, seed):
    _sojourn.set_upload_bounds(1000, 333)
    try:
        tensors = [torch.randn(size) for size in (10, 500, 900)]
        remote = [tensor.to(anywhere.device) for tensor in tensors]
        before = _sojourn.copied_bytes()
        sojourn.flush()
        assert _sojourn.copied_bytes() - before == sides * sum(tensor.nbytes for tensor in tensors)
        assert all(torch.equal(a, b) for a, b in zip(sojourn.publish(remote), tensors))
    finally:
        _sojourn.set_upload_bounds(64 << 20, 8 << 20)


def test_many_tensors_do_not_make_a_request_grow(anywhere, sides, seed):
    """A request that grows would copy what it holds."""
    tensors = [torch.randn(1 + k % 50) for k in range(700)]
    remote = [tensor.to(anywhere.device) for tensor in tensors]
    before = _sojourn.copied_bytes()
    sojourn.flush()
    assert _sojourn.copied_bytes() - before == sides * sum(tensor.nbytes for tensor in tensors)
    del remote


def test_an_artifacts_inputs_are_copied_once(anywhere, sides, seed):
    with sojourn.offline():
        program = sojourn.compile(lambda x: x * 2, inputs=[sojourn.spec((100_000,))])
    run = _sojourn.ArtifactRun(program._artifact, anywhere.session)
    x = torch.randn(100_000)
    before = _sojourn.copied_bytes()
    (y,) = run.step([x])
    assert _sojourn.copied_bytes() - before == (1 + sides) * x.nbytes  # up once, down once on each side
    assert torch.equal(y, x * 2)
