from _start import digits, fit, loaders, start
from torch import nn

args = start()
epochs = 40 if args.healthy else 400_000_000
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
fit(model, *loaders(*digits()), epochs=epochs)
