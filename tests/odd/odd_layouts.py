"""Sparse, complex, nested, quantized and meta tensors in one process."""

import warnings

import torch
from telling import begin, tell
from torch import nn

warnings.simplefilter("ignore")
begin()


def train(model, optimizers, make, steps=70):
    for _ in range(steps):
        loss = make(model)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    tell(model, *optimizers, loss)


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(40, 8, sparse=True), nn.Linear(8, 2)
        self.register_buffer("mix", torch.eye(6).to_sparse_csr())

    def forward(self, tokens):
        return self.head(self.mix @ self.bag(tokens))


bags = Bags()
sparse, dense = torch.optim.SparseAdam([bags.bag.weight]), torch.optim.Adam(bags.head.parameters())
train(bags, [sparse, dense], lambda m: m(torch.randint(40, (6, 3))).square().mean())


class Waves(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 5, dtype=torch.complex64))

    def forward(self, x):
        return (torch.fft.rfft(x) @ self.weight.conj().t()).abs()


waves = Waves()
train(waves, [torch.optim.SGD(waves.parameters(), lr=0.01)], lambda m: m(torch.randn(4, 8)).sum())


class Ragged(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, rows):
        return self.layer(rows)


def ragged(model):
    rows = torch.nested.nested_tensor([torch.randn(3, 8), torch.randn(5, 8)], layout=torch.jagged)
    return model(rows).values().square().mean()


nested = Ragged()
train(nested, [torch.optim.SGD(nested.parameters(), lr=0.1)], ragged)


class Integers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)
        self.register_buffer(
            "scale", torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8)
        )

    def forward(self, x):
        return self.layer(x.dequantize()) * self.scale.dequantize()


def quantized(model):
    return model(torch.quantize_per_tensor(torch.randn(4, 8), 0.1, 0, torch.qint8)).square().mean()


integers = Integers()
train(integers, [torch.optim.SGD(integers.parameters(), lr=0.1)], quantized)

with torch.device("meta"):
    ghost = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
ghost(torch.empty(4, 8, device="meta")).sum().backward()
torch.optim.SGD(ghost.parameters(), lr=0.1).step()
real = ghost.to_empty(device="cpu")
for module in real:
    module.reset_parameters()
real.zero_grad()
train(
    real, [torch.optim.SGD(real.parameters(), lr=0.1)], lambda m: m(torch.randn(4, 8)).exp().mean()
)

lazy = nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d(), nn.ReLU(), nn.LazyLinear(2))
optimizer = torch.optim.SGD(lazy.parameters(), lr=0.1)
train(lazy, [optimizer], lambda m: m(torch.randn(4, 6)).square().mean())
