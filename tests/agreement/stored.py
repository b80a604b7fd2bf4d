"""The facts that every framework reports of the batch, and where one may differ.

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
    "mxnet": {
        "ForwardScales": "not reported",
        "InputDistribution": "not reported",
        "DataTaken.gain": "the weight is read after the step",
        "Evaluation.value": "L2Loss is half of the squared error",
        "Evaluation.guess": "L2Loss is half of the squared error",
    },
    "keras": {
        "ForwardScales.0.output_rms": "a Dense layer gives its output behind its activation",
        "ForwardScales.0.variance": "a Dense layer gives its output behind its activation",
        "ForwardScales.0.gain": "the weight is read after the step",
        "ForwardScales.1.gain": "the weight is read after the step",
        "DataTaken.gain": "the weight is read after the step",
    },
    "jax": {
        "InputDistribution": "not reported",
        "ForwardScales.1.last": "not known of a traced program",
        "InitialWeights": "reported with an optimizer of optax only",
        "OptimizerFacts": "there is no optimizer object without optax",
        "OutputSpread": "not reported of a regression",
        "LossCall": "not reported of a loss that is no library call",
        "TargetSample": "not reported of a loss that is no library call",
        "Evaluation.rows": "an evaluation is one compiled call",
        "Evaluation.guess": "an evaluation is one compiled call",
        "Evaluation.label_counts": "an evaluation is one compiled call",
    },
}
"""By framework: the beginning of a name that may differ, and why."""


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
    """Compare the facts of a framework with the stored ones, but for its exceptions."""
    expected = json.loads(Path(__file__).with_name("facts.json").read_text())[kind]
    found = described(facts)
    known = EXCEPTIONS.get(framework, {})
    wrong = {
        name: (found.get(name, "no such fact"), value)
        for name, value in expected.items()
        if not any(name.startswith(one) for one in known)
        and not (name in found and _equal(found[name], value))
    }
    assert not wrong, "\n".join(f"{n}: {got}, stored {want}" for n, (got, want) in wrong.items())


def _take(found: dict[str, Any], name: str, fact: Any, fields: tuple[str, ...]) -> None:
    for field in fields:
        found[f"{name}.{field}"] = msgspec.to_builtins(getattr(fact, field))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        numbers = isinstance(one, int | float) and isinstance(other, int | float)
        return numbers and math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)
