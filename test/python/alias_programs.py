# SPDX-License-Identifier: Apache-2.0
"""Random sequences of views and writes through them."""

import random

import torch

import sojourn

F64 = torch.float64


class Program:
    """A random sequence of views and writes over few bases; the same on every device."""

    def __init__(self, seed, steps):
        rng = random.Random(seed)
        self.bases = [[rng.randint(1, 4) for _ in range(rng.randint(1, 3))] for _ in range(2)]
        self.seed, self.decisions = seed, [[rng.random() for _ in range(10)] for _ in range(steps)]

    def run(self, device, upto=None):
        generator = torch.Generator().manual_seed(self.seed)
        live = [torch.randn(*shape, dtype=F64, generator=generator).to(device) for shape in self.bases]
        for decision in self.decisions[:upto]:
            self.step(live, decision, device)
        return live

    def step(self, live, d, device):
        pick = lambda r, n: int(r * n) % n
        x = live[pick(d[0], len(live))]
        other = live[pick(d[1], len(live))]
        dim = pick(d[2], x.dim()) if x.dim() else 0
        kind = pick(d[3], 22)
        add = live.append
        if kind == 0 and x.dim():
            start = pick(d[4], x.size(dim)) if x.size(dim) else 0
            add(x.narrow(dim, start, pick(d[5], x.size(dim) - start + 1)))
        elif kind == 1 and x.dim():
            add(x.transpose(dim, pick(d[4], x.dim())))
        elif kind == 2 and x.dim() and x.size(dim):
            add(x.select(dim, pick(d[4], x.size(dim))))
        elif kind == 3:
            add(x.unsqueeze(dim))
        elif kind == 4 and x.dim() >= 2:
            add(x.diagonal(pick(d[4], 3) - 1))
        elif kind == 5 and x.dim():
            add(x[tuple(slice(None, None, 2) if i == dim else slice(None) for i in range(x.dim()))])
        elif kind == 6:
            add(x.reshape(-1))
        elif kind == 7 and x.dim() and x.size(dim) >= 2:
            add(x.unfold(dim, 2, 1 + pick(d[4], 2)))
        elif kind == 8:
            add(x.detach())
        elif kind == 9 and x.numel():
            add(
                x.as_strided((1 + pick(d[4], 2),), (1,), x.storage_offset())
                if x.numel() > 1 and x.is_contiguous()
                else x.view_as(x)
            )
        elif kind == 10 and x.dim():
            add(x.contiguous().view(x.shape[::1]))
        elif kind == 11:
            add(x * d[4] + (other.sum() if d[5] < 0.5 else 1.0))
        elif kind == 12 and len(live) > 3:
            del live[pick(d[4], len(live))]
        elif kind == 13:
            add(x.squeeze())
        elif kind == 14 and x.dim():
            add(torch.cat([x, x * 2], dim))
        elif kind == 15:
            sojourn.flush() if d[4] < 0.3 else None
        elif kind == 16 and x.dim():
            x.transpose_(dim, pick(d[4], x.dim()))
        elif kind == 17 and d[4] < 0.5:
            x.data = other.detach()
        elif any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape)) or self.overlaps(x):
            return
        elif kind == 18:
            x.mul_(0.5 + d[4])
        elif kind == 19:
            x.add_(other.sum().detach().clone(), alpha=0.1)
        elif kind == 20:
            x.copy_(
                (other.reshape(-1)[:1].clone() if other.numel() else torch.ones(1, dtype=F64, device=device))
                .reshape((1,) * x.dim())
                .expand(x.shape)
            )
        elif kind == 21 and x.dim() and x.size(dim):
            x[(slice(None),) * dim + (pick(d[4], x.size(dim)),)] = d[5]
        else:
            x.clamp_(-2 + d[4], 3)

    @staticmethod
    def overlaps(x):
        """Whether two elements share a place (unfold); writes to those have no defined order."""
        places = torch.zeros((), dtype=torch.long)
        for dim, (size, stride) in enumerate(zip(x.shape, x.stride())):
            places = places.unsqueeze(-1) + torch.arange(size) * stride
        return places.unique().numel() != places.numel()
