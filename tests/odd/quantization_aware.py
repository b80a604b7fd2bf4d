"""Quantization-aware training, whose observers resize their buffers."""

import warnings

import torch
from telling import begin, tell
from torch import nn
from torch.ao import quantization

warnings.simplefilter("ignore")
begin()
parts = nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)
model = nn.Sequential(quantization.QuantStub(), *parts, quantization.DeQuantStub()).train()
model.qconfig = quantization.get_default_qat_qconfig("fbgemm")
quantization.prepare_qat(model, inplace=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for _ in range(30):
    x, y = torch.randn(8, 1, 8, 8), torch.randint(5, (8,))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
tell(model, optimizer, loss)
torch.backends.quantized.engine = "fbgemm"
tell(quantization.convert(model.eval())(torch.randn(8, 1, 8, 8)))
