"""Tests that `mothtrap check --as-test` writes."""

from __future__ import annotations

from typing import Any

import pytest

from mothtrap.core.facts.checks import CheckResult, LayerRow
from mothtrap.report.as_test import as_test
from mothtrap.testing import asserts

RESULTS = (
    CheckResult(step=9, code="PRE101", passed='the gradient reaches "all"'),
    CheckResult(step=9, code="PRE104", state="not_enough_data", reason="slow"),
    CheckResult(
        step=9,
        code="PRE501",
        passed="every layer is used",
        figures={"layers": 1.0, "parameters": 12.0},
        layers=(LayerRow(name="0", kind="Linear", parameters=12),),
    ),
)


def test_the_test_makes_the_checks_that_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(asserts, "assert_script_passes", lambda *a, **k: asked.append((a, k)))
    names: dict[str, Any] = {}
    exec(as_test(["python", "my train.py", "--x='1'"], RESULTS, 60.0), names)
    names["test_the_script_passes_its_checks"]()
    [(given, named)] = asked
    assert given == (["python", "my train.py", "--x='1'"], ["PRE101", "PRE501"])
    assert named == {"budget_s": 60, "layers": 1, "parameters": 12}
