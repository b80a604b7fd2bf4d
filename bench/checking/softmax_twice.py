from _start import digits, fit, loaders, start
from torch import nn

args = start()
layers = [nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)]
model = nn.Sequential(*layers, *([] if args.healthy else [nn.Softmax(1)]))
fit(model, *loaders(*digits()))
