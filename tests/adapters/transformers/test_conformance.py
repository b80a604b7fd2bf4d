"""The adapter of Hugging Face's Trainer passes the suite of every adapter; all its records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("transformers")

import torch
import transformers
from tests.adapters.transformers import training
from tests.adapters.transformers.training import SETTINGS, train, weights
from transformers import trainer_callback

from mothtrap.adapters.transformers import ADAPTER
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.trainers import TrainerSettings, TrainingPhase
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.findings import Finding
from mothtrap.core.steps import Mode
from mothtrap.rules.nonfinite_loss import NonfiniteLoss
from mothtrap.testing import AdapterTests
from mothtrap.testing.adapters import Process

SOURCE = Path(training.__file__).read_text().splitlines()


@pytest.mark.smoke
class TestTransformers(AdapterTests):
    adapter = ADAPTER
    steps = 16
    replaced: ClassVar = (
        trainer_callback.CallbackHandler,
        transformers.Trainer,
        transformers.DataCollatorForLanguageModeling,
    )
    elsewhere: ClassVar = {
        "EpochMetrics": "tests/adapters/transformers/test_evaluations.py",
        "LabelsReplaced": "tests/adapters/transformers/test_collators.py",
        "MetricWatched": "tests/adapters/transformers/test_settings.py",
        "UndividedLoss": "tests/adapters/transformers/test_undivided_loss.py",
    }

    def train(self) -> bytes:
        return weights(train().model)

    def reported(self) -> Sequence[Callable[[], object]]:
        return [partial(train, then="predict")]


def watched(kind: str = "plain", **settings: Any) -> tuple[Process, Any]:
    process = Process("torch")
    with process.watched(ADAPTER):
        one = train(kind, **settings)
    process.recorder.finish(WorkerEnded(step=99, steps=99, own_s=0.0, wall_s=1.0))
    return process, one


def facts(process: Process, kind: type[Any]) -> list[Any]:
    return [fact for fact in process.facts() if isinstance(fact, kind)]


def numbers(process: Process, name: str) -> list[float]:
    records = [record for record in process.records if record.key.mode is Mode.TRAIN]
    return [s.value for record in records for s in record.scalars if s.name == name]


@pytest.mark.parametrize("kind", SETTINGS)
def test_weights_and_history_are_those_without(kind: str) -> None:
    plain = train(kind)
    before = weights(plain.model)
    process, seen = watched(kind)
    assert weights(seen.model) == before
    accumulates = SETTINGS[kind].get("gradient_accumulation_steps", 1)
    assert len(process.steps()) == 16 // accumulates
    assert history(seen) == history(plain)


def history(one: transformers.Trainer) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in row.items() if "second" not in k and "runtime" not in k}
        for row in one.state.log_history
    ]


def test_users_callbacks_keep_their_order_and_stop_at_the_same_step() -> None:
    order: list[str] = []

    class Tells(transformers.TrainerCallback):
        def on_step_end(self, _: Any, state: Any, __: Any, **___: Any) -> None:
            order.append(f"{type(self).__name__} {state.global_step}")

    first, second = type("First", (Tells,), {}), type("Second", (Tells,), {})

    class Stopped(transformers.Trainer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            stops = transformers.EarlyStoppingCallback(1, early_stopping_threshold=0.5)
            super().__init__(*args, callbacks=[first(), stops, second()], **kwargs)

    settings = {"num_train_epochs": 12, "eval_strategy": "epoch", "learning_rate": 1e-3}
    given = {"trainer": Stopped, "metric_for_best_model": "eval_loss", **settings}
    train(**given)
    plain, _ = list(order), order.clear()
    watched(**given)
    assert order == plain
    assert plain[:2] == ["First 1", "Second 1"]
    assert 16 < len(plain) < 12 * 16


def test_phases_and_settings_are_facts() -> None:
    process, _ = watched(then="evaluate", num_train_epochs=1, eval_strategy="epoch")
    seen = [(fact.step, fact.phase, fact.epoch) for fact in facts(process, TrainingPhase)]
    assert seen == [
        (0, "train", 0),
        (8, "validation", 0),
        (8, "train", 0),
        (8, "", None),
        (8, "validation", None),
        (8, "", None),
    ]
    (settings,) = facts(process, TrainerSettings)
    assert settings.trainer == "Trainer of Hugging Face"
    assert (settings.model, settings.epochs, settings.steps) == ("GPT2LMHeadModel", 1, None)
    assert (settings.accumulates, settings.clips, settings.precision) == (1, 1.0, "float32")
    assert settings.replaces_nonfinite


def test_what_is_logged_is_recorded_under_its_name() -> None:
    process, one = watched(num_train_epochs=1, then="evaluate")
    rows = one.state.log_history
    assert numbers(process, "log.loss") == [row["loss"] for row in rows if "loss" in row]
    assert numbers(process, "eval_loss") == [r["eval_loss"] for r in rows if "eval_loss" in r]


def test_the_loss_is_placed_where_it_is_computed() -> None:
    process, _ = watched(model=training.Regression(), data=training.Numbers())
    (series,) = facts(process, LossSeries)
    assert line(series.location).endswith("# the loss of the model")


def test_compute_loss_of_the_user_is_the_place() -> None:
    class Own(transformers.Trainer):
        def compute_loss(self, model: Any, inputs: Any, **_: Any) -> Any:
            out = model(inputs["x"])["logits"]
            return (out - inputs["labels"]).square().mean()

    settings = {"model": training.Regression(), "data": training.Numbers()}
    process, _ = watched(trainer=Own, num_train_epochs=1, **settings)
    (series,) = facts(process, LossSeries)
    assert Path(series.location.rpartition(":")[0]).name == Path(__file__).name


def test_a_nan_that_the_trainer_hides_is_said() -> None:
    finding, one = nan_finding()
    logged = [row["loss"] for row in one.state.log_history if "loss" in row]
    assert not any(value != value for value in logged[: finding.step + 1])
    assert "logging_nan_inf_filter" in finding.message


def test_a_nan_that_the_trainer_shows_is_not_said_to_be_hidden() -> None:
    finding, _ = nan_finding(logging_nan_inf_filter=False)
    assert "logging_nan_inf_filter" not in finding.message


def nan_finding(**settings: Any) -> tuple[Finding, Any]:
    given = {"model": training.Regression(), "data": training.Numbers(bad=50)}
    process, one = watched(num_train_epochs=1, **given, **settings)
    found = process.findings()
    (finding,) = [each for each in found if each.code == NonfiniteLoss.code]
    return finding, one


def line(location: str) -> str:
    return SOURCE[int(location.rpartition(":")[2]) - 1].strip()


def test_training_can_be_ended() -> None:
    process = Process("torch")

    class Ends(transformers.TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            if len(process.steps()) == 4:
                assert handle.stop("enough")

    class Watched(transformers.Trainer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, callbacks=[Ends()], **kwargs)

    with process.watched(ADAPTER) as handle:
        train(trainer=Watched)
    assert len(process.steps()) == 5
    assert torch.is_grad_enabled()
