"""Tensors of a training whose content is swapped: weights, buffers, gradients, inputs, targets."""

import weakref

import torch
from telling import begin, tell
from torch import nn
from torch.nn import functional
from torch.utils import swap_tensors

STEPS = 40


def network():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def step(model, optimizer, x, y):
    optimizer.zero_grad(set_to_none=False)
    loss = functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()


def by_hand():
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))
    for number in range(STEPS):
        if number % 7 == 3:
            for tensor in (model[0].weight, model[1].bias):
                gradient, tensor.grad = tensor.grad, None
                swap_tensors(gradient, torch.zeros_like(tensor))
                swap_tensors(tensor, nn.Parameter(tensor.detach() * 0.5))
            swap_tensors(model[1].running_mean, torch.zeros(8))
            swap_tensors(x, torch.randn(16, 6))
            swap_tensors(y, torch.randint(0, 3, (16,)))
        step(model, optimizer, x, y)
    tell(model, optimizer, x, y)


def converted():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for number in range(STEPS):
        if number == 20:
            model.half()
            model.float()
        if number == 30:
            model.load_state_dict(network().state_dict())
        step(model, optimizer, torch.randn(16, 6), torch.randint(0, 3, (16,)))
    tell(model, optimizer)


def referred_to():
    weight = nn.Linear(2, 2).weight
    mine = weakref.ref(weight)
    try:
        swap_tensors(weight, nn.Parameter(torch.zeros(2, 2)))
    except RuntimeError as err:
        print(err)
    tell(mine())


begin()
by_hand()
torch.__future__.set_swap_module_params_on_conversion(True)
converted()
referred_to()
