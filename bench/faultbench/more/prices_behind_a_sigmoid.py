import torch
from _start import start
from torch import nn

args = start()
N = 2000
x = torch.randn(N, 8)
price = 250 + 60 * x[:, 0] - 40 * x[:, 1] * x[:, 2] + 10 * torch.randn(N)
price = price[:, None]
if args.healthy:
    price = (price - price.min()) / (price.max() - price.min())
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid())
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
mse = nn.MSELoss()
for epoch in range(8):
    for rows in torch.randperm(N).split(50):
        loss = mse(model(x[rows]), price[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
