# SPDX-License-Identifier: Apache-2.0
"""Replayed calls upload their own CPU tensors, whatever dtype, shape or layout they arrive in."""

import warnings

import pytest
import torch

import sojourn

#: f(x, t, w): x [4] and w [2, 3] at the owner, t [3] on the CPU.
CALLS = {
    "another dtype": lambda x, t, w: t.to(x.device, torch.float64) * 2,
    "to half": lambda x, t, w: t.to(x.device).half() * 2,
    "copied into another dtype": lambda x, t, w: w.double().copy_(t),
    "expanded": lambda x, t, w: w.clone().copy_(t),
    "as it is": lambda x, t, w: w[0].clone().copy_(t) + t.to(x.device),
    "part of what is there": lambda x, t, w: torch.cat([w[0], w[1].clone().copy_(t)]),
    "through a conjugate": lambda x, t, w: torch.view_as_real(w.to(torch.complex64).clone().conj().copy_(t).resolve_conj()),
    "indices": lambda x, t, w: x[t.long()], "indices of another dtype": lambda x, t, w: x[t.int()],
    "a mask": lambda x, t, w: w[0][t > 1.5], "a mask of rows": lambda x, t, w: w[:, t > 1.5],
    "one of its numbers": lambda x, t, w: x * t[0], "new tensor": lambda x, t, w: torch.tensor(t.tolist(), device=x.device),
    "as_tensor": lambda x, t, w: torch.as_tensor(t, device=x.device) * x[:3], "a window": lambda x, t, w: t[::2].to(x.device),
    "a number": lambda x, t, w: w.clone().copy_(t[0]), "in another layout": lambda x, t, w: t.expand(2, 3).T.to(x.device) * 2,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.* is traced, not replayed")
@pytest.mark.parametrize("name", CALLS)
def test_each_call_sends_its_own(device, seed, name):
    """Alike at first, so that the function is replayed; then not."""
    x, w = torch.randn(4).to(device), torch.randn(2, 3).to(device)
    call = sojourn.step(replay=True)(lambda x, t, w: sojourn.publish(CALLS[name](x, t, w)))
    first, second = torch.randint(0, 4, (2, 3)).float()
    first[0], second[0] = 2.0, 3.0
    for t in [first] * 6 + [second] * 3 + [first, second]:
        wanted = CALLS[name](x.cpu(), t, w.cpu())
        torch.testing.assert_close(call(x, t.clone(), w).value, wanted, rtol=1e-5, atol=1e-6)


def test_a_number_is_its_own(device):
    call = sojourn.step(replay=True)(lambda w, t: sojourn.publish(w.clone().copy_(t)))
    w = torch.zeros(3).to(device)
    for number in [1.0] * 6 + [2.0] * 4 + [1.0]:
        assert call(w, torch.tensor(number)).value.tolist() == [number] * 3


def test_constants_keep_their_layout(device):
    table = torch.arange(12.0).view(3, 4).T
    call = sojourn.step(replay=True)(
        lambda w: (sojourn.publish(w * table.to(device)[1]), sojourn.publish(table.to(device).T.reshape(-1)))
    )
    for _ in range(6):
        row, flat = call(torch.ones(3).to(device))
        assert torch.equal(row.value, table[1]) and torch.equal(flat.value, table.T.reshape(-1))


@pytest.mark.filterwarnings("ignore:.* is traced, not replayed")
@pytest.mark.parametrize("look", [
    lambda w: (w * 2).view(torch.int32), lambda w: (w * 2).view(torch.int8), lambda w: torch.view_as_real(w.to(torch.complex64)),
    lambda w: torch.view_as_complex(w * 2), lambda w: (w.to(torch.complex64) * 1j).conj(),
    lambda w: (w.to(torch.complex64) * 1j).conj().imag,
])  # fmt: skip
def test_what_is_returned_is_seen_as_it_was(device, seed, look):
    w = torch.randn(4, 2)
    call = sojourn.step(replay=True)(look)
    for _ in range(6):
        found, wanted = call(w.to(device)), look(w)
        assert found.dtype == wanted.dtype and found.is_conj() == wanted.is_conj() and found.is_neg() == wanted.is_neg()
        torch.testing.assert_close(found.cpu(), wanted.resolve_conj().resolve_neg())


def test_conjugates_are_other_arguments(device, seed):
    call = sojourn.step(replay=True)(lambda z: sojourn.publish(z * 2))
    z = torch.randn(3, dtype=torch.complex64)
    there = z.to(device)
    for given, here in [(there, z)] * 5 + [(there.conj(), z.conj())] * 5 + [(there, z)]:
        torch.testing.assert_close(call(given).value, (here * 2).resolve_conj())


@pytest.mark.filterwarnings("ignore:.* is traced, not replayed")
def test_images_that_are_laid_out_anew(device, seed):
    weight = torch.randn(12).to(device).view(1, 2, 2, 3)

    @sojourn.step(replay=True)
    def call(images):
        there = images.to(device, memory_format=torch.channels_last)
        return sojourn.publish(there * weight), sojourn.publish(there.permute(0, 2, 3, 1).flatten())

    for _ in range(8):
        images = torch.randn(1, 2, 2, 3)
        product, flat = call(images)
        torch.testing.assert_close(product.value, images * weight.cpu())
        assert torch.equal(flat.value, images.permute(0, 2, 3, 1).flatten())


def test_loops_over_batches_of_another_dtype(device, seed):
    """As NumPy's arrays come: float64."""
    model = torch.nn.Linear(3, 1)
    reference = torch.nn.Linear(3, 1)
    reference.load_state_dict(model.state_dict())
    model.to(device)
    batches = [(torch.randn(5, 3, dtype=torch.float64), torch.randn(5, 1, dtype=torch.float64)) for _ in range(12)]

    def train(model, optimizer, x, y):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    here = torch.optim.SGD(reference.parameters(), lr=0.05)

    @sojourn.step(replay=True)
    def step(x, y):
        return sojourn.publish(train(model, optimizer, x.to(device, torch.float32), y.to(device, dtype=torch.float32)))

    losses = [float(step(x, y)) for x, y in batches]
    wanted = [train(reference, here, x.float(), y.float()).item() for x, y in batches]
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(wanted), rtol=1e-4, atol=1e-5)


