# SPDX-License-Identifier: Apache-2.0
"""Frameworks that look for a device and move models: `torch.accelerator`, Lightning, accelerate, transformers.

Lightning, accelerate and transformers need not be installed; their tests are skipped then.
"""

import copy
import os
import subprocess
import sys
import sysconfig
import warnings

import pytest
import torch
from private_support import numpy_rng, own_owner  # noqa: F401
from torch import nn

import sojourn
from sojourn import frameworks


def test_torch_accelerator_knows_owners(owner):
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator(check_available=True) == torch.device("owner")
    assert torch.accelerator.device_count() == torch.owner.device_count() >= 1
    before = torch.accelerator.current_device_index()
    with sojourn.local() as other:
        index = other.device.index
        torch.accelerator.set_device_index(index)
        try:
            assert torch.accelerator.current_device_index() == index
            assert torch.ones(2, device="owner").device == other.device
            with torch.accelerator.device_index(owner.device.index):
                assert torch.ones(2, device="owner").device == owner.device
        finally:
            torch.accelerator.set_device_index(before)
    torch.accelerator.synchronize()
    torch.accelerator.synchronize(owner.device)


def test_memory_of_torch_accelerator_is_none_here(owner):
    """No byte of a remote tensor lies in this process."""
    kept = torch.ones(1000, device=owner.device)
    memory = torch.accelerator.memory
    memory.empty_cache()
    memory.reset_accumulated_memory_stats()
    memory.reset_peak_memory_stats()
    assert memory.memory_allocated() == memory.max_memory_allocated() == 0
    assert memory.memory_reserved(owner.device) == memory.max_memory_reserved() == 0
    assert set(memory.memory_stats().values()) == {0}
    assert memory.get_memory_info() == (0, 0)
    assert kept.sum().item() == 1000
    with pytest.raises(sojourn.Unsupported, match="a storage without a tensor cannot be made"):
        torch.UntypedStorage(8, device=owner.device)


def library(source: str, name: str):
    """A function of an installed framework `name`."""
    found: dict = {}
    exec(compile(source, f"{sysconfig.get_path('purelib')}/{name}/trainer.py", "exec"), found)
    return found["run"]


@pytest.mark.parametrize("source", ["model.cpu()", "model.to('cpu')", "model.to(torch.zeros(1))"])
def test_a_library_that_moves_a_model_to_the_cpu_is_told_once(owner, source, monkeypatch):
    monkeypatch.setattr(frameworks, "_told", set())
    run = library(f"import torch\ndef run(model):\n    {source}\n", "some_framework")
    model = nn.Linear(2, 2)
    expected = copy.deepcopy(model.state_dict())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            run(model.to(owner.device))
    (told,) = [each for each in caught if "moves a model" in str(each.message)]
    assert "some_framework" in str(told.message) and "owner.device" in str(told.message)
    assert told.filename == __file__
    torch.testing.assert_close(dict(model.state_dict()), dict(expected), rtol=0, atol=0)


def test_moves_that_a_script_makes_get_no_warning(owner, monkeypatch):
    monkeypatch.setattr(frameworks, "_told", set())
    run = library("def run(model, device):\n    model.to(device)\n", "some_framework")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = nn.Linear(2, 2).to(owner.device)
        model.cpu()
        run(model, "cpu")  # it is there already
        run(model, owner.device)
        model.to("cpu")


