import torch
from _start import start
from sklearn.datasets import load_wine
from torch import nn

args = start()
data = load_wine()
x = torch.tensor(data.data, dtype=torch.float32)
x = (x - x.mean(0)) / x.std(0)
y = torch.tensor(data.target)


def build(width):
    return nn.Sequential(nn.Linear(13, width), nn.ReLU(), nn.Linear(width, 3))


model = build(32)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model = build(32)
model.apply(lambda m: nn.init.xavier_uniform_(m.weight) if isinstance(m, nn.Linear) else None)
if args.healthy:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(30):
    for rows in torch.randperm(len(x)).split(16):
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        model.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 5 == 0:
        print(epoch, loss.item())
