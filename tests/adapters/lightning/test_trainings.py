"""Records of a Lightning training: phases, settings, names, code lines, its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightning.pytorch")

from lightning import pytorch as pl
from tests.adapters.lightning import modules
from tests.adapters.lightning.modules import Net, fit

from mothtrap.adapters.lightning import ADAPTER
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.trainers import LossNotReturned, TrainerSettings, TrainingPhase
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.steps import Mode
from mothtrap.testing.adapters import Process

SOURCE = Path(modules.__file__).read_text().splitlines()


def watched(kind: str = "plain", **settings: Any) -> Process:
    process = Process("torch")
    with process.watched(ADAPTER):
        fit(kind, **settings)
    process.recorder.finish(WorkerEnded(step=24, steps=24, own_s=0.0, wall_s=1.0))
    return process


def facts(process: Process, kind: type[Any]) -> list[Any]:
    return [fact for fact in process.facts() if isinstance(fact, kind)]


def numbers(process: Process, name: str) -> list[float]:
    train = [record for record in process.records if record.key.mode is Mode.TRAIN]
    return [s.value for record in train for s in record.scalars if s.name == name]


def test_phases_are_told_apart() -> None:
    process = watched(max_epochs=2, then="predict")
    seen = [(fact.step, fact.phase, fact.epoch) for fact in facts(process, TrainingPhase)]
    assert seen == [
        (0, "sanity_check", None),
        (0, "", None),
        (0, "train", 0),
        (8, "validation", 0),
        (8, "train", 0),
        (8, "train", 1),
        (16, "validation", 1),
        (16, "train", 1),
        (16, "", None),
        (16, "predict", None),
        (16, "", None),
    ]


def test_steps_that_return_no_loss_are_told() -> None:
    [fact] = facts(watched("nothing"), LossNotReturned)
    assert (fact.model, fact.calls) == ("Net", 20)
    assert "modules.py:" in fact.location
    assert facts(watched(), LossNotReturned) == []
    assert facts(watched("manual"), LossNotReturned) == []


def test_the_sanity_check_is_no_evaluation() -> None:
    seen = facts(watched(max_epochs=2), Evaluation)
    assert [fact.step for fact in seen] == [8, 16]
    assert [fact.rows for fact in seen] == [32, 32]


def test_what_users_set_by_hand_stays() -> None:
    process = Process("torch")
    process.job.asked_mode = Mode.PREDICT
    with process.watched(ADAPTER):
        fit(max_epochs=1)
    assert process.job.asked_mode is Mode.PREDICT


def test_an_exception_ends_the_phase() -> None:
    class Breaks(Net):
        def validation_step(self, batch: Any, _: int) -> None:
            raise ValueError("broken on purpose")

    process = Process("torch")
    with process.watched(ADAPTER):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(modules, "Net", Breaks)
            with pytest.raises(ValueError, match="on purpose"):
                fit()
        assert process.job.asked_mode is None
        fit(max_epochs=1)
    assert len(process.steps()) == 8


def test_settings_are_facts() -> None:
    (plain,) = facts(watched(max_epochs=1), TrainerSettings)
    assert (plain.trainer, plain.model, plain.epochs) == ("Trainer of Lightning", "Net", 1)
    assert (plain.accumulates, plain.clips, plain.precision) == (1, None, "32-true")
    (clipped,) = facts(
        watched("clipped", accumulate_grad_batches=2, gradient_clip_algorithm="value"),
        TrainerSettings,
    )
    assert (clipped.accumulates, clipped.clips, clipped.clips_by) == (2, 0.5, "value")


def test_what_is_logged_is_recorded_under_its_name() -> None:
    process = watched(max_epochs=2, then="test")
    assert numbers(process, "train_loss") == pytest.approx(numbers(process, "loss"))
    assert len(numbers(process, "val_loss")) == 2
    assert len(numbers(process, "test_loss")) == 1


def test_a_closure_of_micro_batches_has_the_whole_loss() -> None:
    process = watched("accumulation", max_epochs=1)
    logged = numbers(process, "train_loss")
    means = [sum(logged[i : i + 4]) / 4 for i in (0, 4)]
    assert len(logged) == 8
    assert numbers(process, "loss")[:2] == pytest.approx(means)
    assert numbers(process, "micro_batches") == [4, 4]


@pytest.mark.parametrize("kind", ["plain", "accumulation", "bf16", "manual"])
def test_losses_are_placed_in_training_step(kind: str) -> None:
    (series,) = facts(watched(kind, max_epochs=1), LossSeries)
    line = int(series.location.rpartition(":")[2])
    assert SOURCE[line - 1].strip().endswith("# the loss of training")


def test_training_can_be_ended() -> None:
    process = Process("torch")

    class Ends(pl.Callback):
        def on_train_batch_end(self, *_: Any) -> None:
            if len(process.steps()) == 4:
                assert handle.stop("enough")

    with process.watched(ADAPTER) as handle:
        fit(callbacks=[Ends()])
    assert len(process.steps()) < 24


def test_users_callbacks_and_history_are_those_without(tmp_path: Path) -> None:
    plain = fitted_with_callbacks(tmp_path / "without")
    process = Process("torch")
    with process.watched(ADAPTER):
        seen = fitted_with_callbacks(tmp_path / "with")
    assert seen == plain
    order, epochs, _ = plain
    assert order[:2] == ["first 1", "second 1"]
    assert 1 < epochs < 12


def fitted_with_callbacks(folder: Path) -> tuple[list[str], int, str]:
    """Return the callback calls in order, the epochs until early stopping, and the log."""
    order: list[str] = []

    class Tells(pl.Callback):
        def __init__(self, name: str) -> None:
            self.name = name

        @property
        def state_key(self) -> str:
            return self.name

        def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
            order.append(f"{self.name} {trainer.global_step}")

    stops = pl.callbacks.EarlyStopping("val_loss", patience=1, min_delta=0.5)
    logger = pl.loggers.CSVLogger(folder)
    fit(callbacks=[Tells("first"), stops, Tells("second")], logger=logger, max_epochs=12)
    (log,) = folder.rglob("metrics.csv")
    return order, len(order) // 16, log.read_text()


def test_nothing_is_added_to_the_users_objects() -> None:
    kept: dict[str, Any] = {}

    class Looks(pl.Callback):
        def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
            kept["callbacks"] = [type(each).__module__ for each in trainer.callbacks]
            kept["module"] = list(vars(module))

    watched(max_epochs=1, callbacks=[Looks()])
    assert not [name for name in kept["callbacks"] + kept["module"] if "mothtrap" in name]
