"""Values are written as source code that recreates them, or refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from mothtrap.adapters.torch.origin.source_rendering import (
    NotRenderableError,
    SourceRenderer,
    defines_only,
)


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ((1, "a", None, ...), "(1, 'a', None, Ellipsis, )"),
        ({"rate": float("nan")}, "{'rate': float('nan')}"),
        ([-float("inf"), 0.5], "[float('-inf'), 0.5, ]"),
        (torch.float16, "torch.float16"),
        (torch.Size([2, 3]), "torch.Size([2, 3])"),
        (nn.functional.relu, "torch.nn.functional.relu"),
        (slice(1, 5, None), "slice(1, 5, None)"),
    ],
)
def test_values_are_told_as_they_are_written(value: object, source: str) -> None:
    assert SourceRenderer().of(value) == source


def test_tensors_are_named_and_kept_beside() -> None:
    renderer, x = SourceRenderer(), torch.tensor([1.0, 2.0], requires_grad=True)
    assert renderer.of([x, x]) == (
        "[tensor('a0', torch.float32, requires_grad=True), "
        "tensor('a0', torch.float32, requires_grad=True), ]"
    )
    assert renderer.arrays["a0"].tolist() == [1.0, 2.0]


def test_what_numpy_has_no_type_for_is_kept_as_integers() -> None:
    renderer, x = SourceRenderer(), torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    assert renderer.of(x) == "tensor('a0', torch.bfloat16)"
    kept = renderer.arrays["a0"]
    assert kept.dtype == np.int16
    assert torch.equal(torch.from_numpy(kept).view(torch.bfloat16), x)


def test_a_module_is_rendered_with_its_weights_and_parts() -> None:
    renderer = SourceRenderer()
    source = renderer.of(nn.Sequential(nn.Linear(1, 2, bias=False), nn.ReLU()).eval())
    assert source.startswith(
        "built(torch.nn.modules.container.Sequential, False, {}, {}, {}, {'0': "
    )
    assert "{'weight': tensor('a0', torch.float32, requires_grad=True), 'bias': None}" in source
    assert {"torch.nn.modules.container", "torch.nn.modules.linear"} <= renderer.imports


@pytest.mark.parametrize(
    "value", [lambda: 1, object(), SimpleNamespace(), torch.ones(2).to_sparse()]
)
def test_what_cannot_be_written_is_refused(value: object) -> None:
    with pytest.raises(NotRenderableError):
        SourceRenderer().of(value)


@pytest.mark.parametrize(
    ("source", "safe"),
    [
        (
            "import torch\nLIMIT = 3\nif __name__ == '__main__':\n    train(LIMIT)\n",
            True,
        ),
        (
            '"""A script."""\nclass Model:\n    pass\nif "__main__" == __name__:\n    Model()\n',
            True,
        ),
        ("def f():\n    pass\nf()\n", False),
        ("model = make()\n", False),
        ("if __name__ == '__main__':\n    pass\nelse:\n    train()\n", False),
        ("for step in range(3):\n    pass\n", False),
        ("def broken(:\n", False),
    ],
)
def test_a_script_is_imported_only_if_that_defines_things_alone(
    source: str, safe: bool, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(source, encoding="utf-8")
    assert defines_only(script) is safe
