"""The adapter of Lightning passes the suite that every adapter passes, in all its ways to train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

import pytest

pytest.importorskip("lightning.pytorch")

from lightning import pytorch as pl
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.trainer import call
from tests.adapters.lightning.modules import SETTINGS, fit, weights

from mothtrap.adapters.lightning import ADAPTER
from mothtrap.testing import AdapterTests
from mothtrap.testing.adapters import Process

pytestmark = pytest.mark.smoke


class TestLightning(AdapterTests):
    adapter = ADAPTER
    steps = 24
    replaced: ClassVar = (call, pl.LightningModule, pl.Trainer, LightningOptimizer)

    elsewhere: ClassVar = dict.fromkeys(
        ("MetricWatched", "OptimizerNeverStepped"), "tests/adapters/lightning/test_settings.py"
    )

    def train(self) -> bytes:
        return weights(fit())

    def reported(self) -> Sequence[Callable[[], object]]:
        return [self.train, partial(fit, then="predict"), partial(fit, "nothing")]


@pytest.mark.parametrize("kind", SETTINGS)
def test_weights_are_bit_identical(kind: str) -> None:
    plain = weights(fit(kind))
    process = Process("torch")
    with process.watched(ADAPTER):
        watched = weights(fit(kind))
    assert watched == plain
    assert len(process.steps()) == (6 if kind == "accumulation" else 24)
