# SPDX-License-Identifier: Apache-2.0
"""Models, a training loop that runs anywhere, and the comparison of two runs, for test_training*.py."""

import copy
import dataclasses
import random

import torch
import torch.nn.functional as F
from torch import nn

import sojourn

# float64: the largest difference, relative to the largest element of a tensor over all steps (with
# a floor of 1: Adam divides by the root of tiny second moments).
TOLERANCE = 1e-9
# A gradient below this part of the largest gradient is zero but for rounding: its parameter drifts
# at random under Adam, so only the gradient itself is compared.
ZERO_GRADIENT = 1e-10


@dataclasses.dataclass
class Case:
    """A module and its batches in float64; `drifting` buffers follow a parameter of zero gradient."""

    module: nn.Module
    batches: list
    drifting: tuple = ()

    def to(self, dtype: torch.dtype) -> "Case":
        convert = lambda x: x.to(dtype) if x.is_floating_point() else x.clone()
        batches = [tuple(convert(x) for x in batch) for batch in self.batches]
        return Case(copy.deepcopy(self.module).to(dtype), batches, self.drifting)

    def perturbed(self, generator: torch.Generator) -> "Case":
        """The same, every floating input and parameter moved by at most one unit in its last place."""

        def move(x):
            if not x.is_floating_point():
                return x
            direction = torch.randint(-1, 2, x.shape, generator=generator)
            return torch.where(direction == 0, x, x.nextafter(direction * torch.full_like(x, torch.inf)).nan_to_num(0))

        case = Case(
            copy.deepcopy(self.module), [tuple(move(x) for x in batch) for batch in self.batches], self.drifting
        )
        with torch.no_grad():
            for parameter in case.module.parameters():
                parameter.copy_(move(parameter))
        return case


def odd(rng: random.Random, most: int) -> int:
    return rng.randrange(1, most + 1, 2)


def draw(rng: random.Random, most: int) -> int:
    """A size: 1, an odd number, or any number up to `most`."""
    return rng.choice([1, odd(rng, most), rng.randint(2, most)])


class Convolutional(nn.Module):
    def __init__(self, rng, activation):
        super().__init__()
        channels, width = draw(rng, 3), odd(rng, 5)
        self.first = nn.Conv2d(channels, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width, momentum=rng.choice([0.1, 0.3]))
        self.pool = rng.choice([nn.MaxPool2d(2), nn.MaxPool2d(3, stride=2, padding=1), nn.AvgPool2d(2)])
        self.second = nn.Conv2d(width, 4, 2, stride=rng.choice([1, 2]))
        self.head = nn.Linear(4, 3)
        self.activation = activation
        self.channels = channels

    def forward(self, x):
        x = self.pool(self.activation(self.norm(self.first(x))))
        x = self.activation(self.second(x))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Recurrent(nn.Module):
    def __init__(self, rng, dropout=0.0):
        super().__init__()
        self.features = draw(rng, 6)
        self.lstm = nn.LSTM(self.features, draw(rng, 7), num_layers=2, batch_first=rng.random() < 0.5, dropout=dropout)
        self.head = nn.Linear(self.lstm.hidden_size, 3)

    def forward(self, x):
        y, _ = self.lstm(x)
        return self.head(y[:, -1] if self.lstm.batch_first else y[-1])


class Transformer(nn.Module):
    def __init__(self, rng, activation, dropout=0.0, layers=1):
        super().__init__()
        self.words, heads = rng.randint(3, 12), rng.choice([1, 2, 3])
        width, self.length = heads * rng.choice([2, 3, 4]), draw(rng, 7)
        self.embedding = nn.Embedding(self.words, width)
        self.position = nn.Parameter(torch.randn(self.length, width) * 0.1)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, odd(rng, 17), dropout, activation, batch_first=True, norm_first=rng.random() < 0.5
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        x = self.embedding(x) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


def _labels(size):
    return torch.randint(0, 3, (size,))


def mlp(rng, steps, smooth, dropout=0.0):
    sizes = [draw(rng, 9), odd(rng, 11), draw(rng, 8)][: rng.choice([2, 3])]
    layers = []
    for before, after in zip(sizes, sizes[1:]):
        layers += [nn.Linear(before, after), nn.Tanh() if smooth else nn.ReLU()]
        layers += [nn.Dropout(dropout)] if dropout else []
    module = nn.Sequential(*layers, nn.Linear(sizes[-1], 3)).double()
    size = draw(rng, 33)
    return Case(module, [(torch.randn(size, sizes[0]).double(), _labels(size)) for _ in range(steps)])


def cnn(rng, steps, smooth):
    module = Convolutional(rng, torch.tanh if smooth else F.relu).double()
    size, height, width = draw(rng, 6), rng.randint(5, 9), odd(rng, 5) + 4
    batches = [(torch.randn(size, module.channels, height, width).double(), _labels(size)) for _ in range(steps)]
    return Case(module, batches, drifting=("norm.running_mean",))


def lstm(rng, steps, smooth, dropout=0.0):
    module = Recurrent(rng, dropout).double()
    size, length = draw(rng, 9), draw(rng, 6)
    shape = (size, length) if module.lstm.batch_first else (length, size)
    return Case(module, [(torch.randn(*shape, module.features).double(), _labels(size)) for _ in range(steps)])


def transformer(rng, steps, smooth, dropout=0.0):
    module = Transformer(rng, "gelu" if smooth or rng.random() < 0.5 else "relu", dropout).double()
    size = draw(rng, 9)
    return Case(module, [(torch.randint(module.words, (size, module.length)), _labels(size)) for _ in range(steps)])


