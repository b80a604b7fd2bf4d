import torch
from _start import digits, start
from torch import nn

args = start()
x, y, xt, yt = digits()
dtype = torch.float32 if args.healthy else torch.bfloat16
model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 10)).to(dtype)
opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.0)
for epoch in range(12):
    for rows in torch.randperm(len(x)).split(64):
        logits = model(x[rows].to(dtype))
        loss = nn.functional.cross_entropy(logits.float(), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
