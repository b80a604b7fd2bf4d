import torch
from _start import digits, start
from torch import nn

args = start()
x, y, xt, yt = digits()


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(64, 32)
        hidden = [nn.Linear(32, 32) for _ in range(2)]
        self.hidden = nn.ModuleList(hidden) if args.healthy else hidden
        self.out = nn.Linear(32, 10)

    def forward(self, x):
        h = torch.relu(self.inp(x))
        for layer in self.hidden:
            h = torch.relu(layer(h))
        return self.out(h)


model = Deep()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(8):
    for rows in torch.randperm(len(x)).split(64):
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
