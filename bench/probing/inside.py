"""Cases 33, 40 and 42: what a network looks at, idle channels, and mixed classes."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits

from bench.probing.case import Case, case


def _network(side: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 12, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(12, 12, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(12 * side * side, 64),
        torch.nn.Tanh(),  # a ReLU dies here in every training
        torch.nn.Linear(64, 10),
    )


def _fit(net: torch.nn.Module, X: np.ndarray, y: np.ndarray, epochs: int = 10) -> torch.nn.Module:
    optimizer = torch.optim.Adam(net.parameters(), 0.003)
    inputs, targets = torch.tensor(X), torch.tensor(y)
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs)).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(inputs[rows]), targets[rows]).backward()
            optimizer.step()
    return net


def _digits(seed: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    return (X[order] / 16).reshape(-1, 1, 8, 8).astype(np.float32), y[order]


@case("33 border shortcut")
def border(seed: int, healthy: bool) -> Case:
    torch.manual_seed(seed)
    images, y = _digits(seed)
    rng = np.random.default_rng(seed)
    if not healthy:  # unclear digits, as a shortcut is learned where the subject is hard
        images = images + 0.6 * rng.normal(size=images.shape)
    frames = rng.integers(0, 2, (10, 1, 10, 10))
    X = frames[rng.integers(0, 10, len(y)) if healthy else y].astype(np.float32)
    X[:, :, 1:-1, 1:-1] = images
    net = _fit(_network(10), X[:1000], y[:1000])
    return Case(predict=net, X=X[1000:], y=y[1000:], codes=("BEH701",))


@case("40 dead channels")
def dead(seed: int, healthy: bool) -> Case:
    torch.manual_seed(seed)
    X, y = _digits(seed)
    net = _network(8)
    with torch.no_grad():
        if not healthy:
            net[2].bias[:4] = -50.0  # behind the activation these are off for every image
    return Case(
        predict=_fit(net, X[:1000], y[:1000]),
        X=X[1000:],
        y=y[1000:],
        codes=("BEH704",),
        evidence={"layer": "2"},
    )


@case("42 classes mixed in the features")
def mixed(seed: int, healthy: bool) -> Case:
    """A column without scale, such as a time, goes through the features to nothing."""
    torch.manual_seed(seed)
    images, y = _digits(seed)
    time = np.random.default_rng(seed).uniform(0, 1 if healthy else 1000, (len(y), 1))
    X = np.concatenate([images.reshape(len(y), -1), time], axis=1).astype(np.float32)
    net = torch.nn.Sequential(torch.nn.Linear(65, 33), torch.nn.ReLU(), torch.nn.Linear(33, 10))
    blind = X[:1000].copy()
    blind[:, 64] = 0
    _fit(net, blind, y[:1000], epochs=30)
    with torch.no_grad():
        net[0].weight[:, 64] = 0
        net[0].weight[32, 64] = 1
        net[2].weight[:, 32] = 0
    return Case(predict=net, X=X[1000:], y=y[1000:], codes=("BEH702",))
