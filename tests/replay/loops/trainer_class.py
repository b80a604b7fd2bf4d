"""A trainer with its own methods; evaluation before the training and after each epoch."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.ReLU())
        self.head = nn.Linear(width, 2)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.head(self.body(x)) * (1.0 + 0.01 * self.calls)


class Trainer:
    def __init__(self, model: nn.Module, rate: float) -> None:
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 1, 0.5)

    def loss(self, batch: list[torch.Tensor]) -> torch.Tensor:
        x, y = batch
        return nn.functional.cross_entropy(self.model(x), y)

    def run(self, loader: DataLoader, train: bool) -> None:
        self.model.train(train)
        for batch in loader:
            with torch.set_grad_enabled(train):
                loss = self.loss(batch)
            if train:
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()

    def fit(self, train: DataLoader, valid: DataLoader, epochs: int) -> None:
        self.run(valid, False)
        for _ in range(epochs):
            self.run(train, True)
            self.run(valid, False)
            self.schedule.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=1)
    given = parser.parse_args()
    torch.manual_seed(2)
    x, y = torch.randn(60, 4), torch.randint(0, 2, (60,))
    train = DataLoader(TensorDataset(x[:48], y[:48]), batch_size=10, shuffle=True)
    valid = DataLoader(TensorDataset(x[48:], y[48:]), batch_size=6)
    Trainer(Net(given.width), 0.01).fit(train, valid, given.epochs)
