"""Arguments, data, and the training loop that the programs here share."""

import argparse
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def start():
    """Parse `--seed N` and `--healthy`, seed everything, and use one thread."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true", help="run the repaired twin")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", default="")
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    return args


def digits(*, image=False):
    """Return standardized digits in random order, and their classes."""
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.RandomState(0).permutation(len(data.target))
    x = torch.tensor((data.data[order] - 4.9) / 6.0, dtype=torch.float32)
    return x.view(-1, 1, 8, 8) if image else x, torch.tensor(data.target[order])


def table(rows=1200, columns=12, noise=0.1):
    """Return a table of normal numbers, and a number that depends on all of its columns."""
    draw = torch.Generator().manual_seed(7)
    x = torch.randn(rows, columns, generator=draw)
    weights = torch.randn(columns, 1, generator=draw)
    y = torch.sin(x) @ weights + noise * torch.randn(rows, 1, generator=draw)
    return x, y / y.std()


def words(rows=600, length=16, vocabulary=20):
    """Return sequences in which each token follows from the two before it, with some noise."""
    draw = torch.Generator().manual_seed(7)
    tokens = torch.randint(vocabulary, (rows, length + 1), generator=draw)
    for place in range(2, length + 1):
        following = (3 * tokens[:, place - 1] + tokens[:, place - 2] + 1) % vocabulary
        kept = torch.rand(rows, generator=draw) < 0.9
        tokens[:, place] = torch.where(kept, following, tokens[:, place])
    return tokens


def loaders(x, y, *, batch=32, held_out=0.2, **options):
    """Return loaders of the first rows for training, and of the others for evaluation."""
    cut = int(len(x) * (1 - held_out))
    train, rest = TensorDataset(x[:cut], y[:cut]), TensorDataset(x[cut:], y[cut:])
    return DataLoader(train, batch, shuffle=True, **options), DataLoader(rest, batch, **options)


def fit(model, train, held_out=None, *, loss=F.cross_entropy, optimizer=None, epochs=10):
    """Train a model, and print its losses."""
    optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        model.train()
        for x, y in train:
            optimizer.zero_grad()
            value = loss(model(x), y)
            value.backward()
            optimizer.step()
        print(f"{epoch}: {value.item():.3f}")
        if held_out is not None:
            model.eval()
            with torch.no_grad():
                print(f"  {np.mean([loss(model(x), y).item() for x, y in held_out]):.3f}")
