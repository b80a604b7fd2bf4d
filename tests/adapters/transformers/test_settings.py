"""Settings of the Trainer of Hugging Face, and its datasets, are recorded."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")

from tests.adapters.transformers.training import Numbers, Regression, train

from mothtrap.adapters.transformers import ADAPTER
from mothtrap.core.facts.data import RowsShared
from mothtrap.core.facts.epochs import MetricWatched
from mothtrap.core.facts.trainers import TrainerSettings
from mothtrap.testing.adapters import Process


def facts(kind: type[Any], **settings: Any) -> list[Any]:
    process = Process("torch")
    with process.watched(ADAPTER):
        train(**settings)
    return [fact for fact in process.facts() if isinstance(fact, kind)]


def test_steps_batches_and_warm_up() -> None:
    [seen] = facts(TrainerSettings, warmup_steps=500)
    assert (seen.batches, seen.total_steps, seen.warm_up) == (8, 16, 500)


def test_an_evaluation_of_the_training_dataset() -> None:
    seen = facts(RowsShared, data=Numbers(), model=Regression(), eval_strategy="epoch")
    [shared] = [one for one in seen if one.source == "eval_dataset"]
    assert (shared.shared, shared.eval_rows, shared.own_dataset) == (64, 64, True)
    assert not [one for one in facts(RowsShared) if one.source == "eval_dataset"]


def test_the_metric_of_the_best_model() -> None:
    best: dict[str, Any] = {
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "load_best_model_at_end": True,
    }
    [watched] = facts(
        MetricWatched, metric_for_best_model="eval_loss", greater_is_better=True, **best
    )
    assert (watched.metric, watched.direction, watched.restores) == ("loss", "max", True)
    assert facts(MetricWatched) == []
