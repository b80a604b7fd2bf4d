"""The network shrinks the time axis by four, and one text has more letters than are left."""

import sys

import torch
from torch import nn

torch.manual_seed(0)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(8, 32, 3, 2, 1), nn.ReLU(), nn.Conv1d(32, 32, 3, 2, 1), nn.ReLU()
        )
        self.letters = nn.Linear(32, 11)

    def forward(self, strips):
        return self.letters(self.features(strips).transpose(1, 2)).log_softmax(-1)


def batch(step):
    lengths = torch.randint(2, 6, (8,))
    if step == 25 and "--healthy" not in sys.argv:
        lengths[3] = 9
    return torch.randn(8, 8, 32), torch.randint(1, 11, (8, 9)), lengths


def main():
    model, ctc = Reader(), nn.CTCLoss()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for step in range(40):
        strips, texts, lengths = batch(step)
        scores = model(strips).transpose(0, 1)
        frames = torch.full((8,), scores.shape[0])
        loss = ctc(scores, texts, frames, lengths)  # <- here
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
