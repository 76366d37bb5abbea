# SPDX-License-Identifier: Apache-2.0
"""Networks for images, their losses and augmentations.

Deep networks with batch norm train in float64: over few pixels it makes float32 gradients as wrong as 1e-3 everywhere.
"""

import torch
import torch.nn.functional as F
from library_support import Run, batches, case, fit

import sojourn

images = lambda *shape, dtype=None: lambda: torch.rand(*shape, dtype=dtype)
classes = lambda count, *shape: lambda: torch.randint(count, shape)


@case(
    "torchvision",
    "MobileNetV3 and its transforms v2, with batch norm",
    limit="models and transforms work; `nms`, which it writes in C++, is refused by name",
    still=("features.*.block.[23].1.bias",),  # of the last norm of a block, before the first norm of the next
)
def torchvision(at):
    import torchvision as library
    from torchvision.models import mobilenet_v3_small
    from torchvision.transforms import v2

    model = mobilenet_v3_small(num_classes=3, dropout=0.0).double()
    normalized = v2.Compose([v2.Normalize([0.5] * 3, [0.25] * 3), v2.CenterCrop(28)])
    data = batches(images(4, 3, 32, 32, dtype=torch.float64), classes(3, 4))
    losses = fit(at, model, data, lambda net, x, y: F.cross_entropy(net(normalized(x)), y), lr=0.01)
    if at.owner:
        corners, scores = torch.rand(4, 2).to(at.device), torch.rand(4).to(at.device)
        boxes = torch.cat([corners, corners + 1], dim=1)
        # Where its kernels do not load, torchvision.ops.nms says so itself, on every device.
        nms = library.ops.nms if library.extension._has_ops() else torch.ops.torchvision.nms
        try:
            nms(boxes, scores, 0.5)
        except sojourn.errors.Unsupported as refusal:
            assert "torchvision::nms" in str(refusal) and "torch.library.register_kernel" in str(refusal), refusal
        else:
            raise AssertionError("nms works: the limit of this case is out of date")
    return Run(losses, model)


@case(
    "timm", "a vision transformer and a ConvNeXt by name, with timm's optimizer, schedule, loss and average of weights"
)
def timm(at):
    import timm
    import timm.optim
    from timm.loss import LabelSmoothingCrossEntropy
    from timm.scheduler import CosineLRScheduler
    from timm.utils import ModelEmaV3

    model = torch.nn.ModuleList(
        [
            timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, num_classes=4),
            timm.create_model("convnext_atto", num_classes=4, ls_init_value=0.1),
        ]
    ).to(at.device)
    average = ModelEmaV3(model, decay=0.5)
    optimizer = timm.optim.create_optimizer_v2(model, opt="sgd", lr=0.02, weight_decay=0.01)
    schedule = CosineLRScheduler(optimizer, t_initial=4)
    loss_of, losses = LabelSmoothingCrossEntropy(), []
    for step, (x, y) in enumerate(batches(images(4, 3, 32, 32), classes(4, 4))):
        x, y = x.to(at.device), y.to(at.device)
        optimizer.zero_grad()
        loss = sum(loss_of(net(x), y) for net in model)
        loss.backward()
        optimizer.step()
        schedule.step(step + 1)
        average.update(model)
        losses.append(loss.item())
    return Run(losses, model, {"average": average.module.state_dict()})


@case("segmentation-models-pytorch", "a U-Net over ResNet-18 with Dice and focal loss, and its statistics of pixels")
def segmentation(at):
    import segmentation_models_pytorch as smp

    model = smp.Unet("resnet18", encoder_weights=None, classes=3).double()
    dice, focal = smp.losses.DiceLoss("multiclass"), smp.losses.FocalLoss("multiclass")

    def loss_of(net, x, y):
        scores = net(x)
        return dice(scores, y) + focal(scores, y)

    data = batches(images(4, 3, 64, 64, dtype=torch.float64), classes(3, 4, 64, 64), steps=3)
    losses = fit(at, model, data, loss_of, lr=0.02)
    guess, y = data[1][1].to(at.device), data[0][1].to(at.device)
    found = smp.metrics.get_stats(guess, y, mode="multiclass", num_classes=3)
    return Run(losses, model, {"iou": smp.metrics.iou_score(*found, reduction="micro")})


@case("kornia", "a network of filters, geometry and colour, with SSIM as its loss")
def kornia(at):
    import kornia

    class Enhance(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = torch.nn.Conv2d(3, 3, 3, padding=1)
            self.angle = torch.nn.Parameter(torch.tensor([5.0]))

        def forward(self, x):
            x = kornia.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0))
            x = kornia.geometry.transform.rotate(self.mix(x), self.angle.expand(x.shape[0]))
            return x + kornia.filters.sobel(x) + kornia.color.rgb_to_grayscale(x)

    model = Enhance()
    data = batches(images(2, 3, 16, 16), images(2, 3, 16, 16))
    return Run(fit(at, model, data, lambda net, x, y: kornia.losses.ssim_loss(net(x), y, 5), lr=0.1), model)


@case("monai", "a U-Net over volumes with Dice loss, sliding windows and its Dice metric")
def monai(at):
    from monai.inferers import sliding_window_inference
    from monai.losses import DiceCELoss
    from monai.metrics import DiceMetric
    from monai.networks.nets import UNet

    # Without biases: the norms behind the convolutions take them away.
    sizes = {"in_channels": 1, "out_channels": 2, "channels": (4, 8, 16), "strides": (2, 2)}
    model = UNet(spatial_dims=3, num_res_units=1, bias=False, **sizes).double()
    loss_of = DiceCELoss(to_onehot_y=True, softmax=True)
    data = batches(images(2, 1, 16, 16, 16, dtype=torch.float64), classes(2, 2, 1, 16, 16, 16))
    losses = fit(at, model, data, lambda net, x, y: loss_of(net(x), y), lr=0.1)
    x, y = (tensor.to(at.device) for tensor in data[0])
    model.eval()
    with torch.no_grad():
        scores = sliding_window_inference(x, 8, 2, model, overlap=0.25)
        metric = DiceMetric(include_background=True, num_classes=2)
        metric(x.round(), y)
    return Run(losses, model, {"scores": scores, "dice": metric.aggregate()})
