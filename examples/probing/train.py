"""Train a model of XGBoost, Keras, or PyTorch, and save it with its rows for `mothtrap probe`.

XGBoost predicts which customers leave. One of its columns is only known afterwards: what was paid
back. Keras and PyTorch read scikit-learn's 1,797 scans of handwritten digits.
"""

# ruff: noqa: T201
from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from safetensors.numpy import save_file


def make() -> Any:
    """Return the PyTorch module without its weights, for `--build train:make`."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1024, 10),
    )


def scans(channels_first: bool) -> dict[str, dict[str, np.ndarray]]:
    """Return images and digits by file: train and held."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    shape = (-1, 1, 8, 8) if channels_first else (-1, 8, 8, 1)
    X, y = (images / 16).astype(np.float32).reshape(shape), labels.astype(np.int64)
    order = np.random.default_rng(0).permutation(len(y))
    parts = {"train": order[:1000], "held": order[1000:]}
    return {name: {"X": X[rows].copy(), "y": y[rows]} for name, rows in parts.items()}


def torch_model() -> str:
    """Train and save a network of PyTorch; return the command that probes it."""
    import torch
    from safetensors.torch import save_file as save_weights

    torch.manual_seed(0)
    parts = scans(channels_first=True)
    net = make()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    inputs, targets = (torch.from_numpy(parts["train"][name]) for name in "Xy")
    for _ in range(10):
        for rows in torch.randperm(len(inputs)).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(inputs[rows]), targets[rows]).backward()
            optimizer.step()
    save_weights(net.state_dict(), "digits_weights.safetensors")
    _save(parts)
    return "--build train:make --weights digits_weights.safetensors held.safetensors --target y"


def keras_model() -> str:
    """Train and save a network of Keras; return the command that probes it."""
    import keras

    keras.utils.set_random_seed(0)
    parts = scans(channels_first=False)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy")
    model.fit(parts["train"]["X"], parts["train"]["y"], batch_size=64, epochs=10, verbose=0)
    model.save("digits.keras")
    _save(parts)
    return "digits.keras held.safetensors --target y"


def xgboost_model() -> str:
    """Train and save boosted trees of XGBoost; return the command that probes them."""
    import xgboost

    from mothtrap.examples.churn_xgboost import COLUMNS, make_customers

    customers, left = make_customers(8000)
    rows = xgboost.DMatrix(customers[:6000], left[:6000], feature_names=list(COLUMNS))
    trees = xgboost.train({"objective": "binary:logistic", "max_depth": 4}, rows, 60)
    trees.save_model("churn.ubj")
    table = np.column_stack([customers, left])
    for name, part in (("train", table[:6000]), ("held", table[6000:])):
        header = ",".join([*COLUMNS, "left"])
        np.savetxt(f"{name}.csv", part, fmt="%.7g", delimiter=",", header=header, comments="")
    return "churn.ubj held.csv --target left --train train.csv"


def _save(parts: dict[str, dict[str, np.ndarray]]) -> None:
    for name, arrays in parts.items():
        save_file(arrays, f"{name}.safetensors")


MODELS = {"xgboost": xgboost_model, "keras": keras_model, "torch": torch_model}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework", choices=MODELS)
    print("mothtrap probe", MODELS[parser.parse_args().framework]())
