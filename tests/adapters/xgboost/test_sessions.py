"""An XGBoost session stores in its run which rules apply."""

from __future__ import annotations

from pathlib import Path

import pytest

xgboost = pytest.importorskip("xgboost")

from tests.adapters.xgboost.tables import EVALS, PARAMS, TRAIN  # noqa: E402
from tests.harness.running import show  # noqa: E402

import mothtrap  # noqa: E402


def states(folder: Path, **options: object) -> dict[str, tuple[str, str]]:
    with mothtrap.watch(TRAIN, name="seen", runs_dir=str(folder), overhead=0.0) as dbg:
        xgboost.train(PARAMS, TRAIN, 30, verbose_eval=False, **options)
    assert dbg.path is not None
    record = show(dbg.path, cwd=folder)
    return {rule["name"]: (rule["state"], rule["reason"]) for rule in record["rules"]}


def test_with_evals_rules_on_rounds_judge_and_those_on_networks_do_not_apply(
    tmp_path: Path,
) -> None:
    found = states(tmp_path, evals=EVALS)
    for name in ("nonfinite_loss", "loss_diverging", "overfit", "train_eval_overlap"):
        assert found[name][0] in ("ok", "warning"), (name, found[name])
    for name in ("stopped_too_late", "leaf_explosion", "boosting_rate_too_high"):
        assert found[name][0] == "ok", (name, found[name])
    for name in ("exploding_gradient", "dead_units", "unused_module", "learning_rate_zero"):
        state, reason = found[name]
        assert state == "not_applicable", (name, state, reason)
        assert "with xgboost" in reason


def test_without_evals_the_reason_is_told(tmp_path: Path) -> None:
    found = states(tmp_path)
    for name in ("overfit", "loss_not_decreasing", "stopped_too_late"):
        state, reason = found[name]
        assert state == "not_applicable", (name, state, reason)
        assert reason.startswith("no evals"), reason
