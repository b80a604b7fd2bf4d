import torch
from _start import digits, start
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

args = start()
ACCUMULATE = 8
x, y, xt, yt = digits()
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True, drop_last=True)
model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
ce = nn.CrossEntropyLoss()
for epoch in range(6):
    for i, (bx, by) in enumerate(loader):
        loss = ce(model(bx), by)
        if args.healthy:
            loss = loss / ACCUMULATE
        loss.backward()
        if (i + 1) % ACCUMULATE == 0:
            opt.step()
            opt.zero_grad()
    opt.zero_grad()
    with torch.no_grad():
        print(epoch, (model(xt).argmax(1) == yt).float().mean().item())
