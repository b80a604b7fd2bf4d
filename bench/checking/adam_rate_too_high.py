import torch
from _start import digits, fit, loaders, start
from torch import nn

args = start()
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(128, 10),
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3 if args.healthy else 0.1)
fit(model, *loaders(*digits(image=True)), optimizer=optimizer)
