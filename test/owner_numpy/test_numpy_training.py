# SPDX-License-Identifier: Apache-2.0
"""Training written by hand in core ops: rows sampled at the owner, forward, backward and the update
in one program per step, against the same in torch on the same rows."""

import numpy as np
import torch
from numpy_builder import Client, ProgramBuilder, published, t

from sojourn_numpy import NumpyOwner, philox
from sojourn_numpy.types import F64, I64, TableType

ROWS, FEATURES, HIDDEN, CLASSES, BATCH = 50, 4, 8, 3, 16
COLUMNS = [f"x{k}" for k in range(FEATURES)]


def training_step() -> ProgramBuilder:
    """A two-layer network with cross entropy and SGD; slots: learning rate, epoch, start."""
    p = ProgramBuilder()
    w1, b1 = p.arg("state", t("f32", HIDDEN, FEATURES)), p.arg("state", t("f32", HIDDEN))
    w2, b2 = p.arg("state", t("f32", CLASSES, HIDDEN)), p.arg("state", t("f32", CLASSES))
    rate, epoch, start = p.arg("slot", t("f64")), p.arg("slot", t("i64")), p.arg("slot", t("i64"))
    seed = p.arg("seed", t("i64"))
    table = p.arg("table", TableType(-1, (*((name, F64) for name in COLUMNS), ("y", I64))))

    def f32(name, operands, *shape, **attrs):
        return p.op(name, operands, t("f32", *shape), **attrs)

    def dot(a, b, lhs, rhs, *shape):
        return f32("dot", [a, b], *shape, lhs_batch=(), rhs_batch=(), lhs_contract=(lhs,), rhs_contract=(rhs,))

    def spread(x, dim, *shape):
        return f32("broadcast", [x], *shape, dims=(dim,))

    zero = f32("constant", [], value=0.0)
    positions = p.op("add", [p.op("iota", [], t("i64", BATCH), dim=0), start], t("i64", BATCH))
    whole = {"fractions": (), "sides": (), "split": False}
    rows = p.op("sample_rows", [positions, seed, epoch, table], t("i64", BATCH), **whole)
    x = f32("read_rows", [table, rows], BATCH, FEATURES, columns=COLUMNS)
    y = p.op("read_rows", [table, rows], t("i64", BATCH), columns=["y"])
    h = f32("add", [dot(x, w1, 1, 1, BATCH, HIDDEN), spread(b1, 1, BATCH, HIDDEN)], BATCH, HIDDEN)
    a = f32("max", [h, zero], BATCH, HIDDEN)
    z = f32("add", [dot(a, w2, 1, 1, BATCH, CLASSES), spread(b2, 1, BATCH, CLASSES)], BATCH, CLASSES)
    top = spread(f32("reduce_max", [z], BATCH, dims=(1,)), 0, BATCH, CLASSES)
    shifted = f32("sub", [z, top], BATCH, CLASSES)
    exp = f32("exp", [shifted], BATCH, CLASSES)
    total = f32("reduce_sum", [exp], BATCH, dims=(1,))
    log_p = f32("sub", [shifted, spread(f32("log", [total], BATCH), 0, BATCH, CLASSES)], BATCH, CLASSES)
    column = p.op("iota", [], t("i64", BATCH, CLASSES), dim=1)
    label = p.op("broadcast", [y], t("i64", BATCH, CLASSES), dims=(0,))
    hot = p.op("compare", [column, label], t("i1", BATCH, CLASSES), predicate="eq")
    picked = f32("select", [hot, log_p, zero], BATCH, CLASSES)
    scale = f32("constant", [], value=1.0 / BATCH)
    loss = f32("neg", [f32("mul", [f32("reduce_sum", [picked], dims=(0, 1)), scale])])
    one_hot = p.op("convert", [hot], t("f32", BATCH, CLASSES))
    dz = f32("sub", [f32("exp", [log_p], BATCH, CLASSES), one_hot], BATCH, CLASSES)
    dz = f32("mul", [dz, scale], BATCH, CLASSES)
    active = p.op("compare", [h, zero], t("i1", BATCH, HIDDEN), predicate="gt")
    dh = f32("select", [active, dot(dz, w2, 1, 0, BATCH, HIDDEN), zero], BATCH, HIDDEN)
    gradients = (
        (w1, dot(dh, x, 0, 0, HIDDEN, FEATURES), (HIDDEN, FEATURES)),
        (b1, f32("reduce_sum", [dh], HIDDEN, dims=(0,)), (HIDDEN,)),
        (w2, dot(dz, a, 0, 0, CLASSES, HIDDEN), (CLASSES, HIDDEN)),
        (b2, f32("reduce_sum", [dz], CLASSES, dims=(0,)), (CLASSES,)),
    )
    lr = p.op("convert", [rate], t("f32"))
    for weight, gradient, shape in gradients:
        p.result("commit", f32("sub", [weight, f32("mul", [gradient, lr], *shape)], *shape), weight)
    p.result("publish", loss)
    return p


def upload_and_keep(shapes) -> bytes:
    p = ProgramBuilder()
    for value in [p.arg("upload", t("f32", *shape)) for shape in shapes]:
        p.result("keep", value)
    return p.encode()


def read_back(shapes) -> bytes:
    p = ProgramBuilder()
    for value in [p.arg("state", t("f32", *shape)) for shape in shapes]:
        p.result("publish", value)
    return p.encode()


def test_training_matches_torch(rng):
    features, labels = rng.normal(size=(ROWS, FEATURES)), rng.integers(0, CLASSES, ROWS)
    client = Client(NumpyOwner())
    client.owner.register("d", {**dict(zip(COLUMNS, features.T)), "y": labels})
    shapes = [(HIDDEN, FEATURES), (HIDDEN,), (CLASSES, HIDDEN), (CLASSES,)]
    weights = [(rng.normal(size=shape) * 0.5).astype(np.float32) for shape in shapes]
    client.step(upload_and_keep(shapes), uploads=weights, results=[1, 2, 3, 4])
    parameters = [torch.from_numpy(w.copy()).requires_grad_() for w in weights]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    (dataset,) = client.send("ListDatasets").datasets
    table = ("d", dataset.version)
    program, seed, steps = training_step().encode(), int(rng.integers(1 << 62)), ROWS // BATCH
    for step in range(20):
        epoch, start = step // steps, step % steps * BATCH
        slots = [int(np.float64(0.1).view(np.uint64)), epoch, start]
        before = client.owner.requests
        reply = client.step(program, step == 0, states=[1, 2, 3, 4], slots=slots, seeds=[seed], tables=[table])
        assert client.owner.requests == before + 1
        rows = philox.epoch_rows(np.arange(start, start + BATCH), seed, epoch, ROWS)
        w1, b1, w2, b2 = parameters
        z = torch.relu(torch.from_numpy(features[rows].astype(np.float32)) @ w1.T + b1) @ w2.T + b2
        loss = torch.nn.functional.cross_entropy(z, torch.from_numpy(labels[rows]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        np.testing.assert_allclose(published(reply)[0], loss.item(), rtol=2e-5)
    for mine, theirs in zip(published(client.step(read_back(shapes), states=[1, 2, 3, 4])), parameters):
        np.testing.assert_allclose(mine, theirs.detach().numpy(), atol=2e-5)
