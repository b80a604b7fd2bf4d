from _start import digits, fit, start
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

args = start()
x, y = digits()
held_out = x[1400:] if args.healthy else x[1400:] * 6.0 + 4.9
train = DataLoader(TensorDataset(x[:1400], y[:1400]), 32, shuffle=True)
test = DataLoader(TensorDataset(held_out, y[1400:]), 32)
fit(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), train, test)
