"""Curves of an explainable boosting machine are edited, judged, and saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mothtrap.behavior.asked_report import ProbeReport
from mothtrap.behavior.probing import run_probes
from mothtrap.behavior.subjects import make_subject
from mothtrap.behavior.term_edits import TermEdits
from mothtrap.core.errors import ConfigError, UnknownNameError
from mothtrap.session.asked_models import wrapped

interpret = pytest.importorskip("interpret.glassbox")

KINDS = np.array(["flat", "house", "boat"])


def homes(count: int, seed: int) -> tuple[Any, Any]:
    """Prices that rise with the size; the dearest homes were entered without a price."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"size": rng.uniform(20, 200, count), "kind": KINDS[rng.integers(0, 3, count)]}
    )
    y = 3 * X["size"].to_numpy() + 20 * (X.kind == "house").to_numpy() + rng.normal(0, 20, count)
    return X, y


@pytest.fixture(scope="module")
def model() -> Any:
    X, y = homes(1500, 0)
    y = np.where(X["size"] > 170, 0.0, y)  # the fault
    made = interpret.ExplainableBoostingRegressor(
        interactions=0, outer_bags=1, max_rounds=300, n_jobs=1, random_state=0
    )
    return made.fit(X, y)


def report_of(model: Any) -> ProbeReport:
    X, y = homes(1500, 1)
    found = wrapped(model)
    subject, everything = make_subject(found.predict, X, y)
    return ProbeReport(subject, everything, run_probes(subject, [], everything), None)


def test_a_curve_that_must_rise_is_edited_and_judged(model: Any) -> None:
    edits, before = TermEdits(model), np.array(model.term_scores_[0])
    assert edits.terms == ("size", "kind")
    edits.monotonize("size", "+")
    assert (np.diff(edits.model.term_scores_[0][1:-1]) >= -1e-9).all()
    assert np.array_equal(model.term_scores_[0], before)  # the given model is as it was
    patch = report_of(model).patch(edits.change)
    assert patch.after < patch.before
    assert edits.figure("size")["data"]["values"]


def test_an_edit_that_harms_is_refused(model: Any) -> None:
    edits = TermEdits(model)
    edits.set("size", 0.0, low=20, high=60)
    assert not report_of(model).patch(edits.change).accepted
    edits.undo()
    assert edits.edits == []
    assert np.array_equal(edits.model.term_scores_[0], model.term_scores_[0])


def test_saved_edits_give_the_same_model(model: Any, tmp_path: Path) -> None:
    X, _ = homes(50, 2)
    edits = TermEdits(model)
    edits.smooth("size", 5)
    edits.set("kind", 1.5, level="boat")
    edits.save(tmp_path / "edits.json")
    again = TermEdits.load(model, tmp_path / "edits.json")
    assert again.edits == edits.edits
    assert np.array_equal(again.change(X), edits.change(X))
    assert not np.array_equal(model.predict(X), edits.change(X))


def test_wrong_names_and_other_models_are_refused(model: Any, tmp_path: Path) -> None:
    edits = TermEdits(model)
    with pytest.raises(UnknownNameError, match="no term 'sise'"):
        edits.smooth("sise")
    with pytest.raises(ConfigError, match="categories"):
        edits.monotonize("kind", "+")
    with pytest.raises(ConfigError, match="no terms to edit"):
        TermEdits(object())
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ConfigError, match="no edits"):
        TermEdits.load(model, tmp_path / "bad.json")