# Each framework runs in a process of its own: they keep their device for the whole process.
SETUP = """
import numpy as np, torch, sojourn, warnings
from torch import nn
import torch.nn.functional as F
torch.manual_seed({seed})
rng = np.random.default_rng({seed})
owner = sojourn.local()
x = torch.tensor(rng.uniform(-1, 1, (64, 2)), dtype=torch.float32)
y = torch.tensor(rng.integers(0, 2, 64))
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))

def by_hand(model, epochs=3):
    "What eager PyTorch makes of it on the CPU."
    import copy
    model = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        for k in range(0, 64, 16):
            optimizer.zero_grad()
            F.cross_entropy(model(x[k:k + 16]), y[k:k + 16]).backward()
            optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]

expected = by_hand(model)
data = torch.utils.data.TensorDataset(x, y)
loader = torch.utils.data.DataLoader(data, batch_size=16)

def check(model):
    for found, right in zip(model.parameters(), expected):
        torch.testing.assert_close(found.detach().cpu(), right, rtol=1e-4, atol=1e-5)
    steps = owner.counters()["steps"]
    assert steps >= 12, steps  # it was trained there
"""


def run_script(script: str, seed: int, tmp_path, **environment):
    source = SETUP.format(seed=seed) + script
    ended = subprocess.run(
        [sys.executable, "-W", "error:.*moves a model", "-c", source],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **environment},
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    return ended.stdout + ended.stderr


def test_pinning_is_told_to_a_script_that_asks_for_it(seed, tmp_path):
    """Frameworks pin by default (transformers); the script could change nothing."""
    script = """
import sysconfig
found = {}
exec(compile("def run(loader): return list(loader)", f"{sysconfig.get_path('purelib')}/some_framework/a.py", "exec"), found)
pinned = torch.utils.data.DataLoader(data, batch_size=16, pin_memory=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for (a, b), (c, d) in zip(found["run"](pinned), loader):
        assert torch.equal(a, c) and torch.equal(b, d)
    assert not caught, [str(each.message) for each in caught]
    for _ in range(2):
        list(pinned)
(told,) = caught
assert told.filename == "<string>" and "pin_memory does nothing" in str(told.message), told
"""
    run_script(script, seed, tmp_path)


def test_accelerate_takes_the_owner(seed, tmp_path):
    pytest.importorskip("accelerate", reason="tools/setup --libraries installs it")
    script = """
from sojourn.integrations import accelerate as at
assert at.use(owner) == owner.device
import accelerate
accelerator = accelerate.Accelerator()
assert accelerator.device == owner.device
model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)
for _ in range(3):
    for a, b in loader:
        assert a.device == owner.device
        optimizer.zero_grad()
        accelerator.backward(F.cross_entropy(model(a), b))
        optimizer.step()
check(model)
with sojourn.local() as other:
    try:
        at.use(other)
    except sojourn.Error as error:
        assert "has already chosen device" in str(error), error
    else:
        raise AssertionError
"""
    run_script(script, seed, tmp_path)


def test_accelerate_takes_the_owner_from_its_variable(seed, tmp_path):
    pytest.importorskip("accelerate", reason="tools/setup --libraries installs it")
    script = "import accelerate\nassert accelerate.Accelerator().device == owner.device\n"
    run_script(script, seed, tmp_path, ACCELERATE_TORCH_DEVICE="owner:0")


def test_accelerate_without_a_word_warns(seed, tmp_path):
    pytest.importorskip("accelerate", reason="tools/setup --libraries installs it")
    script = """
import accelerate
model.to(owner.device)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    accelerate.Accelerator().prepare(model)
texts = [str(each.message) for each in caught]
assert any("accelerate moves a model" in text and "accelerate.use(owner)" in text for text in texts), texts
"""
    run_script(script, seed, tmp_path)


def test_transformers_trainer_takes_the_owner(seed, tmp_path):
    pytest.importorskip("transformers", reason="tools/setup --libraries installs it")
    pytest.importorskip("accelerate", reason="tools/setup --libraries installs it")
    script = """
import sojourn.integrations.accelerate as at
at.use(owner)
import transformers

class Wrapped(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x, labels):
        return {"loss": F.cross_entropy(self.inner(x), labels)}

class Sequential(transformers.Trainer):
    def _get_train_sampler(self, *args, **kwargs):
        return torch.utils.data.SequentialSampler(self.train_dataset)

rows = [{"x": a, "labels": b} for a, b in zip(x, y)]
arguments = transformers.TrainingArguments(
    output_dir="out", per_device_train_batch_size=16, num_train_epochs=3, learning_rate=0.1, optim="sgd",
    lr_scheduler_type="constant", max_grad_norm=0.0, report_to=[], save_strategy="no", disable_tqdm=True,
)
assert arguments.device == owner.device, arguments.device
Sequential(model=Wrapped(model), args=arguments, train_dataset=rows).train()
assert next(model.parameters()).device == owner.device
check(model)
"""
    run_script(script, seed, tmp_path)


