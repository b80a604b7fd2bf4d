"""Confusion matrix and curves from labels and outputs that were captured whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.reader.runs import info, raw, write_worker
from tests.store.records import record

import mothtrap
from mothtrap.core.errors import StepUnavailableError
from mothtrap.core.tensors import TensorInfo
from mothtrap.store import layout

TENSORS = (
    TensorInfo(kind="label", name="loss", shape=(4,), dtype="int64"),
    TensorInfo(kind="output", name="head", shape=(4, 3), dtype="float32"),
    TensorInfo(kind="output", name="other", shape=(4, 3), dtype="float32"),
)


def test_predictions_join_the_moments_at_which_both_were_captured(tmp_path: Path) -> None:
    labels = {step: np.array([0, 1, 2, step % 3]) for step in range(3)}
    scores = {
        step: np.eye(3, dtype=np.float32)[(labels[step] + (step == 2)) % 3] for step in labels
    }
    attempt = layout.create_run(tmp_path / "x", info())
    write_worker(
        attempt,
        *(
            record(
                step,
                defined=tuple(enumerate(TENSORS)) if step == 0 else (),
                tensors=0,
                raw=(raw((0, labels[step]), *([(1, scores[step])] if step else [])),),
            )
            for step in range(3)
        ),
    )
    run = mothtrap.open_run(tmp_path / "x")
    found = run.predictions("label:loss", "output:head", mode="train")
    truth = np.concatenate([labels[1], labels[2]])
    guess = np.concatenate([labels[1], (labels[2] + 1) % 3])
    expected = np.zeros((3, 3), int)
    np.add.at(expected, (truth, guess), 1)
    assert np.array_equal(found.confusion, expected)
    with pytest.raises(StepUnavailableError, match="were never captured together in mode train"):
        run.predictions("label:loss", "output:other", mode="train")
    with pytest.raises(StepUnavailableError, match="at 0 and 0 moments"):
        run.predictions("label:loss", "output:head")
