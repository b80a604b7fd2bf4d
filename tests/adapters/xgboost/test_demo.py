"""The program of `mothtrap demo --framework xgboost` has exactly the fault that it announces."""

from __future__ import annotations

import pytest

pytest.importorskip("xgboost")

from tests.adapters.boosted import watched

from mothtrap.adapters.xgboost import ADAPTER
from mothtrap.core.findings import Severity
from mothtrap.examples import churn_xgboost


@pytest.mark.parametrize("words", [(), ("--fixed",)])
def test_the_leak_is_named_and_then_nothing(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["churn_xgboost.py", *words])
    process, _ = watched(ADAPTER, churn_xgboost.main)
    found = [one.name for one in process.findings() if one.severity is not Severity.INFO]
    assert found == ([] if words else ["single_feature_dominates"])
