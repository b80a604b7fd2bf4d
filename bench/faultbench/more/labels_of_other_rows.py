import torch
from _start import digits, start
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

args = start()
x, y, xt, yt = digits()
order = torch.randperm(len(x))
x = x[order]
y = y[order] if args.healthy else y[torch.randperm(len(y))]
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(30):
    model.train()
    for bx, by in loader:
        optimizer.zero_grad()
        loss = criterion(model(bx), by)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        val = criterion(model(xt), yt).item()
    print(f"{epoch}: train {loss.item():.3f} val {val:.3f}")