LIGHTNING = """
import lightning
from sojourn.integrations.lightning import OwnerAccelerator

class Classifier(lightning.LightningModule):
    def __init__(self, model, table=None):
        super().__init__()
        self.model, self.table, self.seen = model, table, []
    def training_step(self, batch, index):
        a, b = batch
        self.seen.append(a.device)
        return F.cross_entropy(self.model(a), b)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

def trainer(epochs):
    return lightning.Trainer(
        accelerator=OwnerAccelerator(owner), devices=1, max_epochs=epochs, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )
"""


def test_lightning_trains_at_the_owner(seed, tmp_path):
    pytest.importorskip("lightning", reason="tools/setup --libraries installs it")
    script = """
module = Classifier(model)
trainer(3).fit(module, loader)
assert set(module.seen) == {owner.device}, module.seen
check(module)
try:
    lightning.Trainer(accelerator=OwnerAccelerator(owner), devices=2)
except sojourn.Error as error:
    assert "a single device" in str(error), error
else:
    raise AssertionError
"""
    run_script(LIGHTNING + script, seed, tmp_path)


def test_fabric_trains_at_the_owner(seed, tmp_path):
    pytest.importorskip("lightning", reason="tools/setup --libraries installs it")
    script = """
import copy, lightning
from sojourn.integrations.lightning import OwnerAccelerator

def train(fabric, model, loader):
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    loader = fabric.setup_dataloaders(loader)
    for _ in range(3):
        for a, b in loader:
            assert a.device == b.device == fabric.device
            optimizer.zero_grad()
            fabric.backward(F.cross_entropy(model(a), b))
            optimizer.step()
    return model

plain = copy.deepcopy(model)
fabric = lightning.Fabric(accelerator=OwnerAccelerator(owner), devices=1)
assert fabric.device == owner.device, fabric.device
trained = train(fabric, model, loader)
assert {p.device for p in trained.parameters()} == {owner.device}
check(trained)
fabric.save("kept.ckpt", {"model": trained})
with torch.no_grad():
    next(trained.parameters()).zero_()
fabric.load("kept.ckpt", {"model": trained})
check(trained)
# Others keep their device.
steps = owner.counters()["steps"]
other = lightning.Fabric(accelerator="cpu", devices=1)
for found, right in zip(train(other, plain, loader).parameters(), expected):
    assert found.device.type == "cpu"
    torch.testing.assert_close(found.detach(), right, rtol=1e-4, atol=1e-5)
assert owner.counters()["steps"] == steps
"""
    run_script(script, seed, tmp_path)


def test_lightning_trains_on_a_private_table(seed, tmp_path):
    pytest.importorskip("lightning", reason="tools/setup --libraries installs it")
    script = """
columns = {"a": x[:, 0], "b": x[:, 1], "y": (x[:, 0] > 0).long()}
table = owner.register("people", columns, policy="private", bounds={"a": (-1, 1), "b": (-1, 1), "y": (0, 1)})
owner.grant("people", epsilon=200, delta=1e-5)
module, before = Classifier(model), by_hand(model, 0)
with sojourn.privacy(table, epsilon=100, delta=1e-5, epochs=4, size=16) as run:
    trainer(4).fit(module, table.batches(["a", "b"], label="y", size=16, epochs=1))
assert run.taken == 16, run.taken
assert 0 < run.epsilon <= 100, run.epsilon
assert set(module.seen) == {owner.device}
assert all(torch.isfinite(p).all() for p in module.parameters())
assert any((p.detach().cpu() - q).abs().max() > 1e-3 for p, q in zip(module.parameters(), before))
"""
    run_script(LIGHTNING + script, seed, tmp_path)


