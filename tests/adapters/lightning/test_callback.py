"""`mothtrap.LightningCallback` watches one training in a script that starts itself."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("lightning.pytorch")

from tests.adapters.lightning.modules import fit, weights

import mothtrap
from mothtrap.core.facts.trainers import TrainerSettings, TrainingPhase


@pytest.mark.parametrize("kind", ["plain", "accumulation", "manual"])
def test_one_line_makes_a_run(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plain = weights(fit(kind))
    callback = mothtrap.LightningCallback(name="one")
    assert weights(fit(kind, callbacks=[callback])) == plain
    run = mothtrap.open_run(tmp_path / "runs" / "one")
    assert run.steps == (6 if kind == "accumulation" else 24)
    (logged,) = run.scalars("train_loss")
    assert len(logged.steps_S) == 24
    losses = run.scalars("loss", mode="train")
    assert [len(series.steps_S) for series in losses] == ([] if kind == "manual" else [run.steps])
    (settings,) = run.observations(TrainerSettings)
    assert settings.model == "Net"
    epochs = [each.epoch for each in run.observations(TrainingPhase) if each.phase == "train"]
    assert sorted(set(epochs)) == [0, 1, 2]
    assert weights(fit(kind)) == plain


def test_what_ends_the_training_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    from lightning import pytorch as pl

    class Breaks(pl.Callback):
        def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
            if trainer.global_step == 5:
                raise ValueError("broken on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        fit(callbacks=[mothtrap.LightningCallback(name="broken"), Breaks()])
    assert mothtrap.open_run(tmp_path / "runs" / "broken").steps == 5
