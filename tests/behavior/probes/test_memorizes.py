"""BEH401: a forest that memorized its rows is named, a linear model and drifted rows are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from tests.behavior.asking import outcome

from mothtrap.behavior.probes.memorizes import Memorizes, named_at
from mothtrap.core.findings import RuleState, Severity


def rows(count: int, seed: int, shift: float = 0.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 6))
    y = (X[:, 0] + X[:, 1] + rng.logistic(size=count) > 0).astype(int)
    return X + shift, y


def probed(model: Any, train: Any, held: Any) -> Any:
    model.fit(*train)
    return outcome(Memorizes(), model.predict_proba, *held, train=train)


def test_a_forest_of_pure_leaves_is_named() -> None:
    found = probed(RandomForestClassifier(50, random_state=0), rows(1500, 0), rows(1500, 1))
    (finding,) = found.findings
    assert finding.severity is Severity.WARNING
    assert finding.evidence["value"] > 0.7
    assert 0.6 < finding.evidence["at least"] < finding.evidence["value"]
    assert "an attacker who knows the targets" in finding.message


def test_losses_that_differ_on_the_whole_but_name_no_row_are_a_note() -> None:
    """One third of both groups has the smallest loss, so that no row stands out."""
    X, y = rows(1500, 0)
    held = rows(1500, 1)
    known = {row.tobytes() for row in X}

    def answers(asked: Any) -> Any:
        member_R = np.array([row.tobytes() in known for row in asked])
        first_R = np.sin(1e4 * asked[:, 5]) > 0.5
        target_R = np.array([truth[row.tobytes()] for row in asked])
        right = np.where(first_R, 1.0, np.where(member_R, 0.9, 0.7))
        return np.stack(
            [np.where(target_R, 1 - right, right), np.where(target_R, right, 1 - right)], 1
        )

    truth = {row.tobytes(): t for a, b in ((X, y), held) for row, t in zip(a, b, strict=True)}
    (finding,) = outcome(Memorizes(), answers, *held, train=(X, y)).findings
    assert finding.severity is Severity.INFO
    assert finding.evidence["named at 1 %"] == 0


def test_a_linear_model_is_quiet() -> None:
    found = probed(LogisticRegression(), rows(1500, 0), rows(1500, 1))
    assert not found.findings
    assert found.statuses[0].state is RuleState.OK


def test_rows_of_another_period_are_not_compared() -> None:
    found = probed(RandomForestClassifier(50, random_state=0), rows(800, 0), rows(800, 1, 1.0))
    assert found.statuses[0].state is RuleState.NOT_APPLICABLE
    assert "differ in their inputs (AUC" in found.statuses[0].reason


def test_few_rows_are_said() -> None:
    found = probed(LogisticRegression(), rows(100, 0), rows(100, 1))
    assert found.statuses[0].state is RuleState.NOT_ENOUGH_DATA


def test_two_unseen_halves_are_never_named() -> None:
    for seed in range(20):
        score = np.random.default_rng(seed).normal(size=3000)
        count, share = named_at(score[:1500], score[1500:])
        assert share == count / 1500
        assert share < 0.025


def test_images_are_compared_by_their_values() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 8, 8)), rng.integers(0, 2, 500)
    known = {row.tobytes(): target for row, target in zip(X[:250], y[:250], strict=True)}

    def recalls(images: Any) -> Any:
        one = np.array([0.1 + 0.8 * known.get(image.tobytes(), 0.5) for image in images])
        return np.stack([1 - one, one], axis=1)

    found = outcome(Memorizes(), recalls, X[250:], y[250:], train=(X[:250], y[:250]))
    assert [finding.code for finding in found.findings] == ["BEH401"]


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_rows_that_stand_out_are_counted(share: float) -> None:
    rng = np.random.default_rng(0)
    member, other = rng.normal(size=2000), rng.normal(size=2000)
    member[: int(2000 * share)] += 10
    assert named_at(member, other)[1] == pytest.approx(share + 0.01, abs=0.01)
