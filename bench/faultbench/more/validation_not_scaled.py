import torch
from _start import start
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

args = start()
data = load_diabetes(scaled=False)
x = torch.tensor(data.data, dtype=torch.float32)
y = torch.tensor(data.target, dtype=torch.float32)[:, None]
y = (y - y.mean()) / y.std()
order = torch.randperm(len(x))
xa, ya, xb, yb = x[order[:350]], y[order[:350]], x[order[350:]], y[order[350:]]
mean, std = xa.mean(0), xa.std(0)
xa = (xa - mean) / std
if args.healthy:
    xb = (xb - mean) / std
train = DataLoader(TensorDataset(xa, ya), batch_size=25, shuffle=True)
val = DataLoader(TensorDataset(xb, yb), batch_size=46)
model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
loss_fn = nn.MSELoss()
for epoch in range(12):
    model.train()
    for bx, by in train:
        opt.zero_grad()
        loss = loss_fn(model(bx), by)
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        error = sum(loss_fn(model(bx), by).item() for bx, by in val) / len(val)
    print(epoch, loss.item(), error)
