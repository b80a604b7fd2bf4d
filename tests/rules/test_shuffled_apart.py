from __future__ import annotations

import numpy as np
import pytest
from tests.rules.windows import loss, window

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.pipelines import ShuffledApart as Seen
from mothtrap.core.findings import Severity
from mothtrap.rules.shuffled_apart import shuffled_apart


def test_a_pipeline_that_shuffles_inputs_and_labels_apart() -> None:
    [finding] = shuffled_apart().check(window(loss(np.ones(40)), Seen(step=0, location="t.py:9")))
    assert (finding.severity, finding.step, finding.location) == (Severity.ERROR, 0, "t.py:9")


def test_stays_quiet() -> None:
    assert shuffled_apart().check(window(loss(np.ones(40)))) == []
    with pytest.raises(NotEnoughData):
        shuffled_apart().check(window())
