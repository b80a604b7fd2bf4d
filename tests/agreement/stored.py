"""The facts that every framework reports of the batch, and the permitted differences.

`facts.json` holds one number for each name, written by `python -m tests.agreement.oracle`, which
computes them with numpy alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from mothtrap.core.fact import Fact

KINDS = ("classes", "numbers")
"""A classification and a regression."""
TOLERANCE = 1e-5

FIELDS: dict[str, tuple[str, ...]] = {
    "InputDistribution": ("rows", "mean", "std"),
    "DataTaken": (
        *("rows", "features", "mean", "std", "smallest", "largest", "zeros", "nonzero_rms"),
        *("gain", "grid", "normalized", "feature_means", "feature_stds", "feature_ties"),
        *("partners", "correlations"),
    ),
    "OutputSpread": ("shape", "spread", "rms", "largest"),
    "InitialWeights": ("units", "fan_in", "rms", "std"),
    "OptimizerFacts": ("learning_rate", "weight_decay", "momentum", "elements"),
    "LossCall": (
        *("operation", "chain", "classes", "prediction_shape", "reduction", "label_counts"),
        *("prediction_spread", "alone"),
    ),
    "TargetSample": ("count", "least", "greatest", "mean", "telling_columns", "columns"),
    "Evaluation": ("value", "rows", "guess", "label_counts"),
}
"""Fields that are compared, of the first fact of each kind (`InitialWeights`: of each layer)."""
LAYER_FIELDS = ("input_rms", "output_rms", "variance", "gain", "fan_in", "last")
"""Fields of each layer of `ForwardScales`."""

EXCEPTIONS: dict[str, dict[str, str]] = {
    "mxnet": {"InputDistribution": "not reported"},
    "jax": {
        "InputDistribution": "the batch is one argument among others",
        "InitialWeights": "an array does not say which of its axes holds the units",
        "OptimizerFacts": "optax keeps its settings inside of functions",
        "LossCall": "a traced difference does not say how a loss is reduced",
        "TargetSample": "a traced difference does not say which argument is the target",
        "Evaluation.rows": "an evaluation is one compiled call",
        "Evaluation.guess": "an evaluation is one compiled call",
        "Evaluation.label_counts": "an evaluation is one compiled call",
    },
}
"""By framework: the prefix of a name that may differ, and the reason."""


def described(facts: Iterable[Fact]) -> dict[str, Any]:
    """Return the compared fields by name, such as `DataTaken.mean` or `ForwardScales.0.gain`."""
    found: dict[str, Any] = {}
    weights = 0
    for fact in facts:
        kind = type(fact).__name__
        if kind == "ForwardScales" and "ForwardScales.0.gain" not in found:
            for place, layer in enumerate(fact.layers):
                _take(found, f"ForwardScales.{place}", layer, LAYER_FIELDS)
        elif kind == "InitialWeights":
            _take(found, f"InitialWeights.{weights}", fact, FIELDS[kind])
            weights += 1
        elif kind in FIELDS and not any(name.startswith(f"{kind}.") for name in found):
            _take(found, kind, fact, FIELDS[kind])
            if kind == "LossCall" and fact.targets is not None:
                _take(found, "TargetSample", fact.targets, FIELDS["TargetSample"])
    return found


def assert_agrees(framework: str, kind: str, facts: Iterable[Fact]) -> None:
    """Compare the facts of a framework with the stored ones, except for permitted differences."""
    expected = json.loads(Path(__file__).with_name("facts.json").read_text())[kind]
    found = described(facts)
    known = EXCEPTIONS.get(framework, {})
    wrong = {
        name: (found.get(name, "no such fact"), value)
        for name, value in expected.items()
        if not any(name.startswith(one) for one in known)
        and not (name in found and equal(found[name], value))
    }
    assert not wrong, "\n".join(f"{n}: {got}, stored {want}" for n, (got, want) in wrong.items())


def _take(found: dict[str, Any], name: str, fact: Any, fields: tuple[str, ...]) -> None:
    for field in fields:
        found[f"{name}.{field}"] = msgspec.to_builtins(getattr(fact, field))


def equal(one: Any, other: Any) -> bool:
    """Compare two values; numbers may differ by the tolerance."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    if isinstance(one, float) or isinstance(other, float):
        numbers = isinstance(one, int | float) and isinstance(other, int | float)
        return numbers and math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)
