# SPDX-License-Identifier: Apache-2.0
"""Graphs, Gaussian processes, probabilistic programs, differential equations, symmetries, diffusion, agents."""

import numpy as np
import torch
import torch.nn.functional as F
from library_support import Run, batches, case, fit
from torch import nn


@case("torch-geometric", "GCN, GAT and pooling over batches of graphs from its loader")
def geometric(at):
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader
    from torch_geometric.nn import GATConv, GCNConv, global_mean_pool

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.last = GCNConv(4, 8), GATConv(8, 8, heads=2), nn.Linear(16, 3)

        def forward(self, data):
            x = self.first(data.x, data.edge_index).relu()
            x = self.second(x, data.edge_index).relu()
            return self.last(global_mean_pool(x, data.batch, data.num_graphs))

    def graph(nodes):
        return Data(x=torch.randn(nodes, 4), edge_index=torch.randint(nodes, (2, 3 * nodes)), y=torch.randint(3, (1,)))

    model, losses = Net().to(at.device), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for data in DataLoader([graph(5 + k % 3) for k in range(16)], batch_size=4):
        data = data.to(at.device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), data.y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return Run(losses, model)


@case("gpytorch", "an exact Gaussian process: its marginal likelihood, its predictions with their variance")
def gpytorch(at):
    import gpytorch

    class Process(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2))

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    x = torch.rand(20, 2)
    y = (3 * x).sin().sum(1) + 0.1 * torch.randn(20)
    x, y, more = x.to(at.device), y.to(at.device), torch.rand(5, 2).to(at.device)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(at.device)
    model = Process(x, y, likelihood).to(at.device)
    likely = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(4):
        optimizer.zero_grad()
        loss = -likely(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    likelihood.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var():
        found = likelihood(model(more))
    return Run(losses, model, {"mean": found.mean, "variance": found.variance})


@case("botorch", "`fit_gpytorch_mll` of a Gaussian process, then an acquisition function is optimized")
def botorch(at):
    import botorch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    x = torch.rand(12, 2, dtype=torch.float64)
    y = (4 * x).sin().sum(1, keepdim=True)
    start = torch.rand(2, 1, 2, dtype=torch.float64)
    x, y, start = x.to(at.device), y.to(at.device), start.to(at.device)
    model = SingleTaskGP(x, y)
    likely = ExactMarginalLogLikelihood(model.likelihood, model)
    before = -likely(model(x), model.train_targets).item()
    botorch.fit_gpytorch_mll(
        likely, optimizer=botorch.optim.fit.fit_gpytorch_mll_torch, optimizer_kwargs=torch_options()
    )
    after = -likely(model(x), model.train_targets).item() if model.train() else 0.0
    model.eval()
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64).to(at.device)
    point, value = botorch.optim.optimize_acqf(
        LogExpectedImprovement(model, best_f=y.max()),
        bounds,
        q=1,
        num_restarts=2,
        batch_initial_conditions=start,
        options={"maxiter": 20},
    )
    return Run([before, after], model, {"value": value, "point": point})


def torch_options():
    return {"step_limit": 10}


@case("pyro-ppl", "variational inference of a regression, and the posterior of its weights by Laplace's approximation")
def pyro(at):
    import pyro
    import pyro.distributions as dist
    from pyro.infer import SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoLaplaceApproximation

    class Regression(pyro.nn.PyroModule):
        def __init__(self):
            super().__init__()
            self.linear = pyro.nn.PyroModule[nn.Linear](3, 1)
            self.linear.weight = pyro.nn.PyroSample(
                dist.Normal(torch.zeros(1, device=at.device), 1.0).expand([1, 3]).to_event(2)
            )

        def forward(self, x, y=None):
            mean = self.linear(x).squeeze(-1)
            with pyro.plate("rows", x.shape[0]):
                return pyro.sample("y", dist.Normal(mean, 0.5), obs=y)

    pyro.clear_param_store()
    x = torch.randn(32, 3)
    y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.1 * torch.randn(32)
    x, y = x.to(at.device), y.to(at.device)
    model = Regression().to(at.device)
    guide = AutoLaplaceApproximation(
        model,
        init_loc_fn=pyro.infer.autoguide.init_to_value(values={"linear.weight": torch.zeros(1, 3, device=at.device)}),
    )
    inference = SVI(model, guide, pyro.optim.SGD({"lr": 0.004}), Trace_ELBO())
    losses = [inference.step(x, y) for _ in range(6)]
    posterior = guide.laplace_approximation(x, y)
    # The weights' posterior of a linear model, whatever their mean.
    exact = (x.cpu().T @ x.cpu() / 0.5**2 + torch.eye(3)).inverse()
    torch.testing.assert_close(posterior.scale.cpu(), exact.diagonal().sqrt(), rtol=1e-3, atol=1e-5)
    found = {"mean": posterior.loc, "deviations": posterior.scale, "factor": posterior.scale_tril}
    found["bias"] = model.linear.bias
    return Run(losses, guide, {**found, "quantiles": dict(posterior.quantiles([0.1, 0.9], x))})


