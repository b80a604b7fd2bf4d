"""A planted segment is named, with its rows; hard rows are a note, and even noise is silent."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.behavior.asking import labels, outcome, people, subject_of, sure, suspicions

from mothtrap.behavior.gaps import is_known
from mothtrap.behavior.probes.weak_segment import WeakSegment
from mothtrap.behavior.segments import Mask
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity

X = people(4000)
PLANTED = ((X.age >= 60) & (X.kind == "b")).to_numpy()


def test_noisy_labels_in_a_segment_are_a_note_as_no_model_does_better() -> None:
    found = outcome(WeakSegment(), sure, X, labels(X, np.where(PLANTED, 0.4, 0.1)))
    (finding,) = found.findings
    assert finding.evidence["segment"] == "age >= 60 and kind = b"
    assert finding.severity is Severity.INFO
    assert "elsewhere" in finding.message
    assert found.rows[finding.fingerprint].tolist() == np.flatnonzero(PLANTED).tolist()


def test_a_segment_that_the_model_alone_gets_wrong_is_a_warning() -> None:
    def turned(d: pd.DataFrame) -> np.ndarray:
        right = sure(d)
        return np.where((d.kind == "c").to_numpy()[:, None], right[:, ::-1], right)

    (finding,) = outcome(WeakSegment(), turned, X, labels(X, 0.1)).findings
    assert finding.evidence["segment"] == "kind = c"
    assert finding.severity is Severity.WARNING
    assert finding.layers == ("input:kind",)
    assert finding.mode == "probe"


def test_part_of_a_segment_is_not_named_again() -> None:
    """A part may be named if it is much worse, and so may rows outside of the segment."""
    half, none = (X.x1 > 0).to_numpy(), np.zeros(len(X), bool)
    even = subject_of(sure, X, labels(X, np.where(PLANTED, 0.5, 0.1)))

    def known(subject: Subject, mask_R: Mask, taken_R: Mask) -> bool:
        return is_known(subject, subject.judged.error_R, mask_R, taken_R, 1.5)

    assert known(even, PLANTED & half, PLANTED)
    assert not known(even, PLANTED & half, none)
    assert not known(even, half, PLANTED)
    uneven = subject_of(sure, X, labels(X, np.where(PLANTED, np.where(half, 0.6, 0.1), 0.1)))
    assert not known(uneven, PLANTED & half, PLANTED)


def test_easy_rows_elsewhere_are_no_reason_where_segments_were_taken_out() -> None:
    """The errors that are left elsewhere are below 0: no share of wrong rows is."""
    few = people(300, seed=3)
    hard = ((few.x1 > 1) & (few.age < 50)).to_numpy() | (few.x2 > 1.2).to_numpy()
    for seed in range(8):
        y = labels(few, np.where(hard, 0.6, 0.01), seed)
        for finding in outcome(WeakSegment(), sure, few, y).findings:
            assert float(finding.evidence["reference"]) >= 0  # type: ignore[arg-type]
            assert "-" not in finding.message.split("wrong, elsewhere")[1].split(" %")[0]


def test_errors_of_numbers_are_searched_too() -> None:
    rng = np.random.default_rng(0)
    y = 3 * X.x0.to_numpy() + rng.normal(0, np.where(X.kind == "a", 4, 1))
    (finding,) = outcome(WeakSegment(), lambda d: 3 * d.x0.to_numpy(), X, y).findings
    assert finding.evidence["segment"] == "kind = a"


def test_the_loss_of_the_user_counts() -> None:
    y = labels(X, 0.1)
    late = (X.age >= 70).to_numpy()

    def by_row(scores: np.ndarray, target: np.ndarray) -> np.ndarray:
        return np.where(late[: len(target)], 5.0, 1.0)

    (first, *_) = suspicions(WeakSegment(), sure, X, y, loss=by_row)
    assert first.features == ("age",)


def test_even_noise_is_silent() -> None:
    assert outcome(WeakSegment(), sure, X, labels(X, 0.12)).findings == ()


def test_pictures_without_metadata_have_no_segments() -> None:
    with pytest.raises(NotApplicable, match="about="):
        suspicions(WeakSegment(), lambda a: a[:, 0, 0], np.ones((50, 3, 3)), np.ones(50) * 1.5)


def test_rows_that_are_hard_for_every_model_need_no_more_weight() -> None:
    """Noise in the labels cannot be learned; the advice is to look at them."""
    (finding,) = outcome(
        WeakSegment(), sure, X, labels(X, np.where(X.kind == "b", 0.4, 0.1))
    ).findings
    assert str(finding.severity) == "info"
    assert not any("weight" in fix for fix in finding.fixes)
