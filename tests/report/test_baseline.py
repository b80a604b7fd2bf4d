"""Findings that are known, in a file."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.report.faulty_run import HandMadeRun, exploding

from mothtrap.core.errors import ConfigError
from mothtrap.core.findings import Severity
from mothtrap.report.baseline import read_baseline, write_baseline
from mothtrap.report.summary import summarize
from mothtrap.report.verdict import verdict

WARNING = exploding(severity=Severity.WARNING, fingerprint="aaaa")
OTHER = exploding(code="NUM001", name="nonfinite_loss", fingerprint="bbbb", step=90)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    assert write_baseline(tmp_path / "known.json", [WARNING]) == 1
    return tmp_path / "known.json"


def test_what_is_known_is_no_longer_told(file: Path) -> None:
    summary = summarize(
        HandMadeRun(findings=(WARNING, OTHER)),  # type: ignore[arg-type]
        {},
        baseline=read_baseline(file),
    )
    assert [finding.code for finding in summary.findings] == ["NUM001"]
    assert summary.known == 1
    assert "1 known finding hidden" in verdict(summary)
    assert summary.verdict.startswith("Non-finite loss")


def test_what_became_worse_is_told_again(file: Path) -> None:
    baseline = read_baseline(file)
    assert baseline.holds(WARNING)
    assert baseline.holds(msgspec.structs.replace(WARNING, severity=Severity.INFO, step=3))
    assert not baseline.holds(msgspec.structs.replace(WARNING, severity=Severity.ERROR))
    assert not baseline.holds(OTHER)


def test_a_baseline_is_the_same_file_whatever_the_order_and_has_names_for_the_reader(
    tmp_path: Path,
) -> None:
    write_baseline(tmp_path / "a.json", [WARNING, OTHER])
    write_baseline(tmp_path / "b.json", [OTHER, WARNING])
    text = (tmp_path / "a.json").read_text()
    assert text == (tmp_path / "b.json").read_text()
    assert '"name": "nonfinite_loss"' in text
    assert text.endswith("}\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read the baseline .*--save-baseline"),
        ("{", "is not a baseline"),
        ("[]", "is not a baseline"),
        ('{"version": 9}', "a baseline of version 9; this mothtrap reads 1"),
    ],
)
def test_what_is_no_baseline_is_named(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "x.json").write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_baseline(tmp_path / "x.json")
