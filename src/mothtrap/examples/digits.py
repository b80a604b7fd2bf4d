"""Classifies handwritten digits with a small convolutional network.

The data are scikit-learn's 1,797 scans of 8 x 8 pixels, which are part of its package. By default,
the model ends in a softmax, although the loss applies a softmax itself. It trains, but slowly and
badly. `--fixed` removes the softmax from the model.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

Examples = tuple[torch.Tensor, torch.Tensor]


def digits() -> tuple[Examples, Examples]:
    """Return (pixels, labels) for training and for testing.

    Pixels are float32 of shape (N, 1, 8, 8) in [0, 1], labels int64 of shape (N,).
    """
    scans = load_digits()
    train, test, train_labels, test_labels = train_test_split(
        scans.images / 16.0, scans.target, test_size=0.2, random_state=0, stratify=scans.target
    )

    def tensors(images: object, labels: object) -> Examples:
        pixels = torch.as_tensor(images, dtype=torch.float32).unsqueeze(1)
        return pixels, torch.as_tensor(labels, dtype=torch.int64)

    return tensors(train, train_labels), tensors(test, test_labels)


def network(*, fixed: bool) -> nn.Sequential:
    """Build the classifier; with `fixed` it returns logits, as the loss expects."""
    layers: list[nn.Module] = [
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 10),
    ]
    if not fixed:
        layers.append(nn.Softmax(dim=1))
    return nn.Sequential(*layers)


def accuracy(model: nn.Module, examples: Examples) -> float:
    """Return the share of digits that the model classifies correctly."""
    pixels, labels = examples
    model.eval()
    with torch.no_grad():
        right = (model(pixels).argmax(dim=1) == labels).float().mean()
    model.train()
    return float(right)


def train(model: nn.Module, examples: Examples, test: Examples, epochs: int) -> None:
    """Train with Adam and print the mean loss and the test accuracy of every epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_function = nn.CrossEntropyLoss()
    loader = DataLoader(TensorDataset(*examples), batch_size=64, shuffle=True)
    for epoch in range(1, epochs + 1):
        total = 0.0
        for pixels, labels in loader:
            optimizer.zero_grad()
            loss = loss_function(model(pixels), labels)
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(labels)
        mean = total / len(examples[0])
        print(f"epoch {epoch}: loss {mean:.3f}, test accuracy {accuracy(model, test):.1%}")


def main() -> None:
    """Parse the command line, train, and print how good the model is."""
    parser = argparse.ArgumentParser(description="Read handwritten digits.")
    parser.add_argument("--fixed", action="store_true", help="leave out the softmax")
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    # Such a small network gains nothing from threads, and becomes much slower if cores are shared.
    torch.set_num_threads(1)
    training, test = digits()
    train(network(fixed=arguments.fixed), training, test, arguments.epochs)


if __name__ == "__main__":
    main()
