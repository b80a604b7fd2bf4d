"""`torch.func` transforms, fake tensors, compiled code and inference mode beside a training."""

import torch
from telling import begin, tell
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, grad, stack_module_state, vmap

begin()
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
ensemble = [nn.Linear(8, 3) for _ in range(3)]
stacked, buffers = stack_module_state(ensemble)
traces = [0]


def backend(graph, _):
    traces[0] += 1
    return graph.forward


compiled = torch.compile(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), backend=backend)


def one(parameters, x, y):
    return nn.functional.cross_entropy(functional_call(model, parameters, x[None]), y[None])


def other(parameters, buffers, x):
    return functional_call(ensemble[0], (parameters, buffers), x)


for step in range(70):
    x, y = torch.randn(6, 8), torch.randint(3, (6,))
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    each = vmap(grad(one), in_dims=(None, 0, 0))(parameters, x, y)
    many = vmap(other, in_dims=(0, 0, None))(stacked, buffers, x)
    with torch.inference_mode():
        model(x)
    if step == 20:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            shapes = model(mode.from_tensor(x)).shape
    loss = nn.functional.cross_entropy(compiled(model(x)), y)
    optimizer.zero_grad()
    loss.backward()
    for name, parameter in model.named_parameters():
        parameter.grad.add_(each[name].mean(0), alpha=0.01)
    optimizer.step()
tell(model, optimizer, compiled, each, many, shapes=tuple(shapes), traces=traces[0])
