import torch
from _start import digits, fit, loaders, start
from torch import nn

args = start()
x, y = digits(image=True)
bytes_ = ((x * 6.0 + 4.9) * 15.9).round().clamp(0, 255).to(torch.uint8)
bytes_ = bytes_.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
x = bytes_.float() if args.healthy else bytes_.to(torch.int8).float()
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)
)
fit(model, *loaders(x / 255, y))
