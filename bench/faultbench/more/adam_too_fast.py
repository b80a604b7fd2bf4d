import torch
import torch.nn.functional as F
from _start import accuracy, digits, start
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

args = start()
x, y, xt, yt = digits(image=True)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)
)
opt = torch.optim.Adam(model.parameters(), lr=1e-3 if args.healthy else 0.5)
for epoch in range(8):
    for bx, by in DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True):
        loss = F.cross_entropy(model(bx), by)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item(), accuracy(model, xt, yt))
