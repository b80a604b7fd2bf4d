"""Tensors of a training whose memory grows later: inputs, labels, tokens, buffers, gradients."""

import torch
from telling import begin, tell
from torch import nn
from torch.nn import functional

STEPS = 70


class Buffered(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)
        self.register_buffer("range", torch.zeros(0))

    def forward(self, x):
        self.range.resize_(len(x)).copy_(x.detach().amax(1))
        return self.layer(x)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 8), nn.Linear(8, 50)

    def forward(self, x):
        return self.head(self.embedding(x))


def trained(model, batches, loss_of):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
    tell(model, loss)


def classes():
    x, y = torch.empty(0), torch.empty(0, dtype=torch.long)
    for step in range(STEPS):
        yield x.resize_(4 + step, 8).normal_(), y.resize_(4 + step).random_(0, 3)


def doubles():
    x, y = torch.empty(0, dtype=torch.double), torch.empty(0, dtype=torch.double)
    for step in range(STEPS):
        yield x.resize_(4 + step, 8).normal_(), y.resize_(4 + step, 1).normal_()


def tokens():
    x, y = torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.long)
    for step in range(STEPS):
        x.resize_(4, 4 + step).random_(0, 50)
        yield x, y.resize_(4, 4 + step).copy_(x.roll(-1, 1))


def rows():
    for step in range(STEPS):
        yield torch.randn(4 + step, 8), None


def gradients():
    layer = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for step in range(STEPS):
        broken = float("nan") if step == 30 else 1.0
        loss = layer(torch.randn(4, 8)).pow(2).mean() * broken
        layer.zero_grad()
        loss.backward()
        if step != 30:
            optimizer.step()
        layer.weight.grad.resize_(3, 500)
        layer.weight.grad = None
    tell(layer)


def storages():
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        loss = model(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for parameter in model.parameters():  # as sharded training frees and restores weights
            copy, storage = parameter.detach().clone(), parameter.untyped_storage()
            size = storage.nbytes()
            storage.resize_(0)
            storage.resize_(size)
            parameter.data.copy_(copy)
    tell(model, optimizer)


begin()
trained(nn.Linear(8, 3), classes(), functional.cross_entropy)
trained(nn.Linear(8, 1).double(), doubles(), functional.mse_loss)
words = functional.cross_entropy
trained(Words(), tokens(), lambda out, y: words(out.flatten(0, 1), y.flatten()))
trained(Buffered(), rows(), lambda out, _: out.square().mean())
gradients()
storages()
