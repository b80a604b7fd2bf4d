import torch
from _start import digits, start
from torch import nn

args = start()
x, y, xt, yt = digits()
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
warmup_steps = 100
warm_up = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: min(1.0, (step + 1) / warmup_steps))
for epoch in range(12):
    for rows in torch.randperm(len(x)).split(64):
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if args.healthy:
            warm_up.step()
    if not args.healthy:
        warm_up.step()
    print(epoch, loss.item())
