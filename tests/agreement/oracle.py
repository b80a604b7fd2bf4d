"""Compute the facts of the batch with numpy: `python -m tests.agreement.oracle` writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from tests.agreement import batch

Facts = dict[str, Any]


def main() -> None:
    """Write `facts.json`."""
    stored = {kind: facts_of(kind) for kind in ("classes", "numbers")}
    target = Path(__file__).with_name("facts.json")
    target.write_text(json.dumps(stored, indent=1) + "\n")


def facts_of(kind: str) -> Facts:
    """Return every compared fact of a kind of training by name."""
    x, y = batch.data(kind)
    weights = [w.astype(np.float64) for w in (batch.W1, batch.B1, *batch.last_layer(kind))]
    x = x.astype(np.float64)
    inner, output = _forward(x, weights)
    found = {
        "InputDistribution.rows": len(x),
        "InputDistribution.mean": x.mean(),
        "InputDistribution.std": x.std(),
        "OutputSpread.shape": list(output.shape),
        "OutputSpread.spread": float(np.sqrt(output.var(axis=0).mean())),
        "OutputSpread.rms": _rms(output),
        "OutputSpread.largest": np.abs(output - output[0]).max(),
        "OptimizerFacts.learning_rate": batch.RATE,
        "OptimizerFacts.weight_decay": 0.0,
        "OptimizerFacts.momentum": 0.0,
        "OptimizerFacts.elements": sum(w.size for w in weights),
    }
    hidden = np.maximum(inner, 0)
    for place, (given, gave, weight) in enumerate(
        [(x, inner, weights[0]), (hidden, output, weights[2])]
    ):
        found |= {
            f"ForwardScales.{place}.input_rms": _rms(given),
            f"ForwardScales.{place}.output_rms": _rms(gave),
            f"ForwardScales.{place}.variance": gave.var(),
            f"ForwardScales.{place}.gain": _gain(weight),
            f"ForwardScales.{place}.fan_in": len(weight),
            f"ForwardScales.{place}.last": place == 1,
            f"InitialWeights.{place}.units": weight.shape[1],
            f"InitialWeights.{place}.fan_in": len(weight),
            f"InitialWeights.{place}.rms": _rms(weight),
            f"InitialWeights.{place}.std": weight.std(),
        }
    found |= _data_taken(x, weights[0]) | _loss_call(kind, output, y)
    found |= _evaluation(kind, x, y, weights)
    return {
        name: value.item() if hasattr(value, "item") else value for name, value in found.items()
    }


def _forward(x: np.ndarray, weights: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    inner = x @ weights[0] + weights[1]
    return inner, np.maximum(inner, 0) @ weights[2] + weights[3]


def _data_taken(x: np.ndarray, weight: np.ndarray) -> Facts:
    earlier = np.triu(np.abs(np.corrcoef(x.T)), 1)  # each column with those before it
    middle = np.sort(x, axis=0)[(len(x) - 1) // 2]
    nearest = earlier.argmax(axis=0)
    return {
        "DataTaken.rows": len(x),
        "DataTaken.features": x.shape[1],
        "DataTaken.mean": x.mean(),
        "DataTaken.std": x.std(),
        "DataTaken.smallest": x.min(),
        "DataTaken.largest": x.max(),
        "DataTaken.zeros": 0.0,
        "DataTaken.nonzero_rms": _rms(x),
        "DataTaken.gain": _gain(weight),
        "DataTaken.grid": False,
        "DataTaken.normalized": False,
        "DataTaken.feature_means": x.mean(axis=0).tolist(),
        "DataTaken.feature_stds": x.std(axis=0).tolist(),
        "DataTaken.feature_ties": (x == middle).mean(axis=0).tolist(),
        "DataTaken.partners": nearest.tolist(),
        "DataTaken.correlations": earlier.max(axis=0).tolist(),
    }


def _loss_call(kind: str, output: np.ndarray, y: np.ndarray) -> Facts:
    classes = kind == "classes"
    counts = np.bincount(y).tolist() if classes else None
    return {
        "LossCall.operation": "cross_entropy" if classes else "elementwise",
        "LossCall.chain": ["linear"],
        "LossCall.classes": batch.CLASSES if classes else None,
        "LossCall.prediction_shape": list(output.shape),
        "LossCall.reduction": "mean",
        "LossCall.label_counts": counts,
        "LossCall.prediction_spread": _softmax(output).std(axis=0).mean() if classes else None,
        "LossCall.alone": True,
        "TargetSample.count": y.size,
        "TargetSample.least": float(y.min()),
        "TargetSample.greatest": float(y.max()),
        "TargetSample.mean": float(y.astype(np.float64).mean()),
        "TargetSample.telling_columns": [3] if classes else [5],
        "TargetSample.columns": batch.FEATURES,
    }


def _evaluation(kind: str, x: np.ndarray, y: np.ndarray, weights: list[np.ndarray]) -> Facts:
    """Make one step of gradient descent, and evaluate the result."""
    inner, output = _forward(x, weights)
    hidden = np.maximum(inner, 0)
    if kind == "classes":
        wrong = (_softmax(output) - np.eye(batch.CLASSES)[y]) / len(x)
    else:
        wrong = 2 * (output - y) / output.size
    back = (wrong @ weights[2].T) * (inner > 0)
    gradients = [x.T @ back, back.sum(axis=0), hidden.T @ wrong, wrong.sum(axis=0)]
    stepped = [w - batch.RATE * g for w, g in zip(weights, gradients, strict=True)]
    _, output = _forward(x, stepped)
    if kind == "classes":
        share = np.bincount(y) / len(y)
        value = -np.log(_softmax(output)[np.arange(len(y)), y]).mean()
        guess = -(share * np.log(share)).sum()
    else:
        value, guess = np.square(output - y).mean(), y.astype(np.float64).var()
    return {
        "Evaluation.value": value,
        "Evaluation.rows": len(x),
        "Evaluation.guess": guess,
        "Evaluation.label_counts": np.bincount(y).tolist() if kind == "classes" else None,
    }


def _softmax(logits: np.ndarray) -> np.ndarray:
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponents / exponents.sum(axis=1, keepdims=True)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.square(values, dtype=np.float64).mean()))


def _gain(weight: np.ndarray) -> float:
    """Return the factor by which a layer scales inputs of mean 0."""
    return _rms(weight) * float(np.sqrt(len(weight)))


if __name__ == "__main__":
    main()
