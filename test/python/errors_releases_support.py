# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF059 (examples name what they compute)
"""Refusals of releases and runs: prices, budgets, terms."""

import itertools

import torch
import torch.nn.functional as F
from errors_support import example

import sojourn
from sojourn import BudgetExhausted, Error, Refused


@example(
    Refused, "A release without a price", "'patients'", "has no price", "publish(value, epsilon=...)", "example.py:1"
)
def _(funded):
    sojourn.publish(funded["dose"].mean())


@example(Refused, "A read of a private value", "reads are free, and this value has a price", "epsilon=...")
def _(funded):
    funded["dose"].mean().item()


@example(
    BudgetExhausted, "A release without a budget", "'local' has no budget on private dataset 'patients'", "owner.grant("
)
def _(patients):
    sojourn.publish(patients["dose"].mean(), epsilon=0.1)


@example(BudgetExhausted, "A release above the remaining budget", "epsilon 4 at delta 1e-05", "it would come to")
def _(funded):
    sojourn.publish(funded["dose"].mean(), epsilon=3)
    sojourn.publish(funded["dose"].mean(), epsilon=3)


@example(BudgetExhausted, "A run above the remaining budget", "the budget of client 'local' on dataset 'patients'")
def _(funded, model, optimizer):
    with sojourn.privacy(funded, noise_multiplier=0.3):
        for x, y in funded.batches(["age", "dose"], label="ill", size=16, epochs=20):
            with sojourn.step():
                F.cross_entropy(model(x), y).backward()
                optimizer.step()


@example(BudgetExhausted, "More steps than the run's plan", "the run's plan has 6 steps")
def _(funded, model, optimizer):
    with sojourn.privacy(funded, epsilon=3):
        batches = funded.batches(["age", "dose"], label="ill", size=16)
        for x, y in itertools.chain(batches, iter(batches)):
            with sojourn.step():
                F.cross_entropy(model(x), y).backward()
                optimizer.step()


@example(
    Refused, "A metric without a share of the step's price", "no share of the step's price", "metric_share", "epsilon="
)
def _(funded, model, optimizer):
    with sojourn.privacy(funded, noise_multiplier=1.0, metric_share=0):
        for x, y in funded.batches(["age", "dose"], label="ill", size=16):
            with sojourn.step():
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                sojourn.publish(loss.detach())


@example(
    Refused, "A metric with a tiny share", "too small: its noise is more than can be drawn", "epsilon or metric_share"
)
def _(funded, model, optimizer):
    with sojourn.privacy(funded, noise_multiplier=2**20, metric_share=1e-25):
        for x, y in funded.batches(["age", "dose"], label="ill", size=16):
            with sojourn.step():
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                sojourn.publish(loss.detach())


@example(Refused, "A step of a run with unknown noise", "noise is not known yet", "size=, epochs=")
def _(funded):
    with sojourn.privacy(funded, epsilon=3), sojourn.step():
        sojourn.publish(funded["dose"].mean())


@example(Error, "Invalid epsilon", "epsilon must be a number above 0", "got 0")
def _(funded):
    sojourn.publish(funded["dose"].mean(), epsilon=0)


@example(Error, "Invalid delta", "delta must be a number above 0 and below 1, got 2")
def _(funded):
    sojourn.publish(funded["dose"].mean(), epsilon=0.1, delta=2)


@example(Refused, "A delta above that of the budget", "delta is 0.01")
def _(funded):
    sojourn.publish(funded["dose"].mean(), epsilon=0.1, delta=0.01)


@example(Error, "Invalid bound", "bound must be a number from 1e-30 to 1e+30, got -1")
def _(funded):
    sojourn.publish(funded["dose"].mean(), epsilon=0.1, bound=-1)


@example(
    Refused,
    "A sum too large for any noise",
    "is bounded by 2^996",
    "the range of the noise",
    "bound= nearer to 1",
)
def _(owner):
    table = owner.register("stars", {"mass": torch.ones(9).double()}, bounds={"mass": (0, 1e300)})
    owner.grant("stars", epsilon=4, delta=1e-5)
    sojourn.publish(table["mass"].sum(), epsilon=0.1)


@example(
    Error, "A module published as a whole", "inside a torch.nn.modules.linear.Linear", "publish(module.state_dict())"
)
def _(model):
    sojourn.publish(model)


@example(Error, "An iterator of tensors that is published", "found a builtins.generator", "publish(list(...))")
def _(model):
    sojourn.publish(model.parameters())


