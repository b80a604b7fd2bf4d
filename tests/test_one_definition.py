"""Facts whose definition frameworks share are created in one place."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.syntax_trees import files, nodes
from tests.test_house import SOURCE, plant

SHARED = {
    "TargetOrder": "tracing/describe/target_order.py",
    "InitialWeights": "tracing/describe/weights.py",
    "IdenticalUnits": "tracing/describe/weights.py",
    "DataTaken": "tracing/describe/layers.py",
    "OutputSpread": "tracing/describe/layers.py",
    "StepGuarded": "tracing/guard.py",
    "LossCall": "tracing/describe/losses.py",
    "UnreadEnds": "tracing/describe/episode_ends.py",
}
"""Facts, and the file that creates them."""
ELSEWHERE = {
    "adapters/jax/losses.py": "labels of a compiled step may be unknown",
    "adapters/tensorflow/raw_losses.py": "only the shape of a written loss is known",
    "adapters/torch/losses/backwards.py": "read from the graph, on the device of the loss",
    "adapters/torch/losses/divergences.py": "read from the graph",
    "adapters/torch/losses/evaluated_predictions.py": "read on the device of the loss",
    "adapters/torch/losses/loss_arguments.py": "read on the device of the loss",
    "tracing/describe/differences.py": "only the shapes are known",
    "tracing/describe/paired_losses.py": "the labels are signs",
}
"""Files that create losses without arrays on the host, and the reasons."""


def made_elsewhere(source: Path) -> list[str]:
    """Return calls of a shared fact's class outside its file."""
    return [
        f"{path}:{node.lineno} makes {name}"
        for path, tree in files(source)
        for node in nodes(tree, ast.Call)
        for name in [getattr(node.func, "id", getattr(node.func, "attr", ""))]
        if name in SHARED and path.as_posix() != SHARED[name]
        if name != "LossCall" or path.as_posix() not in ELSEWHERE
    ]


def test_shared_facts_are_made_in_their_file_only() -> None:
    assert made_elsewhere(SOURCE) == []


@pytest.mark.parametrize(
    "text", ["StepGuarded(step=1)", "layers.InitialWeights(step=1)", "LossCall()"]
)
def test_the_check_sees_a_planted_fact(tmp_path: Path, text: str) -> None:
    plant(tmp_path, "tracing/guard.py", "StepGuarded(step=1)")
    plant(tmp_path, "adapters/bad.py", text)
    assert len(made_elsewhere(tmp_path)) == 1
