from _start import digits, fit, loaders, start
from torch import nn

start()
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)
)
fit(model, *loaders(*digits(image=True)))
