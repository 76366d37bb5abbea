# SPDX-License-Identifier: Apache-2.0
"""Layers, losses, metrics, optimizers and tools that scripts use in a plain loop."""

import io
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from library_support import Run, batches, case, fit, perceptron
from torch import nn

rows = lambda *shape: lambda: torch.randn(*shape)
exact = lambda *shape: lambda: torch.randn(*shape, dtype=torch.float64)
labels = lambda count, *shape: lambda: torch.randint(count, shape)
classify = lambda net, x, y: F.cross_entropy(net(x), y)


@case("vector-quantize-pytorch", "an autoencoder with a quantizer by moving averages, and one with finite scalars")
def vector_quantize(at):
    from vector_quantize_pytorch import FSQ, VectorQuantize

    class Coder(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.out = nn.Linear(6, 8), nn.Linear(8, 6)
            self.quantizer = VectorQuantize(dim=8, codebook_size=16, decay=0.8, commitment_weight=0.5)
            self.scalars = FSQ(levels=[8, 5, 5], dim=8)

        def forward(self, x):
            found, _, commitment = self.quantizer(self.into(x))
            scalars, _ = self.scalars(self.into(x))
            return self.out(found) + self.out(scalars), commitment

    def loss_of(net, x):
        found, commitment = net(x)
        return F.mse_loss(found, x) + commitment.sum()

    # In float64, as the last bit of a distance decides between two codes.
    model = Coder().double()
    return Run(fit(at, model, batches(exact(4, 10, 6)), loss_of, lr=0.1), model)


@case("torchmetrics", "accuracy, AUROC, F1, confusion and calibration, updated in the loop of training")
def torchmetrics(at):
    import torchmetrics

    # In float64, as the last bit of a score decides its class and its bin.
    model = perceptron().double()
    kinds = {
        "accuracy": torchmetrics.Accuracy(task="multiclass", num_classes=3),
        "auroc": torchmetrics.AUROC(task="multiclass", num_classes=3, thresholds=20),
        "f1": torchmetrics.F1Score(task="multiclass", num_classes=3, average="macro"),
        "matrix": torchmetrics.ConfusionMatrix(task="multiclass", num_classes=3),
        "calibration": torchmetrics.CalibrationError(task="multiclass", num_classes=3),
    }
    metrics = torchmetrics.MetricCollection(kinds).to(at.device)
    mean = torchmetrics.MeanMetric().to(at.device).set_dtype(torch.float64)
    error = torchmetrics.regression.R2Score().to(at.device).set_dtype(torch.float64)

    def loss_of(net, x, y):
        scores = net(x)
        metrics.update(scores.detach().softmax(-1), y)
        error.update(scores[:, 0].detach(), y.double())
        loss = F.cross_entropy(scores, y)
        mean.update(loss.detach())
        return loss

    losses = fit(at, model, batches(exact(16, 4), labels(3, 16)), loss_of, lr=0.2)
    return Run(losses, model, {**metrics.compute(), "mean": mean.compute(), "r2": error.compute()})


@case("pytorch-metric-learning", "ArcFace, NT-Xent, contrastive loss, and triplets from a miner")
def metric_learning(at):
    from pytorch_metric_learning import losses, miners

    model = perceptron(4, 8)
    arc = losses.ArcFaceLoss(3, 8).to(at.device)
    others = [losses.NTXentLoss(), losses.TripletMarginLoss(margin=0.2), losses.ContrastiveLoss()]
    miner = miners.MultiSimilarityMiner()
    whole = nn.ModuleList([model, arc])

    def loss_of(net, x, y):
        found = net[0](x)
        return net[1](found, y) + others[0](found, y) + others[1](found, y, miner(found, y)) + others[2](found, y)

    data = batches(rows(12, 4), lambda: torch.arange(12) % 3)
    return Run(fit(at, whole, data, loss_of, lr=0.01), whole)


@case("schedulefree", "`AdamWScheduleFree`, with its train and eval modes")
def schedulefree(at):
    import schedulefree

    model, losses = perceptron().to(at.device), []
    optimizer = schedulefree.AdamWScheduleFree(model.parameters(), lr=0.05, warmup_steps=2, weight_decay=0.01)
    optimizer.train()
    for x, y in batches(rows(16, 4), labels(3, 16), steps=6):
        optimizer.zero_grad()
        loss = classify(model, x.to(at.device), y.to(at.device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    optimizer.eval()
    return Run(losses, model)


@case("pytorch-optimizer", "Lion, LAMB, AdaBelief, SAM and Lookahead over one network each")
def optimizers(at):
    from pytorch_optimizer import SAM, Lamb, Lion, Lookahead, load_optimizer

    nets = nn.ModuleList([perceptron() for _ in range(4)]).to(at.device)
    used = [
        Lion(nets[0].parameters(), lr=0.01),
        Lamb(nets[1].parameters(), lr=0.02),
        load_optimizer("adabelief")(nets[2].parameters(), lr=0.02),
        Lookahead(torch.optim.SGD(nets[3].parameters(), lr=0.1), k=2),
    ]
    sharp = perceptron().to(at.device)
    flat = SAM(sharp.parameters(), torch.optim.SGD, lr=0.1, rho=0.05)
    losses = []
    for x, y in batches(rows(16, 4), labels(3, 16)):
        x, y = x.to(at.device), y.to(at.device)
        for net, optimizer in zip(nets, used):
            optimizer.zero_grad()
            loss = classify(net, x, y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        classify(sharp, x, y).backward()
        flat.first_step(zero_grad=True)
        classify(sharp, x, y).backward()
        flat.second_step(zero_grad=True)
    return Run(losses, nn.ModuleList([nets, sharp]))


@case("safetensors", "weights saved during training, loaded on the device and on the CPU, training goes on")
def safetensors(at):
    from safetensors.torch import load_file, load_model, save_file, save_model

    data = batches(rows(16, 4), labels(3, 16))
    model = perceptron()
    losses = fit(at, model, data[:2], classify, lr=0.2)
    save_model(model, "model.safetensors")
    save_file({"first": model[0].weight}, "one.safetensors", metadata={"step": "2"})
    again = perceptron().to(at.device)
    load_model(again, "model.safetensors", device=str(at.device))
    losses += fit(at, again, data[2:], classify, lr=0.2)
    there = load_file("model.safetensors", device=str(at.device))
    assert all(tensor.device == at.device for tensor in there.values())
    return Run(
        losses, again, {"file": load_file("model.safetensors"), "one": load_file("one.safetensors"), "there": there}
    )


@case("captum", "integrated gradients, DeepLift, occlusion and layer attributions of a trained network")
def captum(at):
    from captum.attr import DeepLift, FeatureAblation, IntegratedGradients, LayerConductance, Occlusion, Saliency

    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    data = batches(rows(8, 4), labels(3, 8))
    losses = fit(at, model, data, classify, lr=0.2)
    x, y = (tensor.to(at.device) for tensor in data[0])
    model.eval()
    found = {
        "integrated": IntegratedGradients(model).attribute(x, target=y, n_steps=8),
        "lift": DeepLift(model).attribute(x, target=y),
        "saliency": Saliency(model).attribute(x.clone(), target=y),
        "ablation": FeatureAblation(model).attribute(x, target=y),
        "occlusion": Occlusion(model).attribute(x, target=y, sliding_window_shapes=(2,)),
        "conductance": LayerConductance(model, model[0]).attribute(x, target=y, n_steps=8),
    }
    return Run(losses, model, found)


@case("einops", "`reduce`, `repeat`, `einsum` and the layers `Rearrange`, `Reduce` and `EinMix` in a patch mixer")
def einops(at):
    import einops
    from einops.layers.torch import EinMix, Rearrange, Reduce

    class Mixer(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = Rearrange("b c (h p) (w q) -> b (h w) (c p q)", p=4, q=4)
            self.mix = EinMix("b t c -> b t d", weight_shape="c d", bias_shape="d", c=48, d=16)
            self.mean = Reduce("b t d -> b d", "mean")
            self.last = nn.Linear(16, 3)

        def forward(self, x):
            x = self.mix(self.patches(x))
            scores = einops.einsum(x, x, "b i d, b j d -> b i j").softmax(-1)
            x = einops.einsum(scores, x, "b i j, b j d -> b i d") + einops.repeat(self.mean(x), "b d -> b t d", t=4)
            return self.last(einops.reduce(x, "b t d -> b d", "max"))

    model = Mixer()
    data = batches(lambda: torch.rand(4, 3, 8, 8), labels(3, 4))
    return Run(fit(at, model, data, classify, lr=0.1), model)


# Its convolution has a bias before a batch norm, which takes it away.
@case("torchinfo", "the summary of a network on its device, before and after training", still=("0.bias",))
def torchinfo(at):
    import torchinfo

    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)).to(
        at.device
    )
    shown = [str(torchinfo.summary(model, input_size=(2, 1, 8, 8), device=at.device, verbose=0))]
    data = batches(rows(2, 1, 8, 8), labels(3, 2))
    losses = fit(at, model, data, classify, lr=0.1)
    shown.append(str(torchinfo.summary(model, input_data=data[0][0].to(at.device), verbose=0)))
    return Run(losses, model, {"shown": shown})


@case("tensorboard", "scalars, histograms, images, embeddings and the graph of a network, written while it trains")
def tensorboard(at):
    import PIL.Image
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    model = perceptron().double().to(at.device)  # in float64, as the last bit of a value decides the byte of a pixel
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    losses = []
    with SummaryWriter("log") as writer:
        for step, (x, y) in enumerate(batches(exact(8, 4), labels(3, 8))):
            x, y = x.to(at.device), y.to(at.device)
            optimizer.zero_grad()
            loss = classify(model, x, y)
            loss.backward()
            optimizer.step()
            writer.add_scalar("loss", loss, step)
            writer.add_scalars("both", {"loss": loss, "first": model[0].bias[0]}, step)
            writer.add_histogram("weights", model[0].weight, step)
            losses.append(loss.item())
        writer.add_image("picture", model[0].weight.detach()[None].sigmoid(), 0)
        writer.add_embedding(x, metadata=y.tolist())
        writer.add_graph(model, x)
    events, both, first = (EventAccumulator(f"log{name}").Reload() for name in ("", "/both_loss", "/both_first"))
    (picture,) = events.Images("picture")
    nodes = {node.name: node.op for node in events.Graph().node}
    assert sorted(op for op in nodes.values() if op.startswith("aten::")) == ["aten::linear"] * 2 + ["aten::tanh"]
    (embedding,) = pathlib.Path("log").rglob("tensors.tsv")
    values = {
        "logged": [event.value for event in events.Scalars("loss")],
        "both": [event.value for event in both.Scalars("both")],
        "first": [event.value for event in first.Scalars("both")],
        "sums": [event.histogram_value.sum for event in events.Histograms("weights")],
        "bins": [list(event.histogram_value.bucket) for event in events.Histograms("weights")],
        "picture": np.array(PIL.Image.open(io.BytesIO(picture.encoded_image_string))),
        "embedding": np.loadtxt(embedding),
        "metadata": (embedding.parent / "metadata.tsv").read_text(),
        "nodes": nodes,
    }
    for written in (values["logged"], values["both"]):
        np.testing.assert_allclose(written, losses, rtol=1e-6)  # scalars are float32 there
    np.testing.assert_allclose(values["embedding"], x.cpu(), rtol=1e-6)
    return Run(losses, model, values)


@case("ema-pytorch", "a moving average of weights beside training, with its warm-up")
def ema(at):
    from ema_pytorch import EMA

    model = perceptron().to(at.device)
    average = EMA(model, beta=0.8, update_after_step=1, update_every=1)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.2), []
    for x, y in batches(rows(8, 4), labels(3, 8), steps=6):
        optimizer.zero_grad()
        loss = classify(model, x.to(at.device), y.to(at.device))
        loss.backward()
        optimizer.step()
        average.update()
        losses.append(loss.item())
    return Run(losses, model, {"average": average.ema_model.state_dict()})


@case("entmax", "entmax and sparsemax of scores, and the loss of entmax")
def entmax(at):
    import entmax

    model = perceptron(4, 5)

    def loss_of(net, x, y):
        scores = net(x)
        sparse = entmax.entmax15(scores, dim=-1) + entmax.sparsemax(scores, dim=-1)
        return entmax.entmax15_loss(scores, y).mean() + sparse.square().sum(-1).mean()

    return Run(fit(at, model, batches(rows(8, 4), labels(5, 8)), loss_of, lr=0.1), model)
