"""The comparison with the stored facts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agreement import golden

from mothtrap.core.facts.data import InputDistribution


def seen(mean: float) -> InputDistribution:
    return InputDistribution(
        step=0, module="model", argument="input", rows=4, mean=mean, std=1.0, location="a.py:3"
    )


def test_a_changed_fact_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden, "FOLDER", tmp_path)
    monkeypatch.setenv("GOLDEN", "write")
    golden.assert_unchanged("torch", "classes", [seen(0.5)])
    monkeypatch.delenv("GOLDEN")
    golden.assert_unchanged("torch", "classes", [seen(0.5)])
    with pytest.raises(AssertionError, match=r"InputDistribution of step 0: mean is 0\.7"):
        golden.assert_unchanged("torch", "classes", [seen(0.7)])
    with pytest.raises(AssertionError, match="fact 1, InputDistribution"):
        golden.assert_unchanged("torch", "classes", [seen(0.5), seen(0.5)])
