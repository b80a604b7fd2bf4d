"""No code for PyTorch reads a tensor in a way that leaves a lasting change in it.

`Tensor.numpy`, which numpy itself calls for a tensor, permanently prevents its storage from being
resized. A buffer that grows later would end the training.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.test_house import SOURCE, files, named, plant, whole

MARKING = {"numpy", "__array__", "__dlpack__", "share_memory_", "share_memory"}
"""Methods of tensors and storages that change what can be done with their memory."""
CONVERTING = {f"numpy.{name}" for name in ("array", "asarray", "asanyarray", "ascontiguousarray")}
OF_NUMPY = {
    "adapters/torch/job/randomness.py": {"state"},
    "adapters/torch/comparing_runs/seeding.py": {"state[:WORDS]", "words"},
    "adapters/torch/origin/source_rendering.py": {"value"},
    "adapters/torch/recording/copies.py": {"array"},
    "adapters/torch/recording/generators.py": {"words"},
    "adapters/_models/torch/__init__.py": {"rows", "_values(rows)"},
    "adapters/torch/checking/explicit.py": {"losses"},
    "adapters/torch/checking/loader_sets.py": {"value"},
    "adapters/torch/checking/recorded_step.py": {"losses"},
    "adapters/torch/checking/trees.py": {"array"},
    "adapters/torch/data/rescaled_rows.py": {
        "values_E[::step][:VALUES]",
        "change.scales",
        "change.shifts",
    },
    "adapters/torch/checking/stored_samples.py": {"row"},
    "adapters/torch/recording/variables.py": {"flat[::max(1, array.size // count)]"},
    "adapters/torch/replaying/fitting.py": {"found", "recorded"},
    "adapters/torch/snapshots/copying.py": {"values"},
    "adapters/torch/data/samplers.py": {"values"},
    "statistics/torch/multi_tensor.py": {"pieces"},
    "statistics/torch/pieces.py": {"pieces.owners"},
    "statistics/torch/raw.py": {"pieces"},
}
"""Expressions that are numpy arrays or lists of numbers, and not tensors."""
OF_TORCH = {"on_torch", "transformers", "accelerate", "lightning"}
"""Files outside the folders `torch` that handle PyTorch tensors."""


def marking_offences(source: Path) -> list[str]:
    """Return calls that mark a tensor, or pass numpy what may be one."""
    return [
        f"{path}:{line} marks a tensor: {text}; statistics.torch.in_place.as_array reads it"
        for path, tree in files(source)
        if {"torch", *OF_TORCH} & {*path.parent.parts, path.stem}
        for line, text in _marks(tree, OF_NUMPY.get(path.as_posix(), set()))
    ]


def _marks(tree: ast.Module, of_numpy: set[str]) -> Iterator[tuple[int, str]]:
    names = dict(named(tree))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        given = node.args[0] if node.args else None
        may_be_tensor = (
            isinstance(given, ast.Name | ast.Attribute | ast.Subscript)
            and ast.unparse(given) not in of_numpy
        )
        if node.func.attr in MARKING or (whole(node.func, names) in CONVERTING and may_be_tensor):
            yield node.lineno, ast.unparse(node)


def test_no_tensor_of_the_user_is_marked() -> None:
    assert marking_offences(SOURCE) == []


@pytest.mark.parametrize(
    "text",
    [
        "def f(tensor):\n    return tensor.detach().numpy()",
        "import numpy as np\ndef f(tensor):\n    return np.asarray(tensor)",
        "import numpy\ndef f(found):\n    return numpy.array(found.values, float)",
        "def f(tensor):\n    tensor.untyped_storage().share_memory_()",
        "def f(tensor):\n    return tensor.__array__()",
    ],
)
@pytest.mark.parametrize("file", ["adapters/torch/bad.py", "adapters/keras/on_torch.py"])
def test_marking_check_sees_a_planted_call(tmp_path: Path, file: str, text: str) -> None:
    plant(tmp_path, file, text)
    assert len(marking_offences(tmp_path)) == 1


def test_marking_check_allows_what_it_should(tmp_path: Path) -> None:
    plant(tmp_path, "statistics/torch/good.py", "import numpy as np\nx = np.array([1, 2])\n")
    plant(tmp_path, "adapters/jax/good.py", "def f(array):\n    return array.numpy()\n")
    assert marking_offences(tmp_path) == []
