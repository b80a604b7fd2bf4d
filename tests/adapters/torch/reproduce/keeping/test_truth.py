from __future__ import annotations

import pytest
from tests.adapters.torch.watched import classifier, sgd, train, watched

from mothtrap.core.config import Config


@pytest.mark.parametrize("every", [0, 2])
def test_losses_of_earlier_steps_are_hashed_where_they_may_be_asked_for(every: int) -> None:
    """Only a step that is played from a base is told of afterwards."""
    model = classifier()
    with watched(capture=(), config=Config(snapshot_every=every)) as seen:
        train(model, sgd(model), 3)
        told = [seen.tracer.snapshots.truth.told(step) is not None for step in range(2)]
    assert told == [every > 0] * 2
