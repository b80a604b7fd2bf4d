import torch
from _start import start
from torch import nn

args = start()


class Tagger(nn.Module):
    """Which of five tags hold: one sigmoid for each."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))

    def forward(self, x):
        out = self.body(x)
        return out if args.healthy else torch.sigmoid(out)


x = torch.randn(2000, 20)
tags = (x @ torch.randn(20, 5) + torch.randn(5) > 0).float()
model = Tagger()
criterion = nn.BCEWithLogitsLoss()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(6):
    for rows in torch.randperm(2000).split(40):
        opt.zero_grad()
        loss = criterion(model(x[rows]), tags[rows])
        loss.backward()
        opt.step()
    print(epoch, loss.item())
