"""The examples of docs/analysis.md run one after the other, exactly as printed there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.reader.runs import closing, evaluation, info, raw, write_worker
from tests.store.records import record

from mothtrap.core.records import Scalar
from mothtrap.core.runs import RunEnd
from mothtrap.core.tensors import TensorInfo
from mothtrap.store import layout

PAGE = Path(__file__).parents[2] / "docs" / "analysis.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
NAME = "blocks.0.attn.q.weight"
TENSORS = (
    TensorInfo(kind="weight", name=NAME, module="blocks.0.attn.q", shape=(2, 2), dtype="float32"),
    TensorInfo(kind="gradient", name=NAME, module="blocks.0.attn.q", shape=(2, 2)),
    TensorInfo(kind="metric", name=f"exponents(gradient:{NAME})", shape=(2, 64), dtype="int64"),
)


def write_run(folder: Path) -> None:
    values = raw((0, np.arange(4, dtype=np.float32).reshape(2, 2)))
    scalars = (Scalar("loss", "main", 1.0), Scalar("lr", "adam", 0.1))
    attempt = layout.create_run(folder, info())
    write_worker(
        attempt,
        record(0, tensors=2, defined=tuple(enumerate(TENSORS)), scalars=scalars),
        *(record(step, tensors=2, scalars=scalars) for step in range(1, 96)),
        record(96, tensors=2, scalars=scalars, raw=(raw((2, np.eye(2, 64, dtype=np.int64))),)),
        *(record(step, tensors=2, scalars=scalars) for step in range(97, 99)),
        *(evaluation(99, forward, tensors=2) for forward in range(5)),
        record(99, tensors=2, scalars=scalars),
        record(100, tensors=2, scalars=scalars, raw=(values,)),
        closing(101),
    )
    layout.write_end(attempt, RunEnd(exit_code=0, ended_s=1.0))


def test_every_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    write_run(tmp_path / "runs" / "x")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    assert len(EXAMPLES) >= 8
    for example in EXAMPLES:
        exec(compile(example, PAGE.name, "exec"), names)
    assert np.array_equal(names["values"], np.arange(4, dtype=np.float32).reshape(2, 2))
