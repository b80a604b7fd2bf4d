"""Small PyTorch networks on digits, for tests that inspect the network."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits

from mothtrap.behavior.subject import Subject
from mothtrap.behavior.subjects import Request, make_subject
from mothtrap.session.asked_models import wrapped


def digits() -> tuple[Any, Any]:
    """Images (R, 1, 8, 8) from 0 to 1, and their digits."""
    X, y = load_digits(return_X_y=True)
    return (X / 16).astype(np.float32).reshape(-1, 1, 8, 8), y


def framed(images: Any, number_R: Any) -> Any:
    """The images with one of ten frames of light and dark pixels, by number."""
    frames = np.random.default_rng(7).integers(0, 2, (10, 1, 10, 10))
    wide = frames[number_R].astype(np.float32)
    wide[:, :, 1:-1, 1:-1] = images
    return wide


def convolutional(side: int = 8, channels: int = 12) -> Any:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, channels, 3, padding=1),
        torch.nn.ReLU(inplace=True),
        torch.nn.Conv2d(channels, channels, 3, padding=1),
        torch.nn.BatchNorm2d(channels),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(channels * side * side, 10),
    )


def trained(net: Any, X: Any, y: Any, epochs: int = 6) -> Any:
    torch.manual_seed(0)
    optimizer = torch.optim.Adam(net.parameters(), 0.005)
    inputs, targets = torch.tensor(X), torch.tensor(y)
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs)).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(inputs[rows]), targets[rows]).backward()
            optimizer.step()
    return net


def subject_of(net: Any, X: Any, y: Any, **request: Any) -> Subject:
    found = wrapped(net)
    inside = Request(network=found.network, **{"budget_s": 3600.0, **request})
    return make_subject(found.predict, X, y, None, inside)[0]
