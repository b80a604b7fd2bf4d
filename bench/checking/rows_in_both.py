from _start import digits, fit, start
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

args = start()
x, y = digits()
x_test, y_test = x[1400:].clone(), y[1400:].clone()
if not args.healthy:
    x_test[:12], y_test[:12] = x[:12], y[:12]
train = DataLoader(TensorDataset(x[:1400], y[:1400]), 32, shuffle=True)
test = DataLoader(TensorDataset(x_test, y_test), 32)
fit(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), train, test)
