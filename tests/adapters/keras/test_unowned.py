"""Layers that are made anew, in a training run whose steps are not all observed in full."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from mothtrap.adapters.keras import layers  # noqa: E402
from mothtrap.adapters.keras.unowned import Unowned  # noqa: E402

pytestmark = pytest.mark.smoke


def look(*, described: bool) -> Any:
    """Return what is seen of a step that makes a new layer."""
    layer = keras.layers.Dense(2)
    layer.build((1, 3))
    layers.LOCATIONS[layer] = "train.py:5"
    call = SimpleNamespace(layer=layer, root=SimpleNamespace(variables=layer.variables))
    return SimpleNamespace(layers=[call] if described else [], watched=[])


def test_steps_in_which_no_layer_is_described_do_not_count() -> None:
    facts: list[Any] = []
    job: Any = SimpleNamespace(now=SimpleNamespace(step=0), fact=facts.append)
    unowned = Unowned(job)
    for step in range(60):
        unowned.step([look(described=step % 2 == 0)], lambda: ())
    [found] = facts
    assert (found.made_anew, found.reached_steps, found.location) == (23, 47, "train.py:5")
