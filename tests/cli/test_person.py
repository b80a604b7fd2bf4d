"""A person answers samples at a terminal; here standard input replaces the person."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from mothtrap.cli._person import ask
from mothtrap.core.asked_samples import Asked, AskedSample, Metric, PersonScore


def answered(
    typed: str, targets: tuple[str, ...], *, metric: Metric = "accuracy"
) -> tuple[PersonScore | None, str]:
    """Type answers to samples with these targets; return the score and the output."""
    samples = tuple(
        AskedSample(index=n, text=f"values {n}", target=target) for n, target in enumerate(targets)
    )
    answers = ("0", "1") if metric == "accuracy" else ("-1", "3")
    asked = Asked(
        dataset="Digits", role="evaluation", metric=metric, answers=answers, samples=samples
    )
    found: list[PersonScore | None] = []

    @click.command()
    def command() -> None:
        found.append(ask(asked))

    outcome = CliRunner().invoke(command, input=typed, catch_exceptions=False)
    return found[0], outcome.stderr


def test_the_accuracy_of_the_answers_is_the_score() -> None:
    score, told = answered("0\n1\n1\n", ("0", "1", "0"))
    assert score is not None
    assert score.score == pytest.approx(2 / 3)
    assert score.samples == 3
    assert "it is 0 (row 2)" in told
    assert "Answer with one of 0, 1." in told


def test_an_answer_that_is_no_class_is_asked_for_again() -> None:
    score, told = answered("cat\n0\n", ("0",))
    assert score is not None
    assert score.score == 1.0
    assert "'cat' is not a possible answer" in told


def test_skipped_samples_do_not_count_and_q_ends() -> None:
    score, _ = answered("\n1\nq\n", ("0", "1", "1"))
    assert score is not None
    assert (score.score, score.samples) == (1.0, 1)


def test_no_answer_gives_no_score() -> None:
    score, told = answered("", ("0", "1"))
    assert score is None
    assert "there is no score" in told


def test_the_score_of_numbers_is_that_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    score, _ = answered("1.5\nx\n2\n-1\n", ("1.0", "2.5", "-0.5"), metric="R2")
    assert score is not None
    assert score.score == pytest.approx(metrics.r2_score([1.0, 2.5, -0.5], [1.5, 2.0, -1.0]))
