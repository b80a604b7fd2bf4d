"""The examples run under mothtrap, and the requested tensors are captured and displayed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.harness.running import MOTHTRAP, environment, ready

import mothtrap
from mothtrap.web.pictures import pictures_of

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")

EXAMPLES = Path(__file__).parents[1] / "examples"


def ran(name: str, folder: Path) -> tuple[mothtrap.Run, float]:
    """Return the run of one epoch, and the share of scans read right after it."""
    ready()
    shutil.copytree(EXAMPLES / name, folder / name)
    command = [*MOTHTRAP, "run", "--name", "x", "--runs-dir", "..", "train.py", "--epochs", "1"]
    done = subprocess.run(
        command, cwd=folder / name, env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    [right] = re.findall(r"(\d+)% of 64", done.stdout)
    return mothtrap.open_run(folder / "x"), int(right) / 100


def test_class_activation_maps_are_captured_at_each_evaluation(tmp_path: Path) -> None:
    run, right = ran("class_activation", tmp_path)
    maps, [labels] = run.tensor("activation:maps"), run.tensors("label:*")
    [key] = maps.raw_keys(mode="eval")
    values = maps.at(key)
    assert pictures_of(maps.kind, values) == ["maps"]
    hits = values.mean(axis=(2, 3)).argmax(axis=1) == labels.at(key)
    assert round(float(hits.mean()), 2) == right
    assert pictures_of("weight", run.tensor("weight:features.0.weight").at(10)) == ["filters"]


def test_weights_of_attention_heads_are_captured_at_each_evaluation(tmp_path: Path) -> None:
    run, _ = ran("attention", tmp_path)
    for block in range(2):
        heads = run.tensor(f"activation:blocks.{block}.attention.1")
        [key] = heads.raw_keys(mode="eval")
        assert heads.at(key).shape == (64, 4, 17, 17)
        np.testing.assert_allclose(heads.at(key).sum(axis=-1), 1, rtol=1e-5)
        assert pictures_of(heads.kind, heads.at(key)) == ["attention"]
