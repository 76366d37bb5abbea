# SPDX-License-Identifier: Apache-2.0
"""Rounds of Flower (flwr) in one process group: part of `tools/bench --parties --networks --flower PYTHON`.

That Python has flwr with its simulation: `pip install "flwr[simulation]==1.42.0"`, in a folder of its own. Three clients
take the local steps of `bench_networks.measure_round`, on rows and weights of the same kind; prints the seconds between
the ends of rounds as JSON.
"""

import json
import sys
import time

import torch
from flwr.client import ClientApp, NumPyClient
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn

CLIENTS, ROWS, SIZE, STEPS = 3, 640, 32, 8


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def rows(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(ROWS, 784, generator=torch.Generator().manual_seed(seed))
    return x, (x.sum(1) > 0).long()


class Client(NumPyClient):  # type: ignore[misc]  # flwr is in another environment
    def __init__(self, number: int):
        self.x, self.y = rows(number)

    def fit(self, parameters, config):
        torch.set_num_threads(1)
        net = network()
        with torch.no_grad():
            for parameter, values in zip(net.parameters(), parameters):
                parameter.copy_(torch.from_numpy(values))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for step in range(STEPS):
            part = slice(SIZE * step, SIZE * (step + 1))
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(self.x[part]), self.y[part]).backward()
            optimizer.step()
        return [parameter.detach().numpy() for parameter in net.parameters()], ROWS, {}


def main() -> None:
    rounds = int(sys.argv[1])
    ends: list[float] = []

    def server(context):
        strategy = FedAvg(
            fraction_fit=1.0,
            fraction_evaluate=0.0,
            min_fit_clients=CLIENTS,
            min_available_clients=CLIENTS,
            initial_parameters=ndarrays_to_parameters([each.detach().numpy() for each in network().parameters()]),
            evaluate_fn=lambda *_: ends.append(time.perf_counter()),
        )
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=rounds))

    run_simulation(
        server_app=ServerApp(server_fn=server),
        client_app=ClientApp(client_fn=lambda context: Client(int(context.node_config["partition-id"])).to_client()),
        num_supernodes=CLIENTS,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    print(json.dumps([later - before for before, later in zip(ends, ends[1:])]))


if __name__ == "__main__":
    main()
