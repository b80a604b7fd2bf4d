"""The adapter of Accelerate passes the suite that every adapter passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import pytest

accelerate = pytest.importorskip("accelerate")

from tests.adapters.accelerate.loops import SETTINGS, train, weights  # noqa: E402

from mothtrap.adapters.accelerate import ADAPTER  # noqa: E402
from mothtrap.core.facts.losses import LossSeries  # noqa: E402
from mothtrap.core.facts.trainers import TrainerSettings  # noqa: E402
from mothtrap.testing import AdapterTests  # noqa: E402
from mothtrap.testing.adapters import Process  # noqa: E402


@pytest.mark.smoke
class TestAccelerate(AdapterTests):
    adapter = ADAPTER
    steps = 16
    replaced: ClassVar = (accelerate.Accelerator, accelerate.data_loader.DataLoaderShard)

    def train(self) -> bytes:
        return weights(train())

    def reported(self) -> Sequence[Callable[[], object]]:
        return [train]


@pytest.mark.parametrize("kind", SETTINGS)
def test_weights_are_bit_identical_and_settings_are_facts(kind: str) -> None:
    plain = weights(train(kind))
    process = Process("torch")
    with process.watched(ADAPTER):
        watched = weights(train(kind))
    assert watched == plain
    accumulates = SETTINGS[kind].get("gradient_accumulation_steps", 1)
    assert len(process.steps()) == 16 // accumulates
    (settings,) = [fact for fact in process.facts() if isinstance(fact, TrainerSettings)]
    assert settings.accumulates == accumulates
    assert settings.precision == SETTINGS[kind].get("mixed_precision", "no")
    assert settings.model == "Sequential"
    (series,) = [fact for fact in process.facts() if isinstance(fact, LossSeries)]
    assert series.location is not None
    assert "loops.py:" in series.location
    logged = [s for record in process.records for s in record.scalars if s.name == "my_loss"]
    assert len(logged) == 16
