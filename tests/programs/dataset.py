"""Small data that can be learned: Gaussian blobs, a smooth function, signals."""

import torch
from torch.utils.data import DataLoader, TensorDataset


def blobs(*, rows=256, features=8, classes=3, seed=11):
    """Return inputs (rows, features) and labels (rows,): one Gaussian per class."""
    generator = torch.Generator().manual_seed(seed)
    centers = 1.2 * torch.randn(classes, features, generator=generator)
    labels = torch.randint(0, classes, (rows,), generator=generator)
    noise = torch.randn(rows, features, generator=generator)
    return centers[labels] + noise, labels


def curve(*, rows=256, features=4, seed=12):
    """Return inputs (rows, features) and a smooth target of shape (rows, 1)."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(rows, features, generator=generator)
    return inputs, torch.sin(inputs.sum(1, keepdim=True)) + 0.5 * inputs[:, :1]


def loader(inputs, targets, *, batch_size=16, **options):
    """Return a shuffling loader over the two tensors."""
    data = TensorDataset(inputs, targets)
    return DataLoader(data, batch_size=batch_size, shuffle=True, **options)
