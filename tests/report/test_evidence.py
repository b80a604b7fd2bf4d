"""Evidence in the report: the curves that prove a finding, and the layers that findings name."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.web.evidence_runs import EXPLODING, VANISHING, make_evidence

from mothtrap.cli import main
from mothtrap.core.findings import Severity
from mothtrap.reader.run import open_run
from mothtrap.report.evidence import Evidence


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    make_evidence(tmp_path)
    return tmp_path


def test_a_vanishing_gradient_is_drawn_as_the_first_layer_against_the_last(runs: Path) -> None:
    charts = Evidence(open_run(runs / "vanish")).charts([VANISHING, EXPLODING])
    drawn = charts[VANISHING.fingerprint]
    assert drawn.count('class="line ') == 2
    assert "0.bias" in drawn
    assert "6.bias" in drawn
    assert "2.bias" not in drawn


def test_the_worst_layers_are_those_of_the_worst_finding_first(runs: Path) -> None:
    layers = Evidence(open_run(runs / "vanish")).worst_layers([VANISHING, EXPLODING])
    assert [(each.name, each.code, each.severity) for each in layers] == [
        ("0", "GRD102", Severity.ERROR),
        ("2", "GRD102", Severity.ERROR),
        ("6.bias", "GRD101", Severity.ERROR),
    ]
    assert [each.last for each in layers] == [1e-8, 1e-6, 1.0]


def test_a_healthy_run_has_neither(runs: Path) -> None:
    evidence = Evidence(open_run(runs / "quiet"))
    assert (evidence.charts([]), evidence.worst_layers([])) == ({}, ())


def test_the_report_has_both(runs: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    assert (
        CliRunner().invoke(main, ["report", str(runs / "vanish"), "-o", str(target)]).exit_code == 0
    )
    text = target.read_text(encoding="utf-8")
    assert "Worst layers" in text
    assert text.count('class="chart"') >= 2
    assert "first layer" in text
    assert "first_layer" not in text
