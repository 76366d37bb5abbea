# SPDX-License-Identifier: Apache-2.0
"""Modules of torch that look at values on their way, and indices as other devices take them: in one step, one trip,
eager's results."""

import copy

import pytest
import torch
import torch.nn.functional as F
from remote_support import Count, assert_same
from torch import nn

import sojourn


def both(owner, module, function, *inputs):
    """Results and gradients of `function(module, *inputs)` in eager, and in one step at the owner."""

    def run(model, tensors):
        result = function(model, *tensors)
        if result.requires_grad:
            model.zero_grad()
            result.square().mean().backward()
        return [result.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]]

    expected = run(module, inputs)
    there = copy.deepcopy(module).to(owner.device)
    tensors = [tensor.to(owner.device) for tensor in inputs]
    sojourn.flush()
    with Count(owner) as count:
        found = sojourn.step(run)(there, tensors)
    assert count.round_trips == 1
    assert_same(found, expected, rtol=1e-7, atol=1e-9)


def causal(x):
    return nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device, dtype=x.dtype)


def padding(x):
    """Rows end at different places; not all at the end."""
    mask = torch.zeros(x.shape[:2], dtype=torch.bool)
    mask[0, 3:] = True
    mask[1, :1] = True
    return mask.to(x.device)


ENCODERS = {
    "causal": lambda m, x: m(x, mask=causal(x)),
    "causal and told": lambda m, x: m(x, mask=causal(x), is_causal=True),
    "padding": lambda m, x: m(x, src_key_padding_mask=padding(x)),
    "plain": lambda m, x: m(x),
}


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("mode", ["train", "eval", "eval without gradients"])
def test_transformer_encoders(owner, seed, name, mode):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    module = nn.TransformerEncoder(layer, 2).double().train(mode == "train")
    with torch.set_grad_enabled(mode != "eval without gradients"):
        both(owner, module, ENCODERS[name], torch.randn(3, 5, 8).double())


def test_transformers(owner, seed):
    module = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True).double()
    x, y = torch.randn(3, 5, 8).double(), torch.randn(3, 4, 8).double()
    both(owner, module, lambda m, x, y: m(x, y, tgt_mask=causal(y), src_key_padding_mask=padding(x)), x, y)
    both(owner, module.eval(), lambda m, x, y: m(x, y, tgt_mask=causal(y), tgt_is_causal=True), x, y)


