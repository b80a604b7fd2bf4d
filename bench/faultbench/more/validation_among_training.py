import torch
from _start import digits, start
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

args = start()
x, y, _, _ = digits()
everything = TensorDataset(x, y)
order = torch.randperm(len(x)).tolist()
val_set = Subset(everything, order[:280])
train_set = Subset(everything, order[280:] if args.healthy else order[140:])
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
ce = nn.CrossEntropyLoss()
for epoch in range(10):
    model.train()
    for bx, by in DataLoader(train_set, batch_size=32, shuffle=True):
        opt.zero_grad()
        loss = ce(model(bx), by)
        loss.backward()
        opt.step()
    model.eval()
    hits = 0
    with torch.no_grad():
        for bx, by in DataLoader(val_set, batch_size=70):
            out = model(bx)
            ce(out, by)
            hits += (out.argmax(1) == by).sum().item()
    print(epoch, loss.item(), hits / len(val_set))
