"""A network on a noisy table that it can memorize; some rows may be used twice."""

import torch
import torch.nn.functional as F  # noqa: N812
from _start import options, score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

o = options(leaked=0.0, epochs=6)
generator = torch.Generator().manual_seed(11)
x = torch.randn(1200, 20, generator=generator)
clean = x[:, 0] + x[:, 1] * x[:, 2] > 0
y = (clean ^ (torch.rand(1200, generator=generator) < 0.2)).long()
x_test, y_test = x[900:].clone(), y[900:].clone()
leaked = round(o.leaked * len(x_test))
x_test[:leaked], y_test[:leaked] = x[:leaked], y[:leaked]
model = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
loader = DataLoader(TensorDataset(x[:900], y[:900]), batch_size=45, shuffle=True)
for epoch in range(round(o.epochs)):
    for rows, labels in loader:
        loss = F.cross_entropy(model(rows), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        out = model(x_test)
        value = F.cross_entropy(out, y_test)
        print(epoch, loss.item(), value.item(), (out.argmax(1) == y_test).float().mean().item())
    model.train()
score(value)
