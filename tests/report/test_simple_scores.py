"""A run is compared with the simple models that a check of its script fitted."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.stored_run import store_run

from mothtrap.cli import main
from mothtrap.core.facts.checks import CheckResult
from mothtrap.core.facts.epochs import EpochMetrics
from mothtrap.core.runs import RunKind
from mothtrap.reader.run import open_run
from mothtrap.report.simple_scores import scores_in_words, simple_scores

FITTED = CheckResult(
    step=10,
    code="PRE401",
    figures={"dummy accuracy": 0.1, "linear accuracy": 0.86, "rows of evaluation": 200.0},
)
EPOCHS = tuple(
    EpochMetrics(step=n, fit="train.py:3", epoch=n, held_out={"accuracy": value, "loss": 1.0})
    for n, value in enumerate((0.5, 0.81, 0.79))
)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with an old check, a check without scores, and the latest check."""
    older = CheckResult(step=10, code="PRE401", figures={"linear accuracy": 0.5})
    for number, fact in enumerate((older, FITTED, CheckResult(step=10, code="PRE401"))):
        name = f"check-{number}"
        store_run(tmp_path / name, created_s=number + 1.0, kind=RunKind.CHECK, facts=(fact,))
    return tmp_path


def test_the_best_epoch_stands_beside_the_latest_scores(runs: Path) -> None:
    store_run(runs / "trained", facts=EPOCHS)
    found = simple_scores(open_run(runs / "trained"))
    assert found is not None
    assert (found.check, found.own, found.rows) == ("check-1", 0.81, 200)
    assert scores_in_words(found) == "val_accuracy 0.810; a linear model has 0.860 (check check-1)"


def test_a_run_that_reports_no_score_gets_the_scores_to_beat(runs: Path) -> None:
    store_run(runs / "trained")
    result = CliRunner().invoke(main, ["show", str(runs / "trained")])
    assert result.exit_code == 0, result.output
    told = " ".join(result.output.split())
    assert "score: simple models have accuracy dummy 0.100, linear 0.860 (check check-1)" in told


def test_a_check_of_another_script_says_nothing(runs: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "others"
    store_run(elsewhere / "trained")
    assert simple_scores(open_run(elsewhere / "trained")) is None


def test_a_check_is_not_compared(runs: Path) -> None:
    assert simple_scores(open_run(runs / "check-1")) is None
