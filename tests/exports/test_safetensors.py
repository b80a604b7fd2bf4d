"""Tensors kept whole are exported as safetensors files, bit for bit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.exports.stored import Array, block, gradient, info, train_step, weight

from mothtrap.core.errors import UnknownNameError
from mothtrap.core.tensors import TensorInfo
from mothtrap.exports import Choice, export_run
from mothtrap.exports.safetensors import FOREIGN
from mothtrap.reader.run import Run, open_run
from mothtrap.statistics.dtypes import HALF_COMPLEX, NAMES, dtype_of
from mothtrap.store import layout
from mothtrap.store.worker_log import WorkerLog


def header(path: Path) -> dict[str, Any]:
    """Return the header of a file: its length, then JSON."""
    data = path.read_bytes()
    found: dict[str, Any] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return found


def content(path: Path, name: str) -> bytes:
    """Return the bytes of a tensor, located by the header alone."""
    begin, end = header(path)[name]["data_offsets"]
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    return data[start + begin : start + end]


def test_every_step_with_tensors_is_a_file_with_the_same_bits(run: Run, tmp_path: Path) -> None:
    written = export_run(run, "safetensors", tmp_path / "out")
    assert written.counts == {"tensors": 10, "files": 5}
    assert sorted(str(p.relative_to(tmp_path / "out")) for p in tmp_path.rglob("*.*tensors")) == [
        *(f"w0/step-{step:08d}.safetensors" for step in (1, 3, 5)),
        *(f"w1/step-{step:08d}.safetensors" for step in (1, 3)),
    ]
    tensors = load_file(tmp_path / "out" / "w0" / "step-00000003.safetensors")
    bf16, f32 = tensors["weight:head.weight"], tensors["gradient:head.weight"]
    assert (bf16.dtype, f32.dtype) == (torch.bfloat16, torch.float32)
    assert bf16.view(torch.int16).numpy().tobytes() == weight(3).tobytes()
    assert f32.numpy().tobytes() == gradient(3).tobytes()
    assert f32.isnan().any()


def test_a_file_says_where_it_is_from(run: Run, tmp_path: Path) -> None:
    export_run(run, "safetensors", tmp_path / "out", Choice(begin=3, end=4))
    assert header(tmp_path / "out" / "w0" / "step-00000003.safetensors")["__metadata__"] == {
        "run": "digits",
        "attempt": "2",
        "worker": "0",
        "step": "3",
        "mode": "train",
        "mode_step": "3",
    }


def stored(path: Path, values: dict[str, Array]) -> Run:
    """Store a run that kept these tensors at step 0."""
    attempt = layout.create_run(path, info(path.name, 1))
    log = WorkerLog(layout.claim_worker(attempt)[1])
    defined = tuple((i, TensorInfo(kind="metric", name=name)) for i, name in enumerate(values))
    raw = (block(*enumerate(values.values())),)
    log.append([replace(train_step(0), defined=defined, raw=raw)])
    log.close()
    return open_run(path)


def test_types_come_back_as_they_were_and_foreign_ones_are_named(tmp_path: Path) -> None:
    bits = np.arange(48, dtype=np.uint8)
    values = {n: bits % 2 == 0 if n == "bool" else bits.view(dtype_of(n)) for n in NAMES}
    run = stored(tmp_path / "x", {**values, "empty": np.zeros((0, 3)), "one": np.array(7.0)})
    written = export_run(run, "safetensors", tmp_path / "out")
    path = tmp_path / "out" / "w0" / "step-00000000.safetensors"
    for name in values.keys() - FOREIGN:
        assert content(path, f"metric:{name}") == values[name].tobytes(), name
    assert header(path)["metric:empty"]["shape"] == [0, 3]
    assert header(path)["metric:one"]["shape"] == []
    assert len(written.left_out) == len(FOREIGN - {HALF_COMPLEX})
    assert "metric:complex128 is complex128, which safetensors does not have" in written.left_out


def test_damage_costs_the_tensor_alone_and_is_said(tmp_path: Path) -> None:
    run = stored(tmp_path / "x", {"a": np.full(3, 1.5), "b": np.full(3, 2.5)})
    [segment] = tmp_path.rglob("raw-*.arrow")
    segment.write_bytes(segment.read_bytes().replace(np.full(3, 1.5).tobytes(), b"\x01" * 24))
    written = export_run(run, "safetensors", tmp_path / "out")
    assert written.counts["tensors"] == 1
    assert "is damaged" in written.left_out[0]


def test_a_run_without_whole_tensors_is_an_error(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="no tensor of run digits matches 'x'"):
        export_run(run, "safetensors", tmp_path / "out", Choice(tensors="x"))
