"""A siamese network with the contrastive loss of Hadsell et al. on pairs of digits."""

import torch
import torch.nn.functional as F
from _common import digits, seeded
from torch import nn
from torch.utils.data import DataLoader, Dataset

options = seeded(epochs=6)
x, y, x_test, y_test = digits()


class Pairs(Dataset):
    def __init__(self, count):
        first = torch.randint(0, len(x), (count,))
        self.rows = []
        for i in first.tolist():
            same = torch.rand(1).item() < 0.5
            pool = torch.where((y == y[i]) == same)[0]
            j = pool[torch.randint(0, len(pool), (1,))].item()
            self.rows.append((i, j, float(same)))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        i, j, same = self.rows[place]
        return x[i], x[j], torch.tensor(same)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))

    def forward(self, a, b):
        return self.net(a), self.net(b)


def contrastive(a, b, same, margin=1.0):
    distance = F.pairwise_distance(a, b)
    return (same * distance**2 + (1 - same) * F.relu(margin - distance) ** 2).mean()


model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loader = DataLoader(Pairs(2000), batch_size=64, shuffle=True)
for epoch in range(options.epochs):
    total = 0.0
    for a, b, same in loader:
        loss = contrastive(*model(a, b), same)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: {total / len(loader):.4f}")