DISTRIBUTIONS = {
    "normal": lambda m, x: torch.distributions.Normal(m(x), F.softplus(m(x)) + 0.1).log_prob(x),
    "categorical": lambda m, x: torch.distributions.Categorical(logits=m(x)).log_prob(torch.ones(4, device=x.device)),
    "bernoulli": lambda m, x: torch.distributions.Bernoulli(torch.sigmoid(m(x))).entropy(),
    "divergence": lambda m, x: torch.distributions.kl_divergence(
        torch.distributions.Normal(m(x), torch.ones_like(x)), torch.distributions.Normal(x, torch.ones_like(x))
    ),
    "multivariate": lambda m, x: torch.distributions.Independent(torch.distributions.Laplace(m(x), 1.0), 1).log_prob(x),
    "beta": lambda m, x: torch.distributions.Beta(m(x).exp(), x.exp()).log_prob(torch.sigmoid(x)),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions_check_no_values(owner, seed, name):
    both(owner, nn.Linear(3, 3).double(), DISTRIBUTIONS[name], torch.randn(4, 3).double())


@pytest.mark.filterwarnings("ignore:a value is read here")
def test_assertions_are_reads(owner, seed):
    """Outside of steps an assertion holds or raises eager's error; inside of one it would read a value."""
    x = torch.rand(5) + 0.1
    there = x.to(owner.device)
    torch._assert_async((there > 0).all())
    torch._assert_async((there < 2).all(), "too large")
    for words in ((), ("too large",)):
        with pytest.raises(RuntimeError) as expected:
            torch._assert_async((x > 2).all(), *words)
        with pytest.raises(RuntimeError) as found:
            torch._assert_async((there > 2).all(), *words)
        assert str(found.value) == str(expected.value)
        with pytest.raises(sojourn.ValueNeeded, match="assertions read values"), sojourn.step():
            torch._assert_async((there > 2).all(), *words)
    torch.testing.assert_close((there * 2).cpu(), x * 2)


def test_assertions_on_private_rows_are_refused(rng):
    columns = {"a": [rng.uniform(-1, 1) for _ in range(64)]}
    with sojourn.local() as owner:
        table = owner.register("people", columns, policy="private", bounds={"a": (-1, 1)})
        with pytest.raises(sojourn.Refused, match="this value has a price"):
            torch._assert_async(table["a"].sum() > 0)


def test_on_the_cpu_torch_checks_as_before():
    with pytest.raises(ValueError, match="constraint"):
        torch.distributions.Normal(torch.zeros(2), torch.tensor([1.0, -1.0]), validate_args=True)


READS = {
    "positions": lambda x, i, mask: x[i],
    "two": lambda x, i, mask: x[i, i],
    "after a slice": lambda x, i, mask: x[:, i],
    "a mask": lambda x, i, mask: x[mask],
    "a mask and positions": lambda x, i, mask: x[mask[:, 0], 1],
    "a row mask": lambda x, i, mask: x[mask[:, 0]],
}


@pytest.mark.parametrize("name", READS)
def test_indices_on_the_cpu(owner, seed, name):
    """Positions and masks of the CPU index remote tensors, with gradients."""
    x, i, mask = torch.randn(4, 4).double(), torch.tensor([2, 0, 3]), torch.rand(4, 4) > 0.4
    leaf, there = x.clone().requires_grad_(), x.to(owner.device).requires_grad_()
    expected, found = READS[name](leaf, i, mask), READS[name](there, i, mask)
    slopes = [
        torch.autograd.grad(result.square().sum(), source)[0] for result, source in ((found, there), (expected, leaf))
    ]
    assert_same([found.detach(), slopes[0]], [expected.detach(), slopes[1]], rtol=1e-12, atol=1e-12)


WRITES = {
    "a number": lambda x, mask: x.__setitem__(mask, 7.0),
    "infinity": lambda x, mask: x.__setitem__(mask, -float("inf")),
    "a tensor of one": lambda x, mask: x.__setitem__(mask, x[0, 0].clone()),
    "rows": lambda x, mask: x.__setitem__(mask[:, 0], 2.0),
    "after a slice": lambda x, mask: x.__setitem__((slice(None), mask[0]), 3.0),
    "of a view": lambda x, mask: x[1:].__setitem__(mask[1:], 1.0),
    "index_put_": lambda x, mask: x.index_put_((mask,), torch.tensor(5.0, dtype=x.dtype, device=x.device)),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_through_masks(owner, seed, name):
    x, mask = torch.randn(4, 4).double(), torch.rand(4, 4) > 0.5
    there, there_mask = x.to(owner.device), mask.to(owner.device)
    with sojourn.step():
        WRITES[name](there, there_mask)
    WRITES[name](x, mask)
    assert_same(there, x, rtol=0, atol=0)


def test_writes_through_masks_of_the_cpu(owner, seed):
    x, mask = torch.randn(4, 4).double(), torch.rand(4, 4) > 0.5
    there = x.to(owner.device)
    values = torch.randn(int(mask.sum())).double()
    with sojourn.step():
        there[mask] = values.to(owner.device)
        there[mask[:, 0]] += 1
    x[mask] = values
    x[mask[:, 0]] += 1
    assert_same(there, x, rtol=1e-12, atol=1e-12)


def test_top_k_sampling_as_it_is_written(owner, seed):
    """Of a GPT's logits, with its gradient."""

    def sample(logits):
        logits = logits.clone()
        best, _ = torch.topk(logits, 3)
        logits[logits < best[:, [-1]]] = -float("inf")
        return F.softmax(logits, dim=-1)

    x = torch.randn(4, 9).double()
    leaf, there = x.clone().requires_grad_(), x.to(owner.device).requires_grad_()
    expected, found = sample(leaf), sample(there)
    slopes = [torch.autograd.grad(p.square().sum(), source)[0] for p, source in ((found, there), (expected, leaf))]
    assert_same([found.detach(), slopes[0]], [expected.detach(), slopes[1]], rtol=1e-10, atol=1e-12)


def test_what_masks_cannot_do(owner, seed):
    x = torch.randn(4, 4).to(owner.device)
    column = x[:, 0] > 0
    for use in (lambda: x[x > 0], lambda: x.__setitem__((slice(None), column), torch.ones(3, device=owner.device))):
        with sojourn.step(), pytest.raises(sojourn.ValueNeeded, match="torch.where"):
            use()
    with pytest.raises(IndexError, match="The shape of the mask"):
        x[x[:, :3] > 0] = 1.0


def test_masks_that_do_not_fit(owner, seed):
    """On the CPU and at the owner, as eager says it; nothing is invented and nothing dropped."""
    for place in ("cpu", owner.device):
        x = torch.arange(4.0, device=place)
        for mask in (
            torch.tensor([True, False, True]),
            torch.tensor([True] + [False] * 4 + [True]),
            torch.ones(4, 1) > 0,
        ):
            with pytest.raises(IndexError, match="shape of the mask|too many indices"):
                x[mask]
            with pytest.raises(IndexError, match="shape of the mask|too many indices"):
                x[mask.to(place)] = 7.0
        x.index_put_((x > 2,), torch.tensor(1.5, dtype=torch.float64, device=place))  # a number of another type
        assert x.tolist() == [0.0, 1.0, 2.0, 1.5]


def test_padding_at_the_end_of_rows(device, seed):
    """In eval mode eager packs rows and gives zeros where padding was (the bias of a last norm); only where every row has
    its padding at the end."""
    layer = nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True)
    at_end = torch.arange(6) >= torch.tensor([6, 4, 3, 6])[:, None]
    elsewhere = at_end.flip(1)
    mixed = torch.cat([at_end[:2], elsewhere[2:]])
    x = torch.randn(4, 6, 16)
    for norm in (None, nn.LayerNorm(16)):
        here = nn.TransformerEncoder(layer, 2, norm=norm).eval()
        if norm is not None:
            nn.init.normal_(norm.bias)
        there = copy.deepcopy(here).to(device)
        for padding in (at_end, elsewhere, mixed):
            with torch.no_grad():
                wanted = here(x, src_key_padding_mask=padding)
                with sojourn.step():
                    found = sojourn.publish(there(x.to(device), src_key_padding_mask=padding.to(device)))
            torch.testing.assert_close(found.value, wanted, rtol=1e-4, atol=1e-4)
        wanted, found = (
            here(x, src_key_padding_mask=at_end),
            there(x.to(device), src_key_padding_mask=at_end.to(device)),
        )
        torch.testing.assert_close(found.detach().cpu()[~at_end], wanted.detach()[~at_end], rtol=1e-4, atol=1e-4)


def test_covariances_are_not_asked(device, seed):
    a = torch.randn(3, 3)
    covariance = a @ a.mT + torch.eye(3)
    with sojourn.step():
        there = torch.distributions.MultivariateNormal(
            torch.zeros(3, device=device), covariance.to(device), validate_args=True
        )
        found = sojourn.publish(there.log_prob(torch.ones(3, device=device)))
    wanted = torch.distributions.MultivariateNormal(torch.zeros(3), covariance).log_prob(torch.ones(3))
    torch.testing.assert_close(found.value, wanted)
    assert torch.distributions.constraints.positive_definite.check(covariance.to(device)).item()
    assert not torch.distributions.constraints.positive_definite.check(-covariance.to(device)).item()
    assert not torch.distributions.constraints.positive_definite.check(a.to(device)).item()
    with pytest.raises(ValueError, match="covariance_matrix"):
        torch.distributions.MultivariateNormal(
            torch.zeros(2, device=device), torch.ones(2, 3, device=device), validate_args=True
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_chunks_of_a_loss_are_added_up_wide(device, seed, dtype):
    """As on the CPU, whose chunks are added in float32; in `dtype` one of these ten is further off in most runs."""
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=4)
    loss = lambda x, w, t: F.linear_cross_entropy(x, w, t, options=options)
    for _ in range(10):
        x, w, target = torch.randn(256, 16).to(dtype), torch.randn(40, 16).to(dtype), torch.randint(0, 40, (256,))
        found = loss(x.to(device), w.to(device), target.to(device)).cpu()
        torch.testing.assert_close(found, loss(x, w, target), rtol=torch.finfo(dtype).eps, atol=0)
