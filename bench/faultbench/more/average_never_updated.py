import torch
from _start import accuracy, digits, start
from torch import nn

args = start()
x, y, xt, yt = digits()
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
averaged = torch.optim.swa_utils.AveragedModel(
    model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
)
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(12):
    for rows in torch.randperm(len(x)).split(64):
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if args.healthy:
            averaged.update_parameters(model)
    print(epoch, loss.item(), accuracy(averaged, xt, yt))