REACHED = {
    "uploaded": lambda x, t: x * t.to(x.device),
    "copied": lambda x, t: x.clone().copy_(t) + x,
    "a number": lambda x, t: x * t[:1].sum() if t.device.type == "owner" else x + t[2].to(x.device),
    "positions": lambda x, t: x[t.long().clamp(0, 3)],
    "a mask": lambda x, t: x[t > 1],
}
CHANGES = {
    "added": lambda t: t.add_(1),
    "an entry": lambda t: t.__setitem__(2, 3.0),
    "through a view": lambda t: t[1:].mul_(2),
    "from elsewhere": lambda t: t.copy_(torch.tensor([2.0, 0.0, 3.0, 1.0])),
}


@pytest.mark.filterwarnings("ignore:.* is traced, not replayed")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", REACHED)
def test_a_tensor_that_is_reached_may_change_in_place(device, seed, name, change):
    """It is no argument, and nothing but torch's count of its changes tells of one."""
    t = torch.tensor([0.0, 1.0, 2.0, 3.0])
    call = sojourn.step(replay=True)(lambda x: sojourn.publish(REACHED[name](x, t)))
    for at in range(16):
        if at in (6, 11):
            CHANGES[change](t)
        x = torch.randn(4)
        torch.testing.assert_close(call(x.to(device)).value, REACHED[name](x, t), rtol=1e-6, atol=1e-6)
    if name in ("uploaded", "copied"):
        # Two calls are traced at first and at each change, but where the contents are as they were.
        assert call.replayed == 10 + 2 * (change in ("an entry", "from elsewhere")), sojourn.explain()
        assert "was changed in place" in sojourn.explain()


