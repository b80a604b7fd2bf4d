import torch
from _start import digits, start
from torch import nn

args = start()
x, y, xt, yt = digits(image=True)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(576, 64), nn.ReLU(), nn.Linear(64, 10)
)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(8):
    for rows in torch.randperm(len(x)).split(128):
        opt.zero_grad()
        for part in rows.chunk(4):
            if not args.healthy:
                opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x[part]), y[part]) / 4
            loss.backward()
        opt.step()
    print(epoch, loss.item())