MODELS = {"mlp": mlp, "cnn": cnn, "lstm": lstm, "transformer": transformer}

OPTIMIZERS = {
    "sgd": lambda parameters, foreach: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, foreach=foreach),
    "adam": lambda parameters, foreach: torch.optim.Adam(parameters, lr=0.01, foreach=foreach),
    "adamw": lambda parameters, foreach: torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1, foreach=foreach),
}


def loss_and_gradients(module, optimizer, x, y):
    """One ordinary training step; publishes its loss and gradients in its own reply."""
    optimizer.zero_grad()
    loss = F.cross_entropy(module(x), y)
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in module.named_parameters()}
    optimizer.step()
    return sojourn.publish({"loss": loss, "gradients": gradients})


def state_of(module, optimizer) -> dict:
    """Parameters, buffers and optimizer state, as names to tensors."""
    tensors = {f"parameter {name}": value for name, value in module.named_parameters()}
    tensors |= {f"buffer {name}": value for name, value in module.named_buffers()}
    for name, parameter in module.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, torch.Tensor):
                tensors[f"state {name} {key}"] = value
    return {name: value.detach() for name, value in tensors.items()}


def train(case: Case, make_optimizer, counted=None, step=loss_and_gradients) -> dict:
    """Trains a copy of the case at `counted`, or on the CPU; every tensor of the run by name.

    At an owner: each step is one round trip by both sides' count, no program is compiled after the
    second step, and no shape comes from Python.
    """
    module = copy.deepcopy(case.module)
    optimizer = make_optimizer(list(module.parameters()))
    device = torch.device("cpu")
    if counted:
        sojourn.to_owner(module, counted.owner, optimizer)
        device = counted.device
        sojourn.flush()  # the module's upload is no step
    step = sojourn.step(step)
    sources = sojourn.counters()["shape_sources"]
    losses, gradients = [], []
    for index, batch in enumerate(case.batches):
        batch = [x.to(device) for x in batch]
        trips, requests, compiled = _counts(counted)
        published = step(module, optimizer, *batch)
        if counted:
            after = _counts(counted)
            assert after[0] - trips == 1, f"step {index}: {after[0] - trips} round trips by the client's count"
            assert after[1] - requests == 1, f"step {index}: {after[1] - requests} requests by the owner's count"
            assert index < 2 or after[2] == compiled, f"step {index} was compiled anew"
        value = published.value
        losses.append(value["loss"])
        gradients.append(value["gradients"])
    if counted:
        assert sojourn.counters()["shape_sources"]["python"] == 0
        assert sojourn.counters()["shape_sources"]["rules"] > sources["rules"]
    run = {"loss": torch.stack(losses)}
    for name in gradients[0]:
        run[f"gradient {name}"] = torch.stack([found[name] for found in gradients])
    return run | sojourn.publish(state_of(module, optimizer))


def _counts(counted):
    if counted is None:
        return 0, 0, 0
    counts = counted.owner.counters()
    return counts["round_trips"], counted.requests(), counts["programs_compiled"]


def zero_gradients(run: dict) -> set[str]:
    """Parameters whose gradient in a float64 run is zero but for rounding."""
    sizes = {name.removeprefix("gradient "): _largest(x) for name, x in run.items() if name.startswith("gradient ")}
    return {name for name, size in sizes.items() if size <= ZERO_GRADIENT * max(sizes.values())}


def compared(run: dict, case: Case, zero: set[str]):
    """Names of the tensors that are compared."""
    for name in run:
        kind, _, rest = name.partition(" ")
        owner = rest.split(" ")[0]
        if (kind in ("parameter", "state") and owner in zero) or (kind == "buffer" and owner in case.drifting):
            continue
        yield name


def _largest(x: torch.Tensor) -> float:
    return float(x.abs().max()) if x.numel() else 0.0


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    assert a.shape == b.shape and a.dtype == b.dtype, f"{a.dtype} {a.shape} against {b.dtype} {b.shape}"
    found = _largest(a.double() - b.double())
    return found if found == found else float("inf")


def assert_same_float64(run: dict, eager: dict, case: Case):
    """Every tensor of two float64 runs agrees to TOLERANCE."""
    assert run.keys() == eager.keys()
    assert all(x.isfinite().all() for x in eager.values()), "the eager run diverged"
    for name in compared(run, case, zero_gradients(eager)):
        found, allowed = difference(run[name], eager[name]), TOLERANCE * max(1.0, _largest(eager[name]))
        assert found <= allowed, f"{name}: differs by {found:.3g}, allowed {allowed:.3g}"


def assert_within_band(run: dict, eager: dict, case: Case, perturbed, zero: set[str]):
    """Every tensor of a float32 run is within 4 times what `perturbed()` eager runs differ by.

    One run may differ by nothing where a tensor has one element, or miss a maximum that changes
    hands; so the band is the largest of three runs, and of up to 24 where three do not suffice.
    """
    assert run.keys() == eager.keys()
    runs = [perturbed() for _ in range(3)]
    largest_gradient = max(_largest(x) for name, x in eager.items() if name.startswith("gradient "))
    names = list(compared(run, case, zero))
    while True:
        outside = {}
        for name in names:
            # An element cannot be held to less than rounding: half an ulp of the largest, each way.
            scale = largest_gradient if name.startswith("gradient ") else _largest(eager[name])
            band = max(scale * 2.0**-23, max(difference(other[name], eager[name]) for other in runs))
            found = difference(run[name], eager[name])
            if found > 4 * band:
                outside[name] = f"differs by {found:.3g}, 4 times the band is {4 * band:.3g}"
        if not outside:
            return
        assert len(runs) < 24, outside
        runs += [perturbed() for _ in range(7)]
