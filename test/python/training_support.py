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
# An element whose gradient stays below this part of the largest gradient has none but rounding: it
# drifts at random under Adam (a convolution's bias before BatchNorm, an attention's key bias), so
# of it only the gradient itself is compared.
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
    return rng.choice([1, odd(rng, most), rng.randint(1, most)])


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
        self.words, self.length = rng.randint(3, 12), draw(rng, 7)
        # A norm over two or three elements is nearly a sign: eager runs an ulp apart differ by 1e-8 in float64.
        heads, width = rng.choice([(1, 5), (1, 6), (2, 6), (3, 6), (5, 5), (3, 9), (2, 10)])
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


class Meter:
    """Runs steps at `counted`, or on the CPU if that is None, by the same script.

    At an owner each step is one round trip by both sides' count; `compiled` has the number of
    programs that each step compiled.
    """

    def __init__(self, counted=None):
        self.counted = counted
        self.device = counted.device if counted else torch.device("cpu")
        self.compiled = []

    def move(self, module, optimizer=None):
        """Moves a module; its upload belongs to no step."""
        sojourn.to_owner(module, self.counted and self.counted.owner, optimizer)
        sojourn.flush()
        return module

    def step(self, function):
        """`sojourn.step` that counts; tensors among the arguments are moved first."""
        function = sojourn.step(function)

        def run(*arguments):
            arguments = [x.to(self.device) if isinstance(x, torch.Tensor) else x for x in arguments]
            before = self._counts()
            result = function(*arguments)
            trips, requests, compiled = (b - a for a, b in zip(before, self._counts()))
            if self.counted:
                step = f"step {len(self.compiled)}"
                assert trips == 1, f"{step}: {trips} round trips by the client's count"
                assert requests == 1, f"{step}: {requests} requests by the owner's count"
                self.compiled.append(compiled)
            return result

        return run

    def assert_steady(self, start: int = 2, programs: int | None = None):
        """No step from `start` on compiled a program; those before it at most `programs` in all."""
        assert not any(self.compiled[start:]), f"programs compiled by each step: {self.compiled}"
        if programs is not None:
            assert sum(self.compiled) <= programs, f"programs compiled by each step: {self.compiled}"

    def _counts(self):
        if not self.counted:
            return 0, 0, 0
        counts = self.counted.owner.counters()
        return counts["round_trips"], self.counted.requests(), counts["programs_compiled"]


def train(case: Case, make_optimizer, counted=None, step=loss_and_gradients) -> dict:
    """Trains a copy of the case at `counted`, or on the CPU; every tensor of the run by name."""
    module = copy.deepcopy(case.module)
    optimizer = make_optimizer(list(module.parameters()))
    meter = Meter(counted)
    meter.move(module, optimizer)
    step = meter.step(step)
    values = [step(module, optimizer, *batch).value for batch in case.batches]
    if counted:
        meter.assert_steady(programs=2)
    run = {"loss": torch.stack([value["loss"] for value in values])}
    for name in values[0]["gradients"]:
        run[f"gradient {name}"] = torch.stack([value["gradients"][name] for value in values])
    return run | sojourn.publish(state_of(module, optimizer))


def assert_same_script(script, counted, seed: int, tolerance: float = TOLERANCE) -> Meter:
    """`script(meter)` returns a tree of tensors; at the owner they are those of the CPU. The owner's meter."""
    meters, results = [Meter(), Meter(counted)], []
    for meter in meters:
        torch.manual_seed(seed)
        results.append(sojourn.publish(script(meter)))
    leaves, specs = zip(*(torch.utils._pytree.tree_flatten(result) for result in results))
    assert specs[0] == specs[1]
    for index, (expected, found) in enumerate(zip(*leaves)):
        if isinstance(expected, torch.Tensor):
            allowed = tolerance * max(1.0, _largest(expected.detach()))
            assert difference(found.detach(), expected.detach()) <= allowed, f"leaf {index}: {found}, not {expected}"
        else:
            assert found == expected
    return meters[1]


def zero_gradients(double: dict, eager: dict) -> dict[str, torch.Tensor]:
    """Elements of each parameter whose gradient in a float64 run is zero but for rounding.

    `eager`: the run to compare with. Where that has exact zeros too, nothing drifts.
    """
    gradients = {name: x for name, x in double.items() if name.startswith("gradient ")}
    limit = ZERO_GRADIENT * max(_largest(x) for x in gradients.values())
    return {
        name.removeprefix("gradient "): (x.abs() <= limit).all(0) & (eager[name] != 0).any(0)
        for name, x in gradients.items()
    }


def compared(run: dict, case: Case, zero: dict[str, torch.Tensor]) -> dict:
    """What is compared: the tensors without the elements that drift."""
    kept = {}
    for name, value in run.items():
        kind, _, rest = name.partition(" ")
        drifting = zero.get(rest.split(" ")[0])
        if kind in ("parameter", "state") and value.shape == drifting.shape:
            value = value[~drifting]
        if not (kind == "buffer" and rest in case.drifting):
            kept[name] = value
    return kept


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
    zero = zero_gradients(eager, eager)
    run, eager = compared(run, case, zero), compared(eager, case, zero)
    for name, expected in eager.items():
        found, allowed = difference(run[name], expected), TOLERANCE * max(1.0, _largest(expected))
        assert found <= allowed, f"{name}: differs by {found:.3g}, allowed {allowed:.3g}"


def assert_within_band(run: dict, eager: dict, exact: dict, case: Case, perturbed, zero: dict[str, torch.Tensor]):
    """Every tensor of a float32 run is within 4 times the rounding error of eager runs.

    That error is the distance of the eager run from `exact`, its float64 run, and from `perturbed()`
    runs: Adam divides by the gradient's size, so rounding that no perturbation meets can count.
    One perturbed run may differ by nothing where a tensor has one element, or miss a maximum that
    changes hands; so the band is the largest of three, and of up to 24 where three do not suffice.
    """
    assert run.keys() == eager.keys() == exact.keys()
    run, eager, exact = (compared(each, case, zero) for each in (run, eager, exact))
    another = lambda: compared(perturbed(), case, zero)
    runs = [another() for _ in range(3)]
    largest_gradient = max(_largest(x) for name, x in eager.items() if name.startswith("gradient "))
    while True:
        outside = {}
        for name, expected in eager.items():
            # An element cannot be held to less than rounding: half an ulp of the largest, each way.
            scale = largest_gradient if name.startswith("gradient ") else _largest(expected)
            rounding = _largest(exact[name].double() - expected.double())
            band = max(scale * 2.0**-23, rounding, max(difference(other[name], expected) for other in runs))
            found = difference(run[name], expected)
            if found > 4 * band:
                outside[name] = f"differs by {found:.3g}, 4 times the band is {4 * band:.3g}"
        if not outside:
            return
        assert len(runs) < 24, outside
        runs += [another() for _ in range(7)]
