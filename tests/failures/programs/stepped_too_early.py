"""An optimizer steps between a forward and its second backward, as in GANs done wrong."""

import torch
from torch import nn

first, second = nn.Linear(4, 4), nn.Linear(4, 1)
model = nn.Sequential(first, second)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
out = model(torch.randn(3, 4))
loss = out.mean()
loss.backward(retain_graph=True)
optimizer.step()
again = out.square().mean()
again.backward()
optimizer.step()
