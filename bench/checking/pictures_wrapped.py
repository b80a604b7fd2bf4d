import torch
from _start import digits, fit, loaders, start
from torch import nn

args = start()
x, y = digits(image=True)
pictures = nn.functional.interpolate((x * 6.0 + 4.9) * 15.9, 32, mode="bilinear")
bytes_ = pictures.round().clamp(0, 255).to(torch.uint8)
x = bytes_.float() if args.healthy else bytes_.to(torch.int8).float()
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(2048, 10)
)
fit(model, *loaders(x / 255, y))
