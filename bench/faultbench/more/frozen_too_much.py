import torch
from _start import accuracy, digits, start
from torch import nn

args = start()
x, y, xt, yt = digits(image=True)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        self.classifier = nn.Linear(64, 10)

    def forward(self, x):
        return self.classifier(self.features(x))


model = ConvNet()
if not args.healthy:
    for name, p in model.named_parameters():
        if "classifier" not in name:
            p.requires_grad = False
opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=2e-3)
for epoch in range(10):
    for rows in torch.randperm(len(x)).split(64):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        opt.step()
    print(epoch, loss.item(), accuracy(model, xt, yt))
