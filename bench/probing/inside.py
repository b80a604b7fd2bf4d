"""Cases 33, 40, 42, 46, 47: attributions of a network, its channels, and mixed classes."""

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


@case("47 mark in a corner of one class")
def mark(seed: int, healthy: bool) -> Case:
    """Unclear digits, so that the mark is learned; the twin has it in a fifth of all images."""
    torch.manual_seed(seed)
    images, y = _digits(seed)
    rng = np.random.default_rng(seed)
    X = (images + 0.4 * rng.normal(size=images.shape)).astype(np.float32)
    marked_R = rng.random(len(y)) < 0.2 if healthy else y == seed % 10
    X[marked_R, :, :2, -2:] = 1
    net = _fit(_network(8), X[:1000], y[:1000])
    return Case(
        predict=net,
        X=X[1000:],
        y=y[1000:],
        codes=("BEH701",),
        features=("upper right corner",),
        evidence={"classes": str(seed % 10)},
    )


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
    """A column without scaling, such as a time, reaches the features but has no effect."""
    torch.manual_seed(seed)
    images, y = _digits(seed)
    time = np.random.default_rng(seed).uniform(0, 1 if healthy else 1000, (len(y), 1))
    X = np.concatenate([images.reshape(len(y), -1), time], axis=1).astype(np.float32)
    trained = _perceptron(64)
    _fit(trained, X[:1000, :64], y[:1000], epochs=100)  # fewer leave it unsure of its answers
    net = _perceptron(65)
    with torch.no_grad():
        for own, known in ((net[0], trained[0]), (net[2], trained[2])):
            own.weight.zero_()
            own.bias.zero_()
            rows, columns = known.weight.shape
            own.weight[:rows, :columns] = known.weight
            own.bias[:rows] = known.bias
        net[0].weight[64, 64] = 1
    return Case(predict=net, X=X[1000:], y=y[1000:], codes=("BEH702",))


def _perceptron(width: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 10)
    )


@case("46 channels that can be removed")
def prunable(seed: int, healthy: bool) -> Case:
    """Half of the channels hardly matter for any prediction; the twin has only the channels that it
    needs."""
    torch.manual_seed(seed)
    X, y = _digits(seed)
    width = 10 if healthy else 48
    net = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, width), torch.nn.Tanh(), torch.nn.Linear(width, 10)
    )
    _fit(net, X[:1000], y[:1000], epochs=150)
    if not healthy:
        with torch.no_grad():
            net[3].weight[:, :24] *= 0.01
        _fit(net, X[:1000], y[:1000], epochs=2)
    return Case(predict=net, X=X[1000:], y=y[1000:], codes=("BEH703",))
