"""Gradient norms of the layers over the steps, in the report."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.web.evidence_runs import NORMS, STEPS, make_evidence
from tests.web.made_runs import MadeRun

from mothtrap.cli import main
from mothtrap.reader.run import open_run
from mothtrap.report import heatmap
from mothtrap.report.heatmap import FAINTEST

OPACITY = re.compile(r'class="cell" fill-opacity="([0-9.]+)"')


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    make_evidence(tmp_path)
    return tmp_path


def test_the_smallest_norm_is_the_faintest_and_the_largest_in_full_color(runs: Path) -> None:
    drawn = heatmap.heatmap(open_run(runs / "vanish"))
    opacities = [float(found) for found in OPACITY.findall(drawn)]
    assert len(opacities) == len(NORMS) * STEPS
    assert opacities[0] == FAINTEST
    assert opacities[-1] == 1.0
    assert opacities == sorted(opacities)
    assert f"from {min(NORMS):.3g} (faint) to {max(NORMS):.3g} (full color)" in drawn


def test_the_caption_names_the_color_of_values_that_are_not_finite(
    runs: Path, tmp_path: Path
) -> None:
    assert "Pink" not in heatmap.heatmap(open_run(runs / "vanish"))
    run = MadeRun(tmp_path / "nan", created_s=1.0)
    run.train([1.0] * 4, [1.0, 2.0, math.nan, math.inf])
    run.end()
    drawn = heatmap.heatmap(open_run(tmp_path / "nan"))
    assert 'class="odd"' in drawn
    assert "Pink: not finite." in drawn


def test_every_cell_tells_its_step_and_its_norm(runs: Path) -> None:
    drawn = heatmap.heatmap(open_run(runs / "vanish"))
    assert "<title>step 0: 1e-08</title>" in drawn
    assert f"<title>step {STEPS - 1}: 1</title>" in drawn


def test_of_many_parameters_some_at_equal_distances_are_drawn(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heatmap, "MOST_ROWS", 2)
    drawn = heatmap.heatmap(open_run(runs / "vanish"))
    assert "2 of 4 parameters" in drawn
    assert len(OPACITY.findall(drawn)) == 2 * STEPS
    assert "0.bias" in drawn
    assert "6.bias" in drawn


def test_a_run_without_gradients_has_no_heatmap(tmp_path: Path) -> None:
    MadeRun(tmp_path / "bare", created_s=1.0).end()
    assert heatmap.heatmap(open_run(tmp_path / "bare")) == ""


def test_the_report_has_the_heatmap(runs: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    done = CliRunner().invoke(main, ["report", str(runs / "vanish"), "-o", str(target)])
    assert done.exit_code == 0
    assert "Gradients by layer" in target.read_text(encoding="utf-8")
