import torch
from _start import digits, fit, start
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shifted(Dataset):
    """Pictures that are moved by one pixel at random."""

    def __init__(self, pictures, labels):
        self.pictures, self.labels = pictures, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        by = tuple(torch.randint(-1, 2, (2,)).tolist())
        return self.pictures[index].roll(by, (1, 2)), self.labels[index]


args = start()
x, y = digits(image=True)
first = 1400 if args.healthy else 1330
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
train = DataLoader(Shifted(x[:1400], y[:1400]), 32, shuffle=True)
fit(model, train, DataLoader(Shifted(x[first:], y[first:]), 64))