@case(
    "torchdiffeq", "a neural differential equation through `odeint` and through the adjoint, adaptive and fixed steps"
)
def torchdiffeq(at):
    from torchdiffeq import odeint, odeint_adjoint

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))

        def forward(self, t, y):
            return self.net(y) * (1 + t)

    def loss_of(net, start, end):
        times = torch.linspace(0.0, 1.0, 3, device=start.device, dtype=start.dtype)
        adaptive = odeint_adjoint(net, start, times, rtol=1e-3, atol=1e-3)[-1]
        fixed = odeint(net, start, times, method="rk4")[-1]
        return F.mse_loss(adaptive, end) + F.mse_loss(fixed, end)

    # In float64: the last bit of an error decides whether an adaptive step is taken.
    model = Field().double()
    draw = lambda: torch.randn(4, 2, dtype=torch.float64)
    data = batches(draw, draw, steps=3)
    return Run(fit(at, model, data, loss_of, lr=0.1), model)


@case("e3nn", "an equivariant product of spherical harmonics, with a gate")
def e3nn(at):
    from e3nn import o3
    from e3nn.nn import Gate

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = Gate("8x0e", [torch.tanh], "4x0e", [torch.sigmoid], "4x1o")
            self.product = o3.FullyConnectedTensorProduct("4x0e + 2x1o", "0e + 1o + 2e", self.gate.irreps_in)
            self.last = o3.Linear(self.gate.irreps_out, "1x0e")

        def forward(self, x, places):
            return self.last(self.gate(self.product(x, o3.spherical_harmonics("0e + 1o + 2e", places, normalize=True))))

    model = Net()
    data = batches(lambda: torch.randn(6, 10), lambda: torch.randn(6, 3), lambda: torch.randn(6, 1))
    return Run(fit(at, model, data, lambda net, x, place, y: F.mse_loss(net(x, place), y), lr=0.1), model)


@case(
    "diffusers",
    "a U-Net that predicts noise under a DDPM schedule, a DDIM sampling loop, and a saved model",
    still=("*.to_k.bias",),
)
def diffusers(at):
    from diffusers import DDIMScheduler, DDPMScheduler, UNet2DModel

    model = UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        layers_per_block=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=4,
    )
    schedule = DDPMScheduler(num_train_timesteps=20)

    def loss_of(net, x, noise, times):
        return F.mse_loss(net(schedule.add_noise(x, noise, times), times).sample, noise)

    image = lambda: torch.randn(2, 1, 8, 8)
    losses = fit(at, model, batches(image, image, lambda: torch.randint(20, (2,))), loss_of, lr=0.1)
    sampler, x = DDIMScheduler(num_train_timesteps=20), image().to(at.device)
    sampler.set_timesteps(3, device=at.device)
    model.eval()
    with torch.no_grad():
        for time in sampler.timesteps:
            x = sampler.step(model(x, time).sample, time, x).prev_sample
    model.save_pretrained("saved")
    loaded = UNet2DModel.from_pretrained("saved")
    return Run(losses, model, {"sample": x, "saved": loaded.state_dict()})


@case("stable-baselines3", "DQN with its replay buffer, target network and saved agent")
def stable_baselines(at):
    import gymnasium
    from stable_baselines3 import DQN

    class Corridor(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, seed=None, options=None):
            self.at, self.left = np.zeros(2, np.float32), 8
            return self.at.copy(), {}

        def step(self, action):
            self.at[0] += 0.1 if action else -0.1
            self.left -= 1
            return self.at.copy(), float(self.at[0]), self.left == 0, False, {}

    policy = {"optimizer_class": torch.optim.SGD, "net_arch": [8]}
    agent = DQN(
        "MlpPolicy",
        Corridor(),
        learning_rate=0.05,
        learning_starts=16,
        batch_size=16,
        train_freq=4,
        target_update_interval=8,
        policy_kwargs=policy,
        device=at.device,
        seed=int(torch.randint(1000, ())),
    )
    agent.learn(48)
    agent.save("agent")
    again, seen = DQN.load("agent", device=at.device), np.random.rand(3, 2).astype(np.float32)
    values = {"chosen": agent.predict(seen, deterministic=True)[0], "loaded": again.q_net.state_dict()}
    return Run([], agent.policy, values)
