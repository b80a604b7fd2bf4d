"""An evaluation of several batches has one loss: the one that the script prints."""

from __future__ import annotations

import numpy as np

from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.steps import Mode
from mothtrap.core.window import Series
from mothtrap.reader.run_record import last_values
from mothtrap.reader.series.step_values import evaluation_losses, step_values
from mothtrap.web.buckets import bad_bits, joined

STEPS = np.array([23, 23, 46, 46, 46], np.int64)
VALUES = np.array([1.0, 3.0, np.nan, 0.5, 0.1])


def evaluation(site: str, value: float, step: int = 46) -> Evaluation:
    return Evaluation(
        step=step, mode=Mode.EVAL, site=site, operation="cross_entropy", value=value, calls=3,
        rows=300, number=0, first=value, best=value, best_step=step,
    )  # fmt: skip


def test_a_step_has_the_mean_of_its_finite_rows_or_a_known_value() -> None:
    steps, values = step_values(STEPS, VALUES)
    assert steps.tolist() == [23, 46]
    assert values.tolist() == [2.0, 0.3]
    assert step_values(STEPS, VALUES, {46: 0.4})[1].tolist() == [2.0, 0.4]
    assert np.isnan(step_values(STEPS[:1], np.array([np.inf]))[1]).all()
    assert step_values(STEPS[:2], np.array([1e308, 1e308]))[1].tolist() == [1e308]
    assert not len(step_values(STEPS[:0], VALUES[:0])[0])


def test_the_loss_of_an_evaluation_counts_each_batch_by_its_rows() -> None:
    found = [evaluation("a.py:41", 0.428), evaluation("b.py:9", 7.0)]
    assert evaluation_losses(found, "a.py:41") == {46: 0.428}


def test_a_line_that_evaluates_two_data_sets_at_a_step_has_no_single_loss() -> None:
    from_one = evaluation("a.py:41 from a.py:60", 0.4)
    assert evaluation_losses([from_one], "a.py:41") == {46: 0.4}
    assert not evaluation_losses([from_one, evaluation("a.py:41 from a.py:61", 0.9)], "a.py:41")


def test_charts_and_tables_show_no_single_batch_as_the_loss_of_the_evaluation() -> None:
    """The last batch, smaller than the others, was once drawn as the evaluation loss."""
    series = Series(
        name="loss",
        of="a.py:41",
        mode=Mode.EVAL,
        steps_S=STEPS[[0, 1, 3, 4]],
        values_S=VALUES[[0, 1, 3, 4]],
    )
    assert last_values([series], [evaluation("a.py:41", 0.33)]) == {"eval/loss": 0.33}
    assert last_values([series]) == {"eval/loss": 0.3}
    drawn = joined(STEPS, VALUES, bad_bits(VALUES), 100, {46: 0.33})
    assert drawn.last_B.tolist() == [2.0, 0.33]
    assert drawn.max_B.tolist() == [3.0, 0.5]
