"""Trees trained on Dask workers: the model is unchanged, each worker has its own record."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harness.running import ITSELF, observed, run, show

pytest.importorskip("distributed")

import mothtrap

PROGRAM = Path(__file__).parent / "programs" / "on_dask.py"


def trained(library: str, kind: str, folder: Path) -> mothtrap.Run:
    """Train with and without mothtrap, compare, and return the run."""
    target = [*ITSELF, PROGRAM, library, kind]
    plain = run(target, cwd=folder)
    assert plain.returncode == 0, plain.stderr
    words = observed(["--", *target], runs_dir=folder, name="seen", python=ITSELF)
    seen = run(words, cwd=folder)
    assert seen.returncode == 0, seen.stderr
    assert seen.digests == plain.digests != {}
    assert "switched off" not in seen.stderr
    return mothtrap.open_run(folder / "seen")


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_each_worker_has_its_rounds(library: str, tmp_path: Path) -> None:
    found = trained(library, "processes", tmp_path)
    assert len(found.workers) == 2
    record = show(tmp_path / "seen", cwd=tmp_path)
    assert record["run"]["steps"] == 12
    assert not [f for f in record["findings"] if f["severity"] != "info"], record["findings"]
    places = {f["location"] for f in record["findings"]}
    assert places <= {None}, places  # workers execute no line of the script


@pytest.mark.smoke
def test_of_workers_in_one_process_one_is_observed_and_the_run_says_so(tmp_path: Path) -> None:
    found = trained("xgboost", "threads", tmp_path)
    assert len(found.workers) == 1
    record = show(tmp_path / "seen", cwd=tmp_path)
    assert record["run"]["steps"] == 12
    assert [part["what"] for part in record["blind"]] == ["training in other threads"]
