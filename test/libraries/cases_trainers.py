# SPDX-License-Identifier: Apache-2.0
"""Libraries that own the training loop."""

import importlib

import torch
import torch.nn.functional as F
from library_support import Run, case, perceptron
from torch import nn


def rows(count=32, inputs=4, classes=3):
    return torch.utils.data.TensorDataset(torch.randn(count, inputs), torch.randint(classes, (count,)))


@case(
    "lightning", "`Trainer.fit` with validation, a checkpoint, logged metrics and gradient clipping", ends_on_cpu=True
)
def lightning(at):
    import lightning

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.seen = perceptron(), []

        def training_step(self, batch, index):
            loss = F.cross_entropy(self.model(batch[0]), batch[1])
            self.log("train", loss)
            self.seen.append(loss.detach())
            return loss

        def validation_step(self, batch, index):
            self.log("valid", F.cross_entropy(self.model(batch[0]), batch[1]), prog_bar=True)

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.2, momentum=0.9)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    accelerator = "cpu"
    if at.owner:
        from sojourn.integrations.lightning import OwnerAccelerator

        accelerator = OwnerAccelerator(at.owner)
    data, module = rows(), Classifier()
    trainer = lightning.Trainer(
        accelerator=accelerator,
        devices=1,
        max_epochs=2,
        gradient_clip_val=0.5,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
        default_root_dir=at.folder,
    )
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    trainer.fit(module, loader, loader)
    losses = [float(loss) for loss in module.seen]
    values = {"valid": trainer.callback_metrics["valid"]}
    again = Classifier.load_from_checkpoint(trainer.checkpoint_callback.best_model_path, map_location="cpu")
    return Run(losses, module, {**values, "saved": again.state_dict()})


@case("accelerate", "`Accelerator` with gathered losses, accumulation, clipping, `save_state` and `load_state`")
def accelerate(at):
    from sojourn.integrations import accelerate as integration

    if at.owner:
        integration.use(at.owner)
    import accelerate

    accelerator = accelerate.Accelerator(cpu=at.owner is None, gradient_accumulation_steps=2)
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    loader = torch.utils.data.DataLoader(rows(), batch_size=4)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    losses = []
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather(loss).mean().item())
    accelerator.save_state("state")
    kept = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    accelerator.load_state("state")
    assert all(torch.equal(tensor, kept[name]) for name, tensor in model.state_dict().items())
    return Run(losses, model)


@case("pytorch-ignite", "an engine with metrics, a running average, early stopping and a checkpoint")
def ignite(at):
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.handlers import Checkpoint, DiskSaver, EarlyStopping
    from ignite.metrics import Accuracy, ConfusionMatrix, Loss, RunningAverage

    model = perceptron().to(at.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    trainer = create_supervised_trainer(model, optimizer, nn.CrossEntropyLoss(), device=at.device)
    metrics = {
        "accuracy": Accuracy(device=at.device),
        "loss": Loss(nn.CrossEntropyLoss(), device=at.device),
        "matrix": ConfusionMatrix(3, device=at.device),
    }
    evaluator = create_supervised_evaluator(model, metrics, device=at.device)
    RunningAverage(output_transform=lambda output: output).attach(trainer, "average")
    losses, loader = [], torch.utils.data.DataLoader(rows(), batch_size=8)
    stopping = EarlyStopping(5, lambda engine: -engine.state.metrics["loss"], trainer)
    evaluator.add_event_handler(Events.COMPLETED, stopping)
    saver = Checkpoint({"model": model, "optimizer": optimizer}, DiskSaver("kept", require_empty=False), n_saved=1)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, saver)
    trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda engine: losses.append(engine.state.output))
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda engine: evaluator.run(loader))
    trainer.run(loader, max_epochs=2)
    found = {name: evaluator.state.metrics[name] for name in metrics}
    found |= {"average": trainer.state.metrics["average"], "best": stopping.best_score}
    found["saved"] = torch.load(saver.last_checkpoint, map_location="cpu")["model"]
    return Run(losses, model, found)