@example(
    Error, "A tensor subclass that cannot be published", "torch.masked.maskedtensor.core.MaskedTensor",
    "has its values in other tensors", "publish those tensors",
)  # fmt: skip
def _(x):
    sojourn.publish(torch.masked.masked_tensor(x, x > 2))


@example(Error, "A publish inside torch.func", "inside a function of torch.func", "publish the result")
def _(x):
    torch.func.vmap(lambda row: sojourn.publish(row.sum()))(x)


@example(Error, "A lazy parameter that is published", "a lazy parameter without a shape", "run its module once")
def _(device):
    sojourn.publish(torch.nn.LazyLinear(2, device=device).state_dict())


@example(Error, "A tensor without values that is published", "shape (2, 3) on device meta", "to_empty(device=")
def _():
    sojourn.publish(torch.zeros(2, 3, device="meta"))


@example(Error, "A quote of a non-tensor", "quote takes a tensor or a tree of them, got list")
def _():
    sojourn.quote([1.0], epsilon=0.1)


@example(Error, "A quote without a price", "got None: a quote needs a separate price")
def _(funded):
    sojourn.quote(funded["dose"].mean(), epsilon=None)


@example(Error, "A quote inside a step", "end the step first")
def _(funded):
    with sojourn.step():
        sojourn.quote(funded["dose"].mean(), epsilon=0.1)


@example(
    Error,
    "A quote without a budget",
    "no budget is granted, so no delta gives the price; ask the data owner for a grant, or give delta",
)
def _(patients):
    sojourn.quote(patients["dose"].mean(), epsilon=0.1)


@example(Error, "A quote with a delta above that of the budget", "delta must be a number above 0 and at most 1e-05")
def _(funded):
    sojourn.quote(funded["dose"].mean(), epsilon=0.1, delta=0.01)


@example(Error, "privacy of a non-table", "privacy takes a table or a part of one, got str")
def _():
    sojourn.privacy("patients", epsilon=3)


@example(
    Error, "A run with price and noise", "give epsilon (the noise follows) or noise_multiplier (the price follows)"
)
def _(patients):
    sojourn.privacy(patients, epsilon=3, noise_multiplier=1.0)


@example(Error, "A loss that is neither mean nor sum", 'loss must be "mean" or "sum", got \'max\'')
def _(patients):
    sojourn.privacy(patients, epsilon=3, loss="max")


@example(Error, "Invalid metric share", "metric_share must be a number from 0 to", "got 2")
def _(patients):
    sojourn.privacy(patients, epsilon=3, metric_share=2)


@example(Error, "Invalid clip", "clip must be a number from", "got 0")
def _(patients):
    sojourn.privacy(patients, epsilon=3, clip=0)


@example(Error, "A run without a known batch size", "size is not known yet: give size= to privacy(...)")
def _(patients):
    run = sojourn.privacy(patients, epsilon=3, delta=1e-5, epochs=1)
    run.quote()


@example(Error, "A run without delta and budget", "give delta: there is no budget on 'patients' to take it from")
def _(patients):
    run = sojourn.privacy(patients, epsilon=3, epochs=1, size=16)
    run.quote()


@example(Error, "A run entered again", "already entered: a run is one `with` block", "create another")
def _(funded):
    run = sojourn.privacy(funded, epsilon=3, epochs=1, size=16)
    with run:
        pass
    with run:
        pass


@example(
    Error,
    "Batches of another part of the table",
    "declared for 96 rows of 'patients', but the batches are drawn from 48",
)
def _(funded):
    part, rest = funded.split(0.5)
    with sojourn.privacy(funded, epsilon=3):
        next(iter(part.batches(["age"], size=16)))


@example(Error, "Batches of another size", "declared with size=16, but the batches have size=8", "a separate run")
def _(funded):
    with sojourn.privacy(funded, epsilon=3, size=16, epochs=1):
        next(iter(funded.batches(["age"], size=8)))


@example(
    Error, "More epochs than the run's plan", "plan is epochs=1: 6 steps, of which 0 are taken", "12 more", "epochs=2"
)
def _(funded):
    with sojourn.privacy(funded, epsilon=3, size=16, epochs=1):
        next(iter(funded.batches(["age"], size=16, epochs=2)))


@example(Error, "A run on a described table", "table 'patients' is not at an owner")
def _():
    spec = sojourn.table_spec(96, {"age": torch.float32}, policy="private", bounds={"age": (0, 100)})

    def batches(patients):
        print(sojourn.privacy(patients, epsilon=3, size=16, epochs=1).quote())
        return patients.batches(["age"], size=16)

    with sojourn.offline():
        sojourn.compile(lambda x: x.sum(), tables={"patients": spec}, batches=batches)
