from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from tests.rules.windows import window

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import InputDistribution
from mothtrap.core.steps import Mode
from mothtrap.core.window import Window
from mothtrap.rules.eval_columns_differ import eval_columns_differ
from mothtrap.testing import RuleTests
from mothtrap.tracing.describe.layer_numbers import input_columns

TABLE = np.random.default_rng(0).normal(size=(400, 8))

LEVELS = TABLE + np.linspace(-2, 2, 8)


def look(
    step: int, table: np.ndarray, mode: Mode = Mode.TRAIN, windows: bool = False
) -> InputDistribution:
    return InputDistribution(
        step=step,
        mode=mode,
        module="Net",
        argument="x",
        rows=len(table),
        mean=float(table.mean()),
        std=float(table.std()),
        location="eval.py:3",
        **input_columns(table),
        windows=windows,
    )


def seen(
    *tables: np.ndarray, trained: np.ndarray = TABLE, rows: int = 100, windows: bool = False
) -> Window:
    train = [look(step, trained[step::4][:rows]) for step in range(4)]
    evaluated = [look(9, table, Mode.EVAL, windows=windows) for table in tables]
    return window(*train, *evaluated)


def with_columns(value: float, *columns: int, add: float = 0.0, scale: float = 0.0) -> np.ndarray:
    table = TABLE[300:].copy()
    table[:, columns] = value + add + scale * table[:, columns]
    return table


class TestEvalColumnsDiffer(RuleTests):
    rule = eval_columns_differ

    def sick(self) -> Iterable[Window]:
        yield seen(with_columns(0.0, 3))
        yield seen(with_columns(0.0, 0, 1, 2, 3, 4, 5, 6))
        yield seen(with_columns(-999.0, 3))
        yield seen(with_columns(0.0, 3), TABLE[:100], TABLE[:100])
        yield seen(with_columns(7.0, 3, scale=1.0))
        yield seen(with_columns(40.0, 3, scale=25.0))
        yield seen(LEVELS[300:] + 1.5, trained=LEVELS)
        yield seen(with_columns(40.0, 3, scale=25.0).reshape(20, 5, 8))

    def healthy(self) -> Iterable[Window]:
        yield seen(TABLE[300:])
        yield seen(with_columns(0.0, 3), *[TABLE[:100]] * 3)  # one of several evaluations
        yield seen(with_columns(0.7, 3))  # a coordinate or a time
        yield seen(with_columns(0.0, *range(8)))  # not a table of examples
        yield seen(with_columns(2.0, 3, scale=2.0))
        outlier = TABLE[300:].copy()
        outlier[50, 3] = 999.0
        yield seen(outlier)
        yield seen(TABLE[300:] + 1, trained=TABLE)  # a series at another level
        yield seen(LEVELS[300:] + 0.3, trained=LEVELS)
        yield seen(LEVELS[300:] + 9, trained=LEVELS)  # DAT509
        yield seen(LEVELS[300:] + np.linspace(0, 2, 8), trained=LEVELS)
        yield seen(with_columns(9.0, 0, 1, 2, 3, 4, scale=1.0))  # the whole table: DAT509
        yield seen(with_columns(7.0, 3, scale=1.0), windows=True)
        sparse = (TABLE > 0.5).astype(float)
        yield seen(np.where(np.arange(8) == 3, 0.0, sparse[300:]), trained=sparse)
        yield seen(with_columns(0.0, 3)[:, :4], trained=TABLE[:, :4])
        yield seen(with_columns(0.0, 3)[:20])
        yield seen(with_columns(0.0, 3), rows=10)


def test_says_which_columns_differ_and_what_to_do() -> None:
    [finding] = eval_columns_differ().check(seen(with_columns(0.0, 1, 3)))
    assert finding.message.startswith(
        "2 of 8 columns of argument x of Net are a constant in evaluation, but not in training "
        "(columns 1, 3, from 0): column 1 has mean 0 and standard deviation 0 in evaluation"
    )
    assert (finding.step, finding.mode, finding.location) == (9, "eval", "eval.py:3")
    assert finding.fixes[0].startswith("Build the columns of both tables")
    [finding] = eval_columns_differ().check(seen(with_columns(7.0, 3, scale=1.0)))
    assert "on another scale in evaluation" in finding.message
    assert finding.fixes[0].startswith("Scale each column")


def test_says_what_is_missing() -> None:
    with pytest.raises(NotApplicable, match="at least 6 columns"):
        eval_columns_differ().check(window())
    with pytest.raises(NotEnoughData, match="fewer than 64 rows"):
        eval_columns_differ().check(seen(with_columns(0.0, 3)[:20]))


def test_images_and_wide_tables_have_no_columns() -> None:
    assert input_columns(np.ones((4, 3, 8, 8))) == {}
    assert input_columns(np.ones((4, 300))) == {}
    assert input_columns(np.full((4, 3), np.nan)) == {}
