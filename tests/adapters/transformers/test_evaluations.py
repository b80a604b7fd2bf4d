"""The metrics of the evaluations of a Trainer, by the name and line of the script's function."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import pytest

transformers = pytest.importorskip("transformers")

from tests.adapters.transformers.training import Sentences, gpt2  # noqa: E402

from mothtrap.adapters.transformers import ADAPTER  # noqa: E402
from mothtrap.core.facts.epochs import EpochMetrics  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def accuracy(given: Any) -> dict[str, float]:
    logits, labels = given
    return {"accuracy": float((np.argmax(logits, axis=-1) == labels).mean())}


def test_each_evaluation_of_a_training_is_told() -> None:
    process = Process("torch")
    with tempfile.TemporaryDirectory() as folder, process.watched(ADAPTER):
        settings = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=32,
            num_train_epochs=2,
            eval_strategy="epoch",
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        rows = {"train_dataset": Sentences(), "eval_dataset": Sentences(32)}
        trainer = transformers.Trainer(gpt2(), settings, **rows, compute_metrics=accuracy)
        trainer.train()
        trainer.evaluate()  # after the training: no epoch
    every = [one for one in process.facts() if isinstance(one, EpochMetrics)]
    assert [(one.epoch, one.step) for one in every] == [(0, 2), (1, 4)]
    assert set(every[0].held_out) == {"loss", "accuracy"}
    assert set(every[0].values) == {"loss"}
    assert every[0].higher_is_better == ("accuracy",)
    assert every[0].lower_is_better == ("loss",)
    assert "test_evaluations.py" in (every[0].location or "")