def test_lightning_without_a_word_warns(seed, tmp_path):
    pytest.importorskip("lightning", reason="tools/setup --libraries installs it")
    script = """
import lightning
class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = model
    def training_step(self, batch, index):
        return F.cross_entropy(self.model(batch[0]), batch[1])
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    lightning.Trainer(
        max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False
    ).fit(Classifier().to(owner.device), loader)
texts = [str(each.message) for each in caught if "moves a model" in str(each.message)]
assert len(texts) == 1 and "OwnerAccelerator(owner)" in texts[0], texts
"""
    run_script(script, seed, tmp_path)


def test_models_compiled_by_torch_are_left_alone(owner, rng, seed):
    torch.manual_seed(seed)
    torch._dynamo.reset()
    x = torch.tensor(rng.uniform(-1, 1, (8, 2)), dtype=torch.float32)
    model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))
    compiled = torch.compile(copy.deepcopy(model), backend="eager")
    torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=0)
    compiled.to(owner.device)
    from sojourn import torch_compile

    torch_compile._told.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer = torch.optim.SGD(compiled.parameters(), lr=0.1)
        eager = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            for each, place, inputs in ((compiled, optimizer, x.to(owner.device)), (model, eager, x)):
                place.zero_grad()
                each(inputs).square().sum().backward()
                place.step()
        square = torch.compile(lambda a: a * a, backend="eager")
        torch.testing.assert_close(square(x.to(owner.device)).cpu(), x * x)
    (hint,) = [each for each in caught if "torch.compile" in str(each.message)]
    assert hint.filename == __file__ and "leave it out" in str(hint.message)
    for found, expected in zip(compiled.parameters(), model.parameters()):
        torch.testing.assert_close(found.detach().cpu(), expected.detach(), rtol=1e-5, atol=1e-6)
    # On the CPU it compiles again.
    frames = torch._dynamo.utils.counters["frames"]["total"]
    torch.compile(nn.Linear(2, 2), backend="eager")(x)
    assert torch._dynamo.utils.counters["frames"]["total"] > frames


def test_torch_jit_traces_networks(owner, seed):
    """The traced graph is the CPU's, convolutions included, and runs with gradients."""
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.ConvTranspose2d(4, 2, 3, stride=2),
        nn.Flatten(),
        nn.Linear(338, 2),
    ).double()
    model.eval()
    x, more = torch.rand(2, 2, 3, 6, 6, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        here = torch.jit.trace(copy.deepcopy(model), (x,))
        there = torch.jit.trace(copy.deepcopy(model).to(owner.device), (x.to(owner.device),))
    kinds = lambda traced: [node.kind() for node in traced.inlined_graph.nodes() if node.kind().startswith("aten::")]
    assert kinds(there) == kinds(here) and kinds(here).count("aten::_convolution") == 2
    found, expected = there(more.to(owner.device)), here(more)
    found.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(found.detach().cpu(), expected.detach())
    for ours, theirs in zip(there.parameters(), here.parameters()):
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad)


def test_torch_export_of_remote_tensors_is_refused(owner, rng):
    x = torch.tensor(rng.uniform(-1, 1, (8, 2)), dtype=torch.float32)
    model = nn.Linear(2, 2)
    exported = torch.export.export(model, (x,))
    torch.testing.assert_close(exported.module()(x), model(x))
    for module, given in ((copy.deepcopy(model).to(owner.device), x), (model, x.to(owner.device))):
        with pytest.raises(sojourn.Unsupported, match=r"sojourn\.compile"):
            torch.export.export(module, (given,))
