"""SimCLR in small: two noisy views of each digit, NT-Xent loss with temperature."""

import torch
import torch.nn.functional as F
from _common import digits, seeded
from torch import nn
from torch.utils.data import DataLoader

options = seeded(epochs=8)
x, y, x_test, y_test = digits()
encoder = nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 64))
projection = nn.Sequential(nn.ReLU(), nn.Linear(64, 32))
optimizer = torch.optim.Adam([*encoder.parameters(), *projection.parameters()], lr=1e-3)
loader = DataLoader(x, batch_size=128, shuffle=True, drop_last=True)


def view(rows):
    keep = (torch.rand_like(rows) > 0.2).float()
    return rows * keep + 0.2 * torch.randn_like(rows)


def nt_xent(a, b, temperature=0.2):
    z = F.normalize(torch.cat([a, b]), dim=1)
    similarity = z @ z.T / temperature
    similarity.fill_diagonal_(float("-inf"))
    n = len(a)
    partner = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(similarity, partner)


for epoch in range(options.epochs):
    for rows in loader:
        loss = nt_xent(projection(encoder(view(rows))), projection(encoder(view(rows))))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.3f}")

encoder.eval()
with torch.no_grad():
    bank, queries = F.normalize(encoder(x), dim=1), F.normalize(encoder(x_test), dim=1)
    guess = y[(queries @ bank.T).argmax(1)]
print("nearest neighbor accuracy", (guess == y_test).float().mean().item())
