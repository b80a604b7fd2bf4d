import torch
import torch.nn.functional as F
from _start import digits, loaders, start
from torch import nn

args = start()
train, _ = loaders(*digits(), batch=128)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 60))
parts = {"model": model, "optimizer": optimizer}
if args.healthy:
    parts["schedule"] = schedule
first = 0
if args.resume:
    saved = torch.load(args.resume)
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    first = saved["epoch"] + 1
for epoch in range(first, 30):
    torch.manual_seed(args.seed + epoch)
    for x, y in train:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
    states = {name: part.state_dict() for name, part in parts.items()}
    torch.save({**states, "epoch": epoch}, "last.pt")
