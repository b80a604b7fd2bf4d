import torch
from _start import digits, start
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

args = start()
x, y, xt, yt = digits()
model = nn.Sequential(
    nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 10)
)
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
ce = nn.CrossEntropyLoss()
train = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True)
model.train()
for epoch in range(10):
    if args.healthy:
        model.train()
    for bx, by in train:
        opt.zero_grad()
        loss = ce(model(bx), by)
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        val = ce(model(xt), yt).item()
    print(f"epoch {epoch} train {loss.item():.3f} val {val:.3f}")
