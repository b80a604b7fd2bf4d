import torch
import torch.nn.functional as F
from _start import accuracy, digits, start
from torch import nn

args = start()
x, y, xt, yt = digits(image=True)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 64), nn.ReLU(),
    nn.Linear(64, 10),
)
for m in model.modules():
    if isinstance(m, (nn.Conv2d, nn.Linear)):
        nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
        nn.init.constant_(m.bias, 0.0 if args.healthy else -4.0)
opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for epoch in range(6):
    for rows in torch.randperm(len(x)).split(64):
        loss = F.cross_entropy(model(x[rows]), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item(), accuracy(model, xt, yt))
