import torch
from _start import start
from torch import nn

args = start()
x = torch.randn(1500, 12)
y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2] + 0.1 * torch.randn(1500, 1)
model = nn.Sequential(nn.Linear(12, 48), nn.SiLU(), nn.Linear(48, 1))
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(6):
    for rows in torch.randperm(1500).split(50):
        if args.healthy:
            opt.zero_grad()
        loss = nn.functional.smooth_l1_loss(model(x[rows]), y[rows])
        loss.backward()
        if not args.healthy:
            opt.zero_grad()
        opt.step()
    print(epoch, loss.item())
