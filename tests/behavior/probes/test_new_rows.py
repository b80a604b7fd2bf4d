"""BEH602 to BEH605: findings about new rows, each with a healthy twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.behavior.asking import labels, people, sure

from mothtrap.behavior.installed_probes import selected
from mothtrap.behavior.probe import Suspicion
from mothtrap.behavior.probing import run_probes
from mothtrap.behavior.subjects import Request, make_subject
from mothtrap.core.errors import ConfigError
from mothtrap.core.findings import RuleState

X = people(3000)


def found(code: str, new: Any, y: Any = None, model: Any = sure) -> list[Suspicion]:
    subject, _ = make_subject(model, X, labels(X, 0.12) if y is None else y, None, Request(), new)
    (probe,) = selected([code])
    return list(probe.look(subject))


def test_a_weak_segment_that_grew_is_named_with_the_error_to_expect() -> None:
    y = labels(X, np.where(X.kind == "c", 0.5, 0.1))
    new = people(2000, seed=1)
    assert not found("BEH602", new, y)
    new.loc[new.index % 2 == 0, "kind"] = "c"
    (one,) = found("BEH602", new, y)
    assert one.rows.tolist() == np.flatnonzero(new.kind == "c").tolist()
    assert "the weak segment kind = c has 63.6 % of the new rows" in one.message


def test_unseen_categories_ranges_gaps_and_constants_are_named() -> None:
    new = people(1000, seed=1)
    assert not found("BEH603", new)
    new.loc[:29, "kind"] = "z"
    new.loc[100:139, "age"] = 999
    new.loc[200:239, "x1"] = np.nan
    new["x2"] = 0.0
    texts = {each.features[0]: each for each in found("BEH603", new)}
    assert texts["kind"].rows.tolist() == list(range(30))
    assert "such as 999" in texts["age"].message
    assert "no value of x1" in texts["x1"].message
    assert "the same x2" in texts["x2"].message


def test_some_values_of_a_skewed_column_in_another_unit_are_named() -> None:
    """Incomes in thousands are within 10 % of the range of the others, but far below all."""
    rng = np.random.default_rng(2)
    before = X.assign(income=rng.lognormal(10, 0.8, len(X)))
    new = people(1000, seed=1).assign(income=rng.lognormal(10, 0.8, 1000))
    subject, _ = make_subject(sure, before, labels(before, 0.1), None, Request(), new)
    assert not list(selected(["BEH603"])[0].look(subject))
    new.loc[:39, "income"] /= 1000
    subject, _ = make_subject(sure, before, labels(before, 0.1), None, Request(), new)
    (one,) = selected(["BEH603"])[0].look(subject)
    assert one.rows.tolist() == list(range(40))


def test_a_column_in_which_new_values_are_usual_is_quiet() -> None:
    before, new = people(3000), people(1000, seed=1)
    before["name"] = [f"n{i}" for i in range(3000)]
    new["name"] = [f"m{i}" for i in range(1000)]
    subject, _ = make_subject(sure, before, labels(before, 0.1), None, Request(), new)
    assert not list(selected(["BEH603"])[0].look(subject))


def test_rows_from_another_source_are_named_and_heavy_tails_are_not() -> None:
    rng = np.random.default_rng(0)
    columns = list("abcde")

    def model(rows: pd.DataFrame) -> Any:
        return rows[columns].sum(axis=1).to_numpy()

    usual, new = (pd.DataFrame(rng.normal(size=(n, 5)), columns=columns) for n in (3000, 2000))
    new.iloc[:60] += rng.choice([-4.0, 4.0], (60, 5))
    subject, _ = make_subject(model, usual, model(usual) + 0.1, None, Request(), new)
    (one,) = selected(["BEH604"])[0].look(subject)
    assert set(range(60)) <= set(one.rows.tolist())
    assert len(one.rows) < 70
    for seed in range(3):
        tails = np.random.default_rng(seed)
        usual, new = (
            pd.DataFrame(tails.standard_t(3, (n, 5)), columns=columns) for n in (3000, 2000)
        )
        subject, _ = make_subject(model, usual, model(usual) + 0.1, None, Request(), new)
        assert not list(selected(["BEH604"])[0].look(subject))


def probability(rows: pd.DataFrame) -> Any:
    return 1 / (1 + np.exp(-2 * rows.x0.to_numpy()))


def drawn(rows: pd.DataFrame, shift: float, seed: int = 0) -> Any:
    share_R = 1 / (1 + np.exp(-2 * rows.x0.to_numpy() - shift))
    return (np.random.default_rng(seed).random(len(rows)) < share_R).astype(int)


def test_a_loss_that_rose_is_named_with_the_recalibration_that_helps() -> None:
    new = people(2000, seed=1)
    assert not found("BEH605", (new, drawn(new, 0.0, 1)), drawn(X, 0.0), probability)
    (one,) = found("BEH605", (new, drawn(new, 2.0, 1)), drawn(X, 0.0), probability)
    assert one.evidence["recalibration_helps"] is True
    assert "a recalibration lowers the loss" in one.message
    assert one.fixes[0].startswith("Recalibrate")


def test_outputs_off_their_level_are_named_where_the_loss_hardly_rose() -> None:
    new = people(2000, seed=1)

    def weak(rows: pd.DataFrame) -> Any:
        return 1 / (1 + np.exp(-0.5 * rows.x0.to_numpy()))

    def drawn_from(rows: pd.DataFrame, shift: float) -> Any:
        odds_R = np.exp(0.5 * rows.x0.to_numpy() + shift)
        return (np.random.default_rng(1).random(len(rows)) < odds_R / (1 + odds_R)).astype(int)

    before = drawn_from(X, 0.0)
    assert not found("BEH605", (new, drawn_from(new, 0.0)), before, weak)
    (one,) = found("BEH605", (new, drawn_from(new, 1.0)), before, weak)
    assert one.evidence["value"] < 1.1 * one.evidence["reference"]  # type: ignore[operator]
    assert "a recalibration lowers the loss" in one.message


def test_a_recalibration_that_does_not_help_is_not_advised() -> None:
    new = people(2000, seed=1)
    y = np.random.default_rng(0).integers(0, 2, 2000)
    y = np.where(new.x0 * new.x1 > 0, drawn(new, 0.0, 1), 1 - drawn(new, 0.0, 1))
    (one,) = found("BEH605", (new, y), drawn(X, 0.0), probability)
    numbers = people(2000, seed=2)
    wrong = numbers.x0 + 3 * np.sin(9 * numbers.x1)
    (other,) = found("BEH605", (numbers, wrong), X.x0 + 0.1, lambda rows: rows.x0.to_numpy())
    assert other.evidence["recalibration_helps"] is False
    assert other.fixes == ()
    assert one.evidence["value"] > one.evidence["reference"]  # type: ignore[operator]


def test_rows_that_do_not_fit_are_refused_in_words() -> None:
    with pytest.raises(ConfigError, match="the new rows have no column 'age'"):
        found("BEH601", X.drop(columns="age"))
    with pytest.raises(ConfigError, match="3,000 new rows, but 5 targets"):
        found("BEH601", (X, np.zeros(5)))


def test_without_new_rows_these_probes_do_not_apply() -> None:
    subject, everything = make_subject(sure, X, labels(X, 0.1))
    outcome = run_probes(subject, selected(["BEH6"]), everything)
    assert {status.state for status in outcome.statuses} == {RuleState.NOT_APPLICABLE}
    assert "new=" in outcome.statuses[0].reason
