"""A category that the model lacks is named, where another model is right."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.behavior.asking import labels, outcome, people, sure, suspicions

from mothtrap.behavior.probes import simple_is_right
from mothtrap.behavior.probes.simple_is_right import SimpleIsRight
from mothtrap.behavior.segments import Candidate, Literal, Segment
from mothtrap.behavior.table import Table

X = people(3000)


def test_the_missing_category_is_named() -> None:
    y = np.where(X.kind == "c", 1 - labels(X, 0.05), labels(X, 0.05))
    found = outcome(SimpleIsRight(), lambda d: sure(d, 0.95), X, y)
    (finding,) = found.findings
    assert finding.evidence["segment"] == "kind = c"
    assert found.rows[finding.fingerprint].tolist() == np.flatnonzero(X.kind == "c").tolist()


def test_a_part_of_a_segment_is_not_named_again(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Segment((Literal("kind", level="c"),))
    part = Segment((*whole.literals, Literal("x1", low=0.0)))
    y = np.where(X.kind == "c", 1 - labels(X, 0.05), labels(X, 0.05))
    found = [Candidate(one, one.mask(Table(X)), 9.0, 1.0) for one in (whole, part)]
    monkeypatch.setattr(simple_is_right, "search", lambda *_, **__: found)
    (named,) = suspicions(SimpleIsRight(), lambda d: sure(d, 0.95), X, y)
    assert named.segment == whole


def test_rows_that_are_hard_for_all_are_fine() -> None:
    y = labels(X, np.where(X.kind == "c", 0.5, 0.05))
    assert outcome(SimpleIsRight(), sure, X, y).findings == ()


def test_numbers_are_compared_too() -> None:
    def lacks(d: pd.DataFrame) -> np.ndarray:
        return 2 * d.x0.to_numpy()

    y = lacks(X) + 4 * (X.kind == "a").to_numpy() + np.random.default_rng(0).normal(0, 0.3, 3000)
    (finding,) = outcome(SimpleIsRight(), lacks, X, y).findings
    assert finding.evidence["segment"] == "kind = a"