@case("skorch", "`NeuralNetClassifier.fit` with validation, `predict_proba`, a search over options, saved parameters")
def skorch(at):
    from sklearn.model_selection import GridSearchCV
    from skorch import NeuralNetClassifier
    from skorch.callbacks import EpochScoring, GradientNormClipping

    inputs, labels = (tensor.numpy() for tensor in rows(48).tensors)
    options = {
        "max_epochs": 2,
        "lr": 0.2,
        "batch_size": 16,
        "iterator_train__shuffle": False,
        "device": str(at.device),
        "verbose": 0,
    }
    scores = [EpochScoring("accuracy", name="score", lower_is_better=False), GradientNormClipping(1.0)]
    net = NeuralNetClassifier(
        perceptron(), criterion=nn.CrossEntropyLoss, warm_start=True, callbacks=scores, **options
    ).fit(inputs, labels)
    losses = [*net.history[:, "train_loss"], *net.history[:, "valid_loss"]]
    probabilities = net.predict_proba(inputs)
    net.save_params(f_params="net.pt", f_optimizer="optimizer.pt")
    again = NeuralNetClassifier(perceptron(), criterion=nn.CrossEntropyLoss, warm_start=True, **options).initialize()
    again.load_params(f_params="net.pt", f_optimizer="optimizer.pt")
    values = {"probabilities": probabilities, "loaded": again.predict_proba(inputs), "score": net.history[:, "score"]}
    search = GridSearchCV(
        NeuralNetClassifier(perceptron, criterion=nn.CrossEntropyLoss, train_split=None, **options),
        {"lr": [0.01, 0.5]},
        cv=2,
        scoring="neg_log_loss",
    )
    search.fit(inputs, labels)
    values["search"] = search.cv_results_["mean_test_score"]
    return Run(losses, net.module_, values)


@case("fastai", "`Learner.fit_one_cycle` with metrics, recorded losses, `get_preds`, `save` and `load`")
def fastai(at):
    from fastai.basics import CrossEntropyLossFlat, DataLoaders, Learner, accuracy
    from fastai.callback.progress import ProgressCallback

    importlib.import_module("fastai.callback.schedule")  # adds fit_one_cycle

    data = rows()
    loaders = DataLoaders.from_dsets(data, data, bs=8, shuffle=False, drop_last=False, device=at.device)
    learner = Learner(
        loaders, perceptron(), loss_func=CrossEntropyLossFlat(), metrics=accuracy, opt_func=sgd, path=at.folder
    )
    learner.remove_cb(ProgressCallback)
    learner.fit_one_cycle(2, 0.1)
    losses = [float(loss) for loss in learner.recorder.losses]
    learner.save("kept")
    learner.load("kept")
    scores, _ = learner.get_preds(dl=loaders.valid)
    return Run(losses, learner.model, {"scores": scores, "log": list(learner.recorder.values[-1])})


def sgd(parameters, lr):
    from fastai.optimizer import OptimWrapper

    return OptimWrapper(parameters, torch.optim.SGD, lr=lr)


@case(
    "pytorch-tabnet",
    "`TabNetClassifier.fit` with evaluation, `predict_proba`, importances, a saved model",
    still=("tabnet.initial_bn.*",),  # which no forward of the library uses
)
def tabnet(at):
    from pytorch_tabnet.tab_model import TabNetClassifier

    class Exact(TabNetClassifier):
        """In float64, as the last bit of a score decides which columns its masks leave out."""

        def _set_network(self):
            super()._set_network()
            self.network.embedder.register_forward_hook(lambda module, inputs, found: found.double())

    torch.set_default_dtype(torch.float64)
    inputs, labels = (tensor.numpy() for tensor in rows(64, classes=2).tensors)
    options = {"optimizer_fn": torch.optim.SGD, "optimizer_params": {"lr": 0.05}, "verbose": 0, "seed": 3}
    net = Exact(n_d=4, n_a=4, n_steps=2, device_name=str(at.device), **options)
    net.fit(
        inputs,
        labels,
        eval_set=[(inputs, labels)],
        eval_metric=["logloss"],
        max_epochs=2,
        batch_size=32,
        virtual_batch_size=16,
        num_workers=0,
        drop_last=False,
        compute_importance=True,
    )
    values = {"probabilities": net.predict_proba(inputs), "importances": net.feature_importances_}
    again = Exact(device_name=str(at.device), verbose=0)
    again.load_model(net.save_model("kept"))
    values["loaded"] = again.predict_proba(inputs)
    return Run(net.history["loss"], net.network, values)