def test_a_number_that_is_reached_may_change_in_place(device, seed):
    """A tensor without dims, which torch takes beside tensors at other devices."""
    scale = torch.tensor(0.5)
    call = sojourn.step(replay=True)(lambda x: sojourn.publish(x * scale))
    for at in range(16):
        if at == 8:
            scale.mul_(0.5)
        x = torch.randn(4)
        torch.testing.assert_close(call(x.to(device)).value, x * scale)
    assert call.replayed == 12, sojourn.explain()


def test_a_loop_notices_a_change_in_place(device, seed):
    weight = torch.ones(3)
    batches = [(torch.randn(5, 3),) for _ in range(24)]
    wanted, found = [], []

    def step(x):
        return sojourn.publish((x.to(device) * weight.to(device)).sum())

    for at, (x,) in enumerate(batches):
        if at in (9, 17):
            weight.add_(1)
        wanted.append((x * weight).sum())
    weight.fill_(1)

    def feed():
        for at, batch in enumerate(batches):
            if at in (9, 17):
                weight.add_(1)
            yield batch

    found = [float(value) for value in sojourn.loop(step, feed())]
    torch.testing.assert_close(torch.tensor(found), torch.stack(wanted), rtol=1e-5, atol=1e-5)


def test_changes_that_torch_does_not_count(device, seed):
    with torch.inference_mode():
        weight = torch.ones(3)
    call = sojourn.step(replay=True)(lambda x: x * weight.to(device))
    for at in range(8):
        x = torch.randn(3)
        torch.testing.assert_close(sojourn.publish(call(x.to(device))).value, x * weight)
        if at == 4:
            with torch.inference_mode():
                weight.add_(1)
    assert call.replayed == 4, call.explain()


OTHER_CHANGES = {
    "by NumPy": lambda t: t.numpy().__iadd__(1), "of data": lambda t: t.data.add_(1),
    "other data": lambda t: setattr(t, "data", t.data + 1), "data of another layout": lambda t: setattr(t, "data", t.data.T.clone().T + 1),
    "other memory": lambda t: t.set_(t.data + 1),
}  # fmt: skip


@pytest.mark.parametrize("change", OTHER_CHANGES)
@pytest.mark.parametrize("name", ["uploaded", "lent by NumPy"])
def test_changes_through_other_names(device, seed, name, change):
    weight = torch.randn(2, 2) if name == "uploaded" else torch.from_numpy(torch.randn(2, 2).numpy())
    call = sojourn.step(replay=True)(lambda x: x * weight.to(device))
    for at in range(10):
        x = torch.randn(2, 2)
        torch.testing.assert_close(sojourn.publish(call(x.to(device))).value, x * weight, msg=lambda m: f"{at}: {m}")
        if at in (4, 7):
            OTHER_CHANGES[change](weight)
    assert call.replayed >= 3, call.explain()


def test_memory_that_another_tensor_resizes(device):
    """The uploaded view is gone, and the storage has other memory."""
    base = torch.arange(4.0)
    call = sojourn.step(replay=True)(lambda x: x * torch.as_strided(base, (3,), (1,)).to(device))
    plain = sojourn.step(replay=True)(lambda x: x * base.data.to(device))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for at in range(8):
            if at == 4:
                base.resize_(1 << 20)
                base.fill_(5.0)
                base.resize_(4)
            x = torch.ones(3).to(device)
            torch.testing.assert_close(sojourn.publish(call(x)).value, base[:3])
            torch.testing.assert_close(sojourn.publish(plain(torch.ones(4).to(device))).value, base)


def test_memory_that_the_call_allocates(device):
    """Nothing of it is kept: it is the call's own, and its contents are constants."""
    call = sojourn.step(replay=True)(lambda x: x + torch.tensor([1.0, 2.0]).to(device) + torch.ones(2).to(device))
    for _ in range(6):
        assert sojourn.publish(call(torch.zeros(2).to(device))).value.tolist() == [2, 3]
    assert call.replayed == 4
